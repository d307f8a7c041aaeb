"""The captures: what was done, what waits, what needs a person, and all that helps to decide it."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from idempotent_actions import clock
from idempotent_actions.admin import deciding
from idempotent_actions.admin.base import ActionFilter, SubjectLink
from idempotent_actions.admin.decisions import decide_page, possible, recovery_in_words
from idempotent_actions.admin.filters import (
    EffectFilter,
    NarrowAdmin,
    NeedsFilter,
    StateFilter,
    about_subject,
)
from idempotent_actions.admin.redacting import Redacted
from idempotent_actions.admin.showing import boxed
from idempotent_actions.delivering import home
from idempotent_actions.effects import find_effect
from idempotent_actions.models import Capture
from idempotent_actions.pausing import paused_by

__all__ = ["CaptureAdmin"]

_MOST_TRIES = 50
"""Tries, and as many decisions, that a capture's page shows: the newest."""

_RECORD = (
    "action",
    "generation",
    "token",
    "attempts",
    "created_at",
    "first_sent_at",
    "wake_at",
    "finished_at",
    "pruned_at",
    "recovery",
)


@admin.register(Capture)
class CaptureAdmin(NarrowAdmin, SubjectLink):
    """The queue of what needs a person, and each capture with what helps to decide it."""

    list_display = (
        "effect",
        "shown_state",
        "subject_link",
        "waits",
        "attempts",
        "age",
        "doubt",
    )
    list_filter = (NeedsFilter, StateFilter, EffectFilter, ActionFilter)
    search_fields = ("key",)  # for the box; see found()
    search_help_text = (
        "Exactly: a key, a provider's reference, a subject like billing.invoice:42, or its "
        "primary key alone. Finds finished ones, too."
    )
    actions = ("retry_same_key", "mark_failed", "void")
    change_form_template = "admin/idempotent_actions/capture_change_form.html"
    fieldsets = (
        (
            "What it was to do",
            {"fields": ("effect", "subject_link", "shown_params", "provider_key", "key")},
        ),
        (
            "What is known",
            {"fields": ("shown_state", "waits", "doubt", "provider_ref", "shown_result")},
        ),
        ("What went wrong", {"fields": ("shown_error", "shown_hook_error")}),
        ("The record", {"fields": _RECORD}),
    )
    readonly_fields = (
        "subject_link",
        "shown_params",
        "provider_key",
        "shown_state",
        "waits",
        "doubt",
        "shown_result",
        "shown_error",
        "shown_hook_error",
        "recovery",
    )

    def get_urls(self) -> list[Any]:
        """Add the page that confirms a decision."""
        return [*deciding.urls(self), *super().get_urls()]

    def found(self, term: str) -> Q:
        """Return the captures of a key, a provider's reference or a subject."""
        return Q(key=term) | Q(provider_ref=term) | about_subject(term)

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Hand the template what was tried, what was decided, and what can be."""
        capture = kwargs.get("obj")
        if capture is not None:
            context.update(self._beside(request, capture))
        return super().render_change_form(request, context, *args, **kwargs)

    def redacted(self, capture: Capture) -> Redacted:
        """Return what may be shown of it."""
        return Redacted(capture, find_effect(capture.effect))

    # -- columns and fields

    @admin.display(description="state")
    def shown_state(self, capture: Capture) -> SafeString:
        """Show the state; loud where it needs a person."""
        loud = format_html(' <strong class="ia-state ia-failed">{}</strong>', "hook failed")
        return format_html(
            '<span class="ia-state ia-{0}">{0}</span>{1}',
            capture.state,
            loud if capture.hook_error else "",
        )

    @admin.display(description="waits for")
    def waits(self, capture: Capture) -> str:
        """Show why it was last left as it is, and since when."""
        if not capture.waiting_for or capture.waiting_since is None:
            return capture.waiting_for or "-"
        return f"{capture.waiting_for} (for {_since(capture.waiting_since)})"

    @admin.display(description="in doubt")
    def doubt(self, capture: Capture) -> str:
        """Show whether some try may have done it: in words, as a tick would look like good news."""
        return "may have happened" if capture.in_doubt else "no"

    @admin.display(description="age")
    def age(self, capture: Capture) -> str:
        """Show how long ago it was requested."""
        return _since(capture.created_at)

    @admin.display(description="parameters")
    def shown_params(self, capture: Capture) -> SafeString:
        """Show the frozen parameters, but for those that the effect declares secret."""
        return boxed(self.redacted(capture).params, "Parameters", "ia-params")

    @admin.display(description="result")
    def shown_result(self, capture: Capture) -> SafeString:
        """Show what the effect brought back; of what is no JSON only its text was kept."""
        name = "Result, as text" if capture.result_is_repr else "Result"
        return boxed(self.redacted(capture).result, name, "ia-params")

    @admin.display(description="error")
    def shown_error(self, capture: Capture) -> SafeString:
        """Show class, code and message of the last error."""
        error = self.redacted(capture).error
        if not error:
            return boxed("", "")
        message = boxed(error.get("message", ""), "Message of the error")
        name, code = error.get("class", ""), error.get("code", "")
        return format_html("<strong>{}</strong> <code>{}</code><br>{}", name, code, message)

    @admin.display(description="error of the hook")
    def shown_hook_error(self, capture: Capture) -> SafeString:
        """Show what the host's own hook raised."""
        return boxed(self.redacted(capture).hook_error, "Error of the hook")

    @admin.display(description="if unknown")
    def recovery(self, capture: Capture) -> str:
        """Say what its policy does about an unknown outcome."""
        return recovery_in_words(capture)

    # -- decisions about many

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Tell who may decide about captures."""
        return request.user.has_perm("idempotent_actions.decide_capture")

    @admin.action(description="Retry with the same key ...", permissions=["decide"])
    def retry_same_key(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Lead to the page that confirms it."""
        return self._confirmed("retry_same_key", request, queryset)

    @admin.action(description="Mark failed ...", permissions=["decide"])
    def mark_failed(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Lead to the page that confirms it."""
        return self._confirmed("mark_failed", request, queryset)

    @admin.action(description="Void ...", permissions=["decide"])
    def void(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Lead to the page that confirms it."""
        return self._confirmed("void", request, queryset)

    def _confirmed(self, decision: str, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        pks = list(queryset.order_by("-id").values_list("pk", flat=True)[: deciding.MOST + 1])
        if len(pks) <= deciding.MOST:
            return HttpResponseRedirect(decide_page(self.admin_site.name, decision, *pks))
        text = f"Choose at most {deciding.MOST}: each of them is shown before it is decided."
        self.message_user(request, text, messages.ERROR)
        return None

    def _beside(self, request: HttpRequest, capture: Any) -> dict[str, Any]:
        now = clock.now(home())
        redacted = self.redacted(capture)
        may = request.user.has_perm
        return {
            "decisions": [
                {
                    "label": each.label,
                    "means": each.means(capture, now),
                    "link": decide_page(self.admin_site.name, name, capture.pk)
                    if may(f"idempotent_actions.{each.permission}")
                    else "",
                }
                for name, each in possible(capture).items()
            ],
            "paused": paused_by(home(), now, action=capture.action, effect=capture.effect),
            "tries": [
                (each, redacted.of_error(each.error))
                for each in capture.tries.order_by("-id")[:_MOST_TRIES]
            ],
            "decided": capture.decisions.order_by("-id")[:_MOST_TRIES],
            "most": _MOST_TRIES,
        }


def _since(instant: Any) -> str:
    return timesince(instant, timezone.now()).replace("\N{NO-BREAK SPACE}", " ")
