"""The audit trail and the runs, to read."""

from django.contrib import admin

from idempotent_actions.admin.base import ActionFilter, ReadOnlyAdmin, SubjectLink
from idempotent_actions.models import Escalation, Run

__all__ = ["EscalationAdmin", "RunAdmin"]


@admin.register(Escalation)
class EscalationAdmin(SubjectLink):
    """Who climbed what, when, and by whom."""

    list_display = (
        "acted_at",
        "subject_link",
        "transition",
        "from_status",
        "to_status",
        "rung",
        "actor",
        "reason",
    )
    list_display_links = ("acted_at",)
    list_filter = (ActionFilter, "transition", "rung")
    search_fields = ("subject_pk__exact", "key__startswith", "actor__exact")
    search_help_text = "A subject's primary key, the beginning of a key, or an actor."
    date_hierarchy = "acted_at"
    list_select_related = False
    readonly_fields = ("subject_link",)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """What each poll found and did."""

    list_display = (
        "id",
        "action",
        "slot",
        "started_at",
        "outcome",
        "stopped",
        "marked",
        "resolved",
        "selected",
        "applied",
        "exhausted",
        "failed",
        "skipped",
    )
    list_filter = (ActionFilter,)
    search_fields = ("action__exact",)
    date_hierarchy = "started_at"
