"""One notice of the example: a text template, whose first line is the subject, to one address."""

from django.core.mail import EmailMessage
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string

from idempotent_actions import NotSent, Receipt, mail
from idempotent_actions.effects import Call

__all__ = ["send_notice"]


def send_notice(call: Call, template: str, to: str) -> Receipt:
    """Send ``template``, filled with the call's parameters. Raises as ``mail.send`` does."""
    try:
        subject, _, text = render_to_string(template, call.params).partition("\n")
    except TemplateDoesNotExist as error:  # nothing has left yet: worth a try after the next deploy
        raise NotSent(f"There is no template {template}") from error
    message = EmailMessage(subject.strip(), text.lstrip(), "no-reply@example.com", [to])
    return mail.send(call, message, domain="example.com")
