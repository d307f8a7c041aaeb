"""A place in the admin's list of models, and permissions, for pages that aren't about one table."""

from typing import Any, ClassVar

from idempotent_actions.models.run import Run

__all__ = ["Overview"]


class Overview(Run):
    """No table of its own: what the overview, the subject's timeline and the preview are under."""

    class Meta:
        proxy = True
        # The admin sorts by name: the blank, which a page doesn't show, puts it first.
        verbose_name = verbose_name_plural = " Overview"
        default_permissions = ("view",)
        permissions: ClassVar[list[tuple[str, Any]]] = [
            ("export_preview", "Can export the preview of the next tick"),
        ]
