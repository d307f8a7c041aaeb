"""The example project's settings, with the host apps of the tests installed beside its own."""

import os
from pathlib import Path

import django

from project import settings as project
from project.settings import *  # noqa: F403

DEBUG = False
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast, and only for tests

if not os.environ.get("MAIL_HOST"):
    # For child processes; in the tests' own process Django collects the mails in memory.
    _dummy = "django.core.mail.backends.dummy.EmailBackend"
    if django.VERSION >= (6, 1):
        MAILERS = {"default": {"BACKEND": _dummy}}
    else:
        EMAIL_BACKEND = _dummy

# Every package of tests/hosts with an apps.py is a host application.
_hosts = (Path(__file__).parent / "hosts").glob("*/apps.py")
INSTALLED_APPS = [
    *project.INSTALLED_APPS,
    "tests.oddities",
    "tests.scale",
    *sorted(f"tests.hosts.{apps.parent.name}" for apps in _hosts),
]

if "postgresql" in DATABASES["default"]["ENGINE"]:  # noqa: F405
    # A wait that would not end is an error that names its statement, before a test's time is up.
    DATABASES["default"]["OPTIONS"]["options"] = (  # noqa: F405
        "-c lock_timeout=90s -c statement_timeout=100s -c idle_in_transaction_session_timeout=100s"
    )
