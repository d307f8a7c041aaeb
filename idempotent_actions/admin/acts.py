"""A person's acts on a subject, as the admin offers them: who may, when, and in what words."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextInputWidget
from django_fsm import can_proceed

from idempotent_actions import services
from idempotent_actions.actions import Reason
from idempotent_actions.admin.base import subject_page
from idempotent_actions.exceptions import UnknownAction
from idempotent_actions.models import LadderModel
from idempotent_actions.registry import registry
from idempotent_actions.services import Outcome

__all__ = ["ACTS", "ActForm", "PersonsAct", "answer", "links"]


@dataclass(frozen=True, slots=True)
class PersonsAct:
    """One button: its words, the permission it needs, the service behind it."""

    label: str
    permission: str
    does: str
    done: str
    perform: Callable[..., Outcome]
    transition: str = ""
    """The transition without which there is no button; hold and release have none."""


def _escalate(subject: LadderModel, **request: Any) -> Outcome:
    action = registry.ladder_for(type(subject))
    if action is None:
        raise UnknownAction(f"No LadderAction is registered for {subject._meta.label}.")
    return services.act(action.name, subject, **request)


ACTS = {
    "escalate": PersonsAct(
        "Escalate now",
        "escalate_subject",
        "It climbs the rung that the next poll would climb, if it is due, and that rung's effects "
        "go out with the next delivery.",
        "It has climbed to {rung}.",
        _escalate,
    ),
    "hold": PersonsAct(
        "Hold",
        "hold_subject",
        "It climbs nothing, and nothing is sent, until the instant you give; then it goes on by "
        "itself.",
        "It is held.",
        services.hold,
    ),
    "release": PersonsAct(
        "Release",
        "hold_subject",
        "It is no longer held, and goes on with the next poll.",
        "It is released.",
        services.release,
    ),
    "skip_rung": PersonsAct(
        "Skip a rung",
        "escalate_subject",
        "It stands on its next rung as if it had climbed it, but nothing of that rung is sent.",
        "It stands on {rung} now; nothing is sent for that.",
        services.skip_rung,
        "skip_rung",
    ),
    "step_back": PersonsAct(
        "Step back a rung",
        "escalate_subject",
        "It stands one rung lower, and climbs the rung it leaves, with its effects, once more.",
        "It stands on {rung} now.",
        services.step_back,
        "step_back",
    ),
    "resolve": PersonsAct(
        "Resolve",
        "resolve_subject",
        "Its ladder ends: what was overdue is settled. What is not sent yet is not sent.",
        "It is resolved.",
        services.resolve,
        "resolve",
    ),
    "cancel": PersonsAct(
        "Cancel",
        "resolve_subject",
        "Its ladder ends without settlement. What is not sent yet is not sent.",
        "It is cancelled.",
        services.cancel,
        "cancel",
    ),
    "reopen": PersonsAct(
        "Reopen",
        "resolve_subject",
        "The next cycle begins below the first rung: each rung may be climbed, and sent, again.",
        "It is open again.",
        services.reopen,
        "reopen",
    ),
}

_ANSWERS = {
    Reason.STALE_VIEW: "It has moved since you looked",
    Reason.GONE: "It is gone",
    Reason.HELD: "It is held",
    "not_held": "It isn't held",
    Reason.NOT_DUE: "It isn't due yet",
    Reason.WAITING: "It is waiting for its next deadline",
    Reason.RESOLVED: "The host's own data say that it is settled",
    Reason.WRONG_STATUS: "Its state doesn't allow that",
    Reason.CONDITION: "A condition of the transition doesn't hold",
    Reason.UNKNOWN_RUNG: "The rung it stands on is no longer declared",
    Reason.HEALED: "Its row was behind its own audit trail, and has been put where it belongs",
    Reason.EXCLUDED: "The action's own queryset leaves it out",
    "below_first": "It stands below the first rung already",
    "paused": "A pause is on",
}


def answer(act: PersonsAct, outcome: Outcome) -> str:
    """Say in a sentence what came of it."""
    if outcome.applied:
        return act.done.format(rung=getattr(outcome.subject, "rung", "") or "no rung")
    why = _ANSWERS.get(outcome.reason, f"The answer was “{outcome.reason}”")
    return f"{why}: nothing was done."


def links(user: Any, subject: Any, site_name: str) -> list[tuple[str, str]]:
    """Return (label, address) of the acts that ``user`` may do and the subject's state allows."""
    if not isinstance(subject, LadderModel) or registry.ladder_for(type(subject)) is None:
        return []
    label, pk = subject._meta.label_lower, str(subject.pk)
    return [
        (act.label, subject_page(site_name, label, pk, name))
        for name, act in ACTS.items()
        if user.has_perm(f"idempotent_actions.{act.permission}") and _allows(subject, name, act)
    ]


def _allows(subject: LadderModel, name: str, act: PersonsAct) -> bool:
    live = can_proceed(subject.resolve, check_conditions=False)
    match name:
        case "release":
            return subject.hold_until is not None
        case "hold":
            return live
        case "escalate":
            return live and subject.status != "exhausted"
        case "step_back" if not subject.rung:
            return False
    return can_proceed(getattr(subject, act.transition), check_conditions=False)


class ActForm(forms.Form):
    """Why, and what the person saw: an act on what has moved meanwhile is refused."""

    reason = forms.CharField(
        max_length=255, widget=AdminTextInputWidget, help_text="Kept in the audit trail."
    )
    until = forms.DateTimeField(
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    )
    cycle = forms.IntegerField(widget=forms.HiddenInput)
    rung = forms.CharField(widget=forms.HiddenInput, required=False)

    def __init__(self, act: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if act != "hold":
            del self.fields["until"]

    @property
    def seen(self) -> tuple[int, str]:
        """The (cycle, rung) that was shown."""
        return self.cleaned_data["cycle"], self.cleaned_data["rung"]
