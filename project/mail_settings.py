"""Which mail server Django is to use, in the words of its version."""

from typing import Any

import django

__all__ = ["mail_settings"]

SOCKET_TIMEOUT = 10
"""Seconds that one answer of the mail server may take. An SMTP dialogue has some five."""


def mail_settings(host: str, port: int) -> dict[str, Any]:
    """Return the settings with which this Django sends by SMTP; files for an empty ``host``.

    Django 6.1 has MAILERS where older versions have EMAIL_BACKEND and its like.
    """
    smtp = "django.core.mail.backends.smtp.EmailBackend"
    files = "django.core.mail.backends.filebased.EmailBackend"
    if django.VERSION >= (6, 1):
        options = {"host": host, "port": port, "timeout": SOCKET_TIMEOUT}
        mailer = {"BACKEND": smtp, "OPTIONS": options}
        if not host:
            mailer = {"BACKEND": files, "OPTIONS": {"file_path": ".mail"}}
        return {"MAILERS": {"default": mailer}}
    return {
        "EMAIL_BACKEND": smtp if host else files,
        "EMAIL_FILE_PATH": ".mail",
        "EMAIL_HOST": host,
        "EMAIL_PORT": port,
        "EMAIL_TIMEOUT": SOCKET_TIMEOUT,
    }
