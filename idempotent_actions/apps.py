"""The app: it finds the host's ``actions.py`` modules, as the admin finds ``admin.py``."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

__all__ = ["IdempotentActionsConfig"]


class IdempotentActionsConfig(AppConfig):
    """Registers the system checks and imports ``actions.py`` of every installed app."""

    name = "idempotent_actions"
    verbose_name = "Idempotent actions"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load checks and actions once all models are known."""
        from idempotent_actions import (  # noqa: F401 - they register themselves
            checks,
            queue_checks,
            schedule_checks,
        )

        autodiscover_modules("actions")
