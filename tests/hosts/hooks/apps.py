"""Registers this host with Django."""

from django.apps import AppConfig


class HooksConfig(AppConfig):
    """Models whose save() and signals do more than store."""

    name = "tests.hosts.hooks"
    label = "host_hooks"

    def ready(self) -> None:
        """Connect the receivers."""
        from tests.hosts.hooks import receivers  # noqa: F401 - connects itself
