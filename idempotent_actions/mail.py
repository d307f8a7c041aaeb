"""Sending one e-mail as an effect: what a mail server's answers make certain, and what not."""

import smtplib
from typing import Any, NoReturn

import django
from django.conf import settings
from django.core import mail

from idempotent_actions.policies import Call, NotSent, Receipt, Refused

__all__ = ["send"]


def send(call: Call, message: mail.EmailMessage, *, domain: str = "localhost") -> Receipt:
    """Send ``message`` through Django's e-mail backend, for use inside an effect.

    Its Message-ID becomes the provider key at ``domain``, so that a mail that went out twice after
    all can be told from two mails. Give one message one recipient: of several, some may be refused.

    Returns a receipt with the Message-ID. Raises ``NotSent`` when there was no connection or the
    server said no for now (4xx), ``Refused`` when it said no for good (5xx) or an address is none;
    a connection lost in between is anybody's guess, and raised as it is. The codes are those of
    https://www.rfc-editor.org/rfc/rfc5321#section-4.2.1.
    """
    message_id = f"<{call.idempotency_key}@{domain}>"
    message.extra_headers["Message-ID"] = message_id
    try:
        message.message()
    except ValueError as error:  # a line break in a header
        raise Refused(str(error), code="bad_message") from error
    if not any(address.strip() for address in message.recipients()):
        raise Refused("The message has no recipient.", code="no_recipient")
    connection = _connection()
    if getattr(connection, "timeout", call.timeout) is None:
        connection.timeout = call.timeout  # else a server that never answers holds the worker
    try:
        connection.open()
    except (OSError, smtplib.SMTPException) as error:
        raise NotSent(f"No connection to the mail server: {error}") from error
    try:
        connection.send_messages([message])
    except smtplib.SMTPRecipientsRefused as error:
        code, reason = next(iter(error.recipients.values()))
        _refuse(code, reason, error)
    except smtplib.SMTPResponseException as error:
        _refuse(error.smtp_code, error.smtp_error, error)
    except (smtplib.SMTPNotSupportedError, ValueError) as error:  # before a byte of it was sent
        raise Refused(str(error), code="bad_address") from error
    finally:
        connection.close()
    return Receipt(provider_ref=message_id)


def _connection() -> Any:
    if django.VERSION >= (6, 1) and hasattr(settings, "MAILERS"):
        return mail.mailers.default  # type: ignore[attr-defined,unused-ignore]
    return mail.get_connection()


def _refuse(code: int, reason: bytes | str, error: Exception) -> NoReturn:
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
    if code < 500:
        raise NotSent(f"{code} {text}") from error
    raise Refused(f"{code} {text}", code=str(code)) from error
