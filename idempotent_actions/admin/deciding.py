"""The page that confirms a person's decision about captures, as they are now."""

import logging
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse

from idempotent_actions import clock
from idempotent_actions.admin.base import guarded, render_page
from idempotent_actions.admin.decisions import DECISIONS, Decision, answer
from idempotent_actions.delivering import home
from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.models import Capture, CaptureState
from idempotent_actions.reports import describe_error

__all__ = ["MOST", "urls"]

MOST = 100
"""Captures that are decided about at once."""

_LONGEST_ID = 18
"""Digits of a primary key: more than that, and a database may refuse to compare it."""

logger = logging.getLogger(__name__)


def urls(model_admin: Any) -> list[Any]:
    """Return the address of the page; ``model_admin`` is the captures' own."""
    return [
        path(
            "decide/<str:decision>/",
            guarded(model_admin, partial(_decide, model_admin), "view_capture"),
            name="idempotent_actions_capture_decide",
        )
    ]


class DecideForm(forms.Form):
    """Why, and each capture as the person saw it: one that has moved meanwhile is left alone."""

    provider_ref = forms.CharField(
        label="Provider's reference",
        max_length=255,
        widget=AdminTextInputWidget,
        help_text="The provider's own name of it, as its site or support gives it.",
    )
    refresh = forms.BooleanField(
        label="With today's parameters",
        required=False,
        help_text="A corrected address, a new card; otherwise it is sent with the frozen ones.",
    )
    note = forms.CharField(
        max_length=255, widget=AdminTextInputWidget, help_text="How it is known, and why. Kept."
    )

    def __init__(self, decision: Decision, captures: list[Capture], data: Any = None) -> None:
        super().__init__(data)
        self.asks = decision.asks
        self.pks = [each.pk for each in captures]
        for name in {"provider_ref", "refresh"} - set(decision.asks):
            del self.fields[name]
        for each in captures:
            self.fields[f"state_{each.pk}"] = forms.ChoiceField(
                choices=CaptureState.choices, initial=each.state, widget=forms.HiddenInput
            )
            for name in ("token", "generation"):
                self.fields[f"{name}_{each.pk}"] = forms.IntegerField(
                    initial=getattr(each, name), widget=forms.HiddenInput
                )

    @property
    def is_blind(self) -> bool:
        """Tell whether it doesn't say, or not readably, what the person saw."""
        return any(field.errors for field in self.hidden_fields())

    def seen(self, capture: Capture) -> Capture:
        """Return the capture as the person saw it."""
        return Capture(
            pk=capture.pk,
            action=capture.action,
            subject_model=capture.subject_model,
            subject_pk=capture.subject_pk,
            state=self.cleaned_data[f"state_{capture.pk}"],
            token=self.cleaned_data[f"token_{capture.pk}"],
            generation=self.cleaned_data[f"generation_{capture.pk}"],
        )

    def arguments(self) -> dict[str, Any]:
        """Return what the service is told beside the capture."""
        return {name: self.cleaned_data[name] for name in ("note", *self.asks)}


def _decide(model_admin: Any, request: HttpRequest, decision: str) -> HttpResponse:
    chosen = DECISIONS.get(decision)
    if chosen is None:
        raise Http404(f"There is no decision {decision!r}.")
    if not request.user.has_perm(f"idempotent_actions.{chosen.permission}"):
        raise PermissionDenied
    captures = _asked_for(model_admin, request, chosen)
    back = _back(model_admin, captures)
    if request.method == "POST":
        form = DecideForm(chosen, captures, request.POST)
        if form.is_valid() and _perform(model_admin, request, chosen, form, captures):
            return HttpResponseRedirect(back)
    else:
        form = DecideForm(chosen, [each for each in captures if chosen.allows(each)])
    now = clock.now(home())
    return render_page(
        model_admin,
        request,
        "decide.html",
        chosen.label,
        decision=chosen,
        form=form,
        back=back,
        shown=[_shown(model_admin, each, chosen, now) for each in captures],
        is_possible=any(chosen.allows(each) for each in captures),
    )


def _asked_for(model_admin: Any, request: HttpRequest, decision: Decision) -> list[Capture]:
    asked = (request.POST if request.method == "POST" else request.GET).getlist("id")
    pks = {int(each) for each in asked if each.isdecimal() and len(each) <= _LONGEST_ID}
    if not pks or len(pks) > (1 if decision.alone else MOST):
        raise Http404("No captures, or too many.")
    captures = list(model_admin.get_queryset(request).filter(pk__in=pks).order_by("pk"))
    if not captures:
        raise Http404("There are no such captures.")
    return captures


def _back(model_admin: Any, captures: list[Capture]) -> str:
    site = model_admin.admin_site.name
    if len(captures) == 1:
        return reverse(f"{site}:idempotent_actions_capture_change", args=[captures[0].pk])
    return reverse(f"{site}:idempotent_actions_capture_changelist")


def _shown(model_admin: Any, capture: Capture, decision: Decision, now: Any) -> dict[str, Any]:
    return {
        "capture": capture,
        "subject": model_admin.subject_link(capture),
        "redacted": model_admin.redacted(capture),
        "means": decision.means(capture, now) if decision.allows(capture) else "",
    }


def _perform(
    model_admin: Any,
    request: HttpRequest,
    decision: Decision,
    form: DecideForm,
    captures: list[Capture],
) -> bool:
    """Call the service for each capture and tell what came of it; False: mend the form.

    An error at the first one is about all of them, the note for example, and nothing is written.
    """
    told: list[tuple[int, str]] = []
    for each in captures:
        try:
            outcome = decision.perform(form.seen(each), by=request.user, **form.arguments())
        except Exception as error:
            problem = model_admin.redacted(each).text(_told(error))
            if not told:
                form.add_error(None, problem)
                return False
            told.append((messages.ERROR, f"{each.effect} {each.pk}: {problem}"))
            continue
        if outcome.applied:
            model_admin.log_change(request, each, f"{decision.label}: {form.cleaned_data['note']}")
        level = messages.SUCCESS if outcome.applied else messages.WARNING
        told.append((level, f"{each.effect} {each.pk}: {answer(decision, outcome)}"))
    for level, text in told:
        messages.add_message(request, level, text)
    return True


def _told(error: Exception) -> str:
    if isinstance(error, IdempotentActionsError):
        return str(error)
    logger.error("a decision failed", exc_info=error, extra={"action": "decision_failed"})
    return f"It failed, and nothing was done: {describe_error(error)}"
