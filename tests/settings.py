"""The example project's settings, with the host apps of the tests installed beside its own."""

from pathlib import Path

from project import settings as project
from project.settings import *  # noqa: F403

DEBUG = False
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast, and only for tests

# Every package of tests/hosts with an apps.py is a host application.
_hosts = (Path(__file__).parent / "hosts").glob("*/apps.py")
INSTALLED_APPS = [
    *project.INSTALLED_APPS,
    "tests.oddities",
    "tests.scale",
    *sorted(f"tests.hosts.{apps.parent.name}" for apps in _hosts),
]
