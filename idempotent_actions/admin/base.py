"""What the app's admin pages share: nothing is changed by them, and rows link to their subject."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from idempotent_actions.registry import registry

__all__ = ["ActionFilter", "ReadOnlyAdmin", "SubjectLink"]


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


class SubjectLink(ReadOnlyAdmin):
    """A page of rows that are about a subject."""

    @admin.display(description="subject", ordering="subject_pk")
    def subject_link(self, row: Any) -> str:
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
