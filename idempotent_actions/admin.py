"""A first admin: the audit trail and the runs, to read. Nobody changes them here."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from idempotent_actions.models import Escalation, Run
from idempotent_actions.registry import registry

__all__ = ["EscalationAdmin", "ReadOnlyAdmin", "RunAdmin"]


class ActionFilter(admin.SimpleListFilter):
    """Filters by the registered actions: their names are known without reading the table."""

    title = "action"
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names of all actions and of the passes that run on their own."""
        names = {action.name for action in registry}
        names |= {action.detection.name for action in registry.ladders()}
        return [(name, name) for name in sorted(names)]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> models.QuerySet[Any]:
        """Keep the rows of the chosen action."""
        return queryset.filter(action=self.value()) if self.value() else queryset


if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(ModelAdmin):
    """Append-only: not even a superuser changes what the app has recorded."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes."""
        return False


@admin.register(Escalation)
class EscalationAdmin(ReadOnlyAdmin):
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

    @admin.display(description="subject", ordering="subject_pk")
    def subject_link(self, row: Escalation) -> str:
        """Link to the subject's own admin page, where the host has one."""
        name = f"{row.subject_model}:{row.subject_pk}"
        app_label, _, model_name = row.subject_model.partition(".")
        try:
            url = reverse(
                f"{self.admin_site.name}:{app_label}_{model_name}_change", args=[row.subject_pk]
            )
        except NoReverseMatch:
            return name
        return format_html('<a href="{}">{}</a>', url, name)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """What each poll found and did."""

    list_display = (
        "id",
        "action",
        "started_at",
        "outcome",
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
