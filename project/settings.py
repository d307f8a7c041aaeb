"""Settings of the example project; `DATABASE_URL`, `SECRET_KEY` and `DEBUG` come from outside."""

import os
from pathlib import Path
from typing import Any

import dj_database_url

from project import embedded
from project.mail_settings import mail_settings

BASE_DIR = Path(__file__).resolve().parent.parent

# Good enough for a demo on one's own machine, and for nothing else.
SECRET_KEY = os.environ.get("SECRET_KEY", "insecure-example-key")
DEBUG = os.environ.get("DEBUG", "true").lower() in {"true", "1", "yes", "on"}
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "idempotent_actions",
    "project.billing",
    "project.school",
    "project.partners",
    "project.demo",
    "project.sandbox",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Without a mail server, notices are written to files below .mail.
globals().update(
    mail_settings(os.environ.get("MAIL_HOST", ""), int(os.environ.get("MAIL_PORT", "25")))
)

# `manage.py payment_sandbox` listens there.
PAYMENTS_URL = os.environ.get("PAYMENTS_URL", "http://127.0.0.1:12111")
PAYMENTS_API_KEY = os.environ.get("PAYMENTS_API_KEY", "sk_test_example")

# The partner's ledger, which is no table of ours: an SQLite file.
PARTNER_LEDGER = os.environ.get("PARTNER_LEDGER", str(BASE_DIR / "partner.sqlite3"))

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_database: dict[str, Any] = {"OPTIONS": {}, **dj_database_url.parse(embedded.database_url())}
if _database["ENGINE"] == "django.db.backends.sqlite3":
    # Else a transaction that reads before it writes holds no lock: two of them interleave.
    _database["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
elif _database["ENGINE"] == "django.db.backends.postgresql":
    # The ledger's statements are planned once in a connection. Not behind a pooler that gives each
    # transaction another connection.
    _database["OPTIONS"].setdefault("prepare_threshold", 5)
DATABASES = {"default": _database}

# django-q2 hands a task out again when `retry` seconds have passed since a worker's process took
# it from the broker, also while it still waits in memory. So `retry` must outlast everything that
# can be ahead of it: timeout x (1 + ceil((queue_limit + bulk) / workers)), here 120 seconds.
Q_CLUSTER = {
    "name": "example",
    "orm": "default",
    "workers": 2,
    "queue_limit": 1,
    "bulk": 1,
    "timeout": 60,
    "retry": 180,
    "max_attempts": 5,
    "catch_up": False,  # a poll reads current state: one run makes up for all that were missed
}
