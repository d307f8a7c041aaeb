"""Registers the sandbox with Django."""

from django.apps import AppConfig


class SandboxConfig(AppConfig):
    """The commands ``payment_sandbox`` and ``mail_sandbox``; it has no models."""

    name = "project.sandbox"
    label = "sandbox"
