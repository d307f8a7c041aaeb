"""A subject's timeline, and the pages that confirm a person's act on it."""

import logging
from datetime import datetime
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from idempotent_actions.admin.acts import ACTS, ActForm, PersonsAct, answer, links
from idempotent_actions.admin.base import guarded, host_page, render_page, subject_page
from idempotent_actions.delivering import home
from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.explaining import explain
from idempotent_actions.models import LadderModel
from idempotent_actions.models.escalation import find_subject
from idempotent_actions.registry import registry
from idempotent_actions.reports import describe_error
from idempotent_actions.timelines import timeline

__all__ = ["urls"]

logger = logging.getLogger(__name__)


def urls(model_admin: Any) -> list[Any]:
    """Return the addresses of a subject's pages."""
    return [
        path(
            "subject/<str:label>/<str:pk>/",
            guarded(model_admin, partial(_timeline, model_admin), "view_overview"),
            name="idempotent_actions_subject",
        ),
        path(
            "subject/<str:label>/<str:pk>/<str:act>/",
            guarded(model_admin, partial(_act, model_admin), "view_overview"),
            name="idempotent_actions_subject_act",
        ),
    ]


def _timeline(model_admin: Any, request: HttpRequest, label: str, pk: str) -> HttpResponse:
    before = _instant(request.GET.get("before", ""))
    found = timeline(label, unquote(pk), before)
    if not found and before is None:
        raise Http404(f"Nothing is known of {label}:{unquote(pk)}.")
    subject = found.subject
    return render_page(
        model_admin,
        request,
        "timeline.html",
        str(subject) if subject is not None else f"{label}:{unquote(pk)}",
        label=label,
        pk=unquote(pk),
        subject=subject,
        is_ladder=isinstance(subject, LadderModel),
        found=found,
        before=before,
        explanation=None if subject is None or before else _explained(subject),
        acts=links(request.user, subject, model_admin.admin_site.name),
        host_page=subject and host_page(model_admin.admin_site.name, label, unquote(pk)),
        sees_captures=request.user.has_perm("idempotent_actions.view_capture"),
    )


def _explained(subject: Any) -> Any:
    try:
        return explain(subject)
    except IdempotentActionsError:
        return None  # no action is registered for it any more


def _instant(text: str) -> datetime | None:
    try:
        instant = parse_datetime(text)
    except ValueError:
        return None
    return instant if instant is not None and timezone.is_aware(instant) else None


def _act(model_admin: Any, request: HttpRequest, label: str, pk: str, act: str) -> HttpResponse:
    chosen = ACTS.get(act)
    if chosen is None:
        raise Http404(f"There is no act {act!r}.")
    if not request.user.has_perm(f"idempotent_actions.{chosen.permission}"):
        raise PermissionDenied
    subject = find_subject(label, unquote(pk), home())
    if not isinstance(subject, LadderModel) or registry.ladder_for(type(subject)) is None:
        raise Http404(f"{label}:{unquote(pk)} stands on no ladder.")
    back = subject_page(model_admin.admin_site.name, label, unquote(pk))
    if request.method == "POST":
        form = ActForm(act, request.POST)
        if form.is_valid() and _perform(chosen, request, form, subject):
            return HttpResponseRedirect(back)
    else:
        form = ActForm(act, initial={"cycle": subject.cycle, "rung": subject.rung})
    return render_page(
        model_admin,
        request,
        "confirm_act.html",
        f"{chosen.label}: {subject}",
        act=chosen,
        subject=subject,
        label=label,
        form=form,
        back=back,
        explanation=_explained(subject),
    )


def _perform(chosen: PersonsAct, request: HttpRequest, form: ActForm, subject: LadderModel) -> bool:
    """Call the service and tell the person what came of it; False: the form has to be mended."""
    until = form.cleaned_data.get("until")
    try:
        outcome = chosen.perform(
            subject,
            *([until] if until else []),
            by=request.user,
            reason=form.cleaned_data["reason"],
            seen=form.seen,
        )
    except IdempotentActionsError as error:
        form.add_error(None, str(error))
        return False
    except Exception as error:  # the host's own hooks
        logger.exception("a person's act failed", extra={"action": "act_failed"})
        form.add_error(None, f"It failed, and nothing was done: {describe_error(error)}")
        return False
    level = messages.SUCCESS if outcome.applied else messages.WARNING
    messages.add_message(request, level, answer(chosen, outcome))
    return True
