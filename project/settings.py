"""Settings of the example project; `DATABASE_URL`, `SECRET_KEY` and `DEBUG` come from outside."""

import os
from pathlib import Path
from typing import Any

import dj_database_url

from project import embedded

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
    "project.demo",
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

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_database: dict[str, Any] = {**dj_database_url.parse(embedded.database_url())}
if _database["ENGINE"] == "django.db.backends.sqlite3":
    # Else a transaction that reads before it writes holds no lock: two of them interleave.
    _database.setdefault("OPTIONS", {})["transaction_mode"] = "IMMEDIATE"
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
