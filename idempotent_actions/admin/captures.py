"""The ledger, to read: what was done, what waits, what nobody can say."""

import json
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html

from idempotent_actions.admin.base import ActionFilter, SubjectLink
from idempotent_actions.effects import all_effects, find_effect
from idempotent_actions.models import Capture, CaptureAttempt, CaptureDecision
from idempotent_actions.running import HIDDEN

__all__ = ["CaptureAdmin"]


class EffectFilter(admin.SimpleListFilter):
    """Filters by the declared effects: their names are known without reading the table."""

    title = "effect"
    parameter_name = "effect"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names of all effects."""
        return sorted((each.name, each.name) for each in all_effects())

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        """Keep the captures of the chosen effect."""
        return queryset.filter(effect=self.value()) if self.value() else queryset


if TYPE_CHECKING:
    TabularInline = admin.TabularInline[Any, Any]
else:
    TabularInline = admin.TabularInline


class _ReadOnlyInline(TabularInline):
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class AttemptInline(_ReadOnlyInline):
    """What was tried."""

    model = CaptureAttempt
    fields = ("token", "generation", "worker", "started_at", "finished_at", "outcome", "late")
    readonly_fields = fields


class DecisionInline(_ReadOnlyInline):
    """What people decided."""

    model = CaptureDecision
    fields = ("decided_at", "decision", "from_state", "to_state", "actor", "note", "provider_ref")
    readonly_fields = fields


@admin.register(Capture)
class CaptureAdmin(SubjectLink):
    """Each outside effect, with its attempts and decisions."""

    list_display = ("id", "effect", "state", "subject_link", "wake_at", "waiting_for", "attempts")
    list_filter = ("state", EffectFilter, ActionFilter)
    search_fields = ("key__startswith", "subject_pk__exact", "provider_ref__exact")
    search_help_text = "The beginning of a key, a subject's primary key, a provider's reference."
    list_select_related = False
    inlines = (AttemptInline, DecisionInline)
    fields = (
        "key",
        "effect",
        "state",
        "subject_link",
        "shown_params",
        "provider_key",
        "provider_ref",
        "result",
        "error",
        "hook_error",
        "generation",
        "token",
        "attempts",
        "created_at",
        "first_sent_at",
        "wake_at",
        "waiting_for",
        "finished_at",
        "pruned_at",
    )
    readonly_fields = ("subject_link", "shown_params", "provider_key")

    @admin.display(description="parameters")
    def shown_params(self, capture: Capture) -> str:
        """Show the frozen parameters, but for those that the effect declares secret.

        Of an effect that the code no longer declares nobody knows which they are: none is shown.
        """
        effect = find_effect(capture.effect)
        shown = {
            name: value if effect is not None and name not in effect.secret else HIDDEN
            for name, value in capture.params.items()
        }
        return format_html("<pre>{}</pre>", json.dumps(shown, indent=2, ensure_ascii=False))
