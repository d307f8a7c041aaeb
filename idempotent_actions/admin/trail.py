"""The audit trail and the runs, to read."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from idempotent_actions.admin.base import ActionFilter, SubjectLink, subject_page
from idempotent_actions.admin.filters import (
    ByFilter,
    NarrowAdmin,
    OutcomeFilter,
    TransitionFilter,
    WhenFilter,
    about_subject,
)
from idempotent_actions.admin.showing import in_its_direction
from idempotent_actions.models import Escalation, Run

__all__ = ["EscalationAdmin", "RunAdmin"]


@admin.register(Escalation)
class EscalationAdmin(NarrowAdmin, SubjectLink):
    """Who climbed what, when, and by whom."""

    list_display = (
        "acted_at",
        "subject_link",
        "transition",
        "from_status",
        "to_status",
        "rung",
        "shown_actor",
        "shown_reason",
    )
    list_display_links = ("acted_at",)
    list_filter = (WhenFilter, ActionFilter, TransitionFilter, ByFilter)
    search_fields = ("key",)  # for the box; see found()
    search_help_text = (
        "Exactly: a key, a subject like billing.invoice:42, or its primary key alone."
    )
    list_select_related = False
    fields = (
        "acted_at",
        "subject_link",
        "action",
        "transition",
        "from_status",
        "to_status",
        "from_rung",
        "rung",
        "cycle",
        "revision",
        "next_at",
        "hold_until",
        "shown_actor",
        "shown_reason",
        "run",
        "key",
    )
    readonly_fields = ("subject_link", "shown_actor", "shown_reason")

    def found(self, term: str) -> Q:
        """Return the acts of a key or about a subject."""
        return Q(key=term) | about_subject(term)

    @admin.display(description="actor")
    def shown_actor(self, act: Escalation) -> SafeString:
        """Show who did it."""
        return in_its_direction(act.actor)

    @admin.display(description="reason")
    def shown_reason(self, act: Escalation) -> SafeString:
        """Show why it was done."""
        return in_its_direction(act.reason)


@admin.register(Run)
class RunAdmin(NarrowAdmin):
    """What each poll found and did."""

    list_display = (
        "started_at",
        "action",
        "shown_outcome",
        "slot",
        "took",
        "marked",
        "resolved",
        "selected",
        "applied",
        "exhausted",
        "failed",
        "shown_skipped",
        "worker",
    )
    list_filter = (OutcomeFilter, ActionFilter)
    list_select_related = False
    change_form_template = "admin/idempotent_actions/run_change_form.html"
    fields = (
        "action",
        "shown_outcome",
        "slot",
        "now",
        "started_at",
        "beat_at",
        "finished_at",
        "took",
        "worker",
        "marked",
        "resolved",
        "selected",
        "applied",
        "exhausted",
        "failed",
        "shown_resumes",
    )
    readonly_fields = ("shown_outcome", "took", "shown_resumes")

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Hand the template the errors, the reasons, and who went on with the run."""
        run = kwargs.get("obj")
        if run is not None:
            context["skipped"] = _counts(run)
            context["errors_of_rows"] = list(self._errors(run))
            context["resumed_by"] = [self._link(each.pk) for each in run.resumed_by.order_by("id")]
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="outcome")
    def shown_outcome(self, run: Run) -> SafeString:
        """Show how it ended; loud where rows failed."""
        why = f" ({run.stopped})" if run.stopped else ""
        return format_html('<span class="ia-state ia-{}">{}</span>{}', *[run.outcome] * 2, why)

    @admin.display(description="took")
    def took(self, run: Run) -> str:
        """Show how long it took."""
        if run.finished_at is None:
            return "-"
        return f"{(run.finished_at - run.started_at).total_seconds():.1f} s"

    @admin.display(description="skipped")
    def shown_skipped(self, run: Run) -> str:
        """Show how many it left alone, by reason."""
        return ", ".join(f"{reason}: {count}" for reason, count in _counts(run)) or "-"

    @admin.display(description="resumes")
    def shown_resumes(self, run: Run) -> SafeString | str:
        """Link to the unfinished run whose slot it took over."""
        return self._link(run.resumes_id) if run.resumes_id is not None else "-"

    def _link(self, pk: int) -> SafeString:
        url = reverse(f"{self.admin_site.name}:idempotent_actions_run_change", args=[pk])
        return format_html('<a href="{}">run {}</a>', url, pk)

    def _errors(self, run: Run) -> Iterator[dict[str, str]]:
        for each in run.errors if isinstance(run.errors, list) else []:
            stored = each if isinstance(each, dict) else {"error": each}
            subject, error = str(stored.get("subject", "")), str(stored.get("error", ""))
            label, _, pk = subject.partition(":")
            # A row that wasn't stored yet goes by its text, in brackets.
            known = label and pk and not pk.startswith("(")
            page = subject_page(self.admin_site.name, label, pk) if known else ""
            yield {"subject": subject, "page": page, "error": error}


def _counts(run: Run) -> list[tuple[str, Any]]:
    return sorted(run.skipped.items()) if isinstance(run.skipped, dict) else []
