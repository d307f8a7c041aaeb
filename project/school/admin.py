"""Interventions in the admin. Their place on the ladder is shown there, not changed."""

from typing import TYPE_CHECKING

from django.contrib import admin

from idempotent_actions.admin import LadderAdminMixin
from project.school.models import Intervention

__all__ = ["InterventionAdmin"]

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Intervention]
else:
    ModelAdmin = admin.ModelAdmin


@admin.register(Intervention)
class InterventionAdmin(LadderAdminMixin, ModelAdmin):
    """Interventions, with their place on the no-show ladder."""

    list_display = (
        "student",
        "programme",
        "due_at",
        "attended",
        "status",
        "rung",
        "cycle",
        "next_at",
        "hold_until",
    )
    list_filter = ("status", "rung", "programme")
    search_fields = ("student", "programme", "guardian_email")
