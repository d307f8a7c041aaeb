"""The parts of the overview as its template wants them: sentences, addresses, numbers, pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse
from django.utils.formats import date_format

from idempotent_actions import charts
from idempotent_actions.funnels import EXHAUSTED, Funnel, Place
from idempotent_actions.models import Capture, DeferredCall, Pause, Run
from idempotent_actions.models.capture import FINISHED, CaptureState
from idempotent_actions.overviews import Captures, Day, Ran, Survey

__all__ = ["Links", "chart_of_days", "drawn", "effects", "last_run", "needs", "states"]

_FOR_A_PERSON = [CaptureState.UNKNOWN, CaptureState.REVIEW, CaptureState.FAILED]

_BEHIND = {
    "unknown": "See what is unknown",
    "review": "Decide what is in review",
    "failed": "Decide what failed",
    "hook_errors": "See the hook errors",
    "stale": "See its runs",
    "died": "See its runs",
    "stuck": "See its captures",
    "paused": "See the pauses",
}

_LABEL_LENGTH = 32
"""Characters of a rung's name in the picture, beside its numbers; the table has the whole of it."""

_LABEL_EACH = 5
"""Days from one that is named below the chart to the next."""


class Links:
    """Addresses on the admin site ``site`` that ``user`` may follow; "" where there is none."""

    def __init__(self, user: Any, site: str) -> None:
        self.user = user
        self.site = site

    def rows(self, model: Any, **query: str) -> str:
        """Return the address of a list, filtered by ``query``."""
        address = self._to(model, "changelist")
        return f"{address}?{urlencode(query)}" if query and address else address

    def row(self, model: Any, pk: Any) -> str:
        """Return the address of a row's page."""
        return self._to(model, "change", pk)

    def preview(self, action: str) -> str:
        """Return the address of the preview of an action's next tick."""
        return self._reversed("preview", action)

    def _to(self, model: Any, page: str, *arguments: Any) -> str:
        name = model._meta.model_name
        if not self.user.has_perm(f"idempotent_actions.view_{name}"):
            return ""
        return self._reversed(f"{name}_{page}", *arguments)

    def _reversed(self, name: str, *arguments: Any) -> str:
        try:
            return reverse(f"{self.site}:idempotent_actions_{name}", args=arguments)
        except NoReverseMatch:  # not on this site, or an action's name that fits no address
            return ""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs a person: ``kind`` chooses the sentence, ``link`` leads to it."""

    kind: str
    link: str = ""
    name: str = ""
    count: int = 1
    since: datetime | None = None
    pause: Pause | None = None
    text: str = ""

    @property
    def link_text(self) -> str:
        """What is found behind the link."""
        return _BEHIND.get(self.kind, "See the calls")


def needs(found: Survey, links: Links) -> Iterator[Need]:
    """Yield what needs a person, what was paused by one at the end."""
    for state in _FOR_A_PERSON:
        if count := found.captures.waiting(state):
            link = links.rows(Capture, needs="all", state=state)
            yield Need(state.value, link, count=count)
    if count := found.captures.hook_errors:
        yield Need("hook_errors", links.rows(Capture), count=count)
    if found.unreadable:
        yield Need("unreadable", text=found.unreadable)
    for trouble in found.troubles:
        if trouble.kind != "paused":  # told below, with who and why
            link = _where(trouble.kind, trouble.name, links)
            yield Need(trouble.kind, link, trouble.name, trouble.count, trouble.since)
    for pause in found.pauses:
        yield Need("paused", links.rows(Pause), pause.name, pause=pause)


def _where(kind: str, name: str, links: Links) -> str:
    if kind in ("stale", "died"):
        return links.rows(Run, action=name)
    if kind == "stuck":
        return links.rows(Capture, needs="stuck", effect=name)
    return links.rows(DeferredCall)


@dataclass(frozen=True, slots=True)
class LastRun:
    """A row of the table of last runs."""

    ran: Ran
    took: str
    skipped: list[tuple[str, Any]]
    link: str
    preview: str


def last_run(ran: Ran, links: Links) -> LastRun:
    """Return the last run of an action as the table shows it."""
    run = ran.run
    preview = "" if ran.alone else links.preview(ran.action)
    if run is None:
        return LastRun(ran, "", [], "", preview)
    took = "" if run.finished_at is None else _duration(run.finished_at - run.started_at)
    skipped = sorted(run.skipped.items()) if isinstance(run.skipped, dict) else []
    return LastRun(ran, took, skipped, links.row(Run, run.pk), preview)


def _duration(length: timedelta) -> str:
    seconds = length.total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A funnel with its picture and what that shows in words: none where there is nothing."""

    funnel: Funnel
    places: list[tuple[str, Place]]
    chart: charts.BarChart
    words: str


def drawn(funnel: Funnel) -> Drawn:
    """Return a funnel with its picture."""
    places = [(_label(each), each) for each in funnel.places]
    numbers = [f"{each.standing} there, {each.cleared} cleared" for each in funnel.places]
    rows = [
        (_shortened(label), told, each.standing, each.cleared)
        for (label, each), told in zip(places, numbers, strict=True)
    ]
    some = any(each.standing or each.cleared for each in funnel.places)
    words = "; ".join(f"{label}: {told}" for label, told, _, _ in rows) if some else ""
    return Drawn(funnel, places, charts.bars(rows), words)


def _shortened(label: str) -> str:
    return label if len(label) <= _LABEL_LENGTH else f"{label[: _LABEL_LENGTH - 1]}…"


def _label(each: Place) -> str:
    return {"": "below the first rung", EXHAUSTED: "exhausted"}.get(each.name, each.name)


@dataclass(frozen=True, slots=True)
class State:
    """How many captures are in a state: all of them, or (None) only among the newest."""

    name: str
    link: str
    open: int | None
    newest: int


def states(captures: Captures, links: Links) -> list[State]:
    """Return the states of captures with their counts, in the order of a capture's life."""
    newest = dict.fromkeys(CaptureState.values, 0)
    for (_, state), count in captures.newest.items():
        newest[state] = newest.get(state, 0) + count
    return [
        State(
            name,
            links.rows(Capture, needs="all", state=name),
            captures.waiting(name) if name not in FINISHED or name == "failed" else None,
            count,
        )
        for name, count in newest.items()
    ]


@dataclass(frozen=True, slots=True)
class EffectRow:
    """The captures of one effect: waiting, needing a person, and finished among the newest."""

    effect: str
    waiting: int
    for_a_person: int
    succeeded: int
    void: int


def effects(captures: Captures) -> list[EffectRow]:
    """Return the captures by effect, sorted by name."""
    names = sorted({effect for effect, _ in [*captures.open, *captures.newest]})
    return [
        EffectRow(
            name,
            captures.open[name, "pending"] + captures.open[name, "sending"],
            sum(captures.open[name, state.value] for state in _FOR_A_PERSON),
            captures.newest[name, "succeeded"],
            captures.newest[name, "void"],
        )
        for name in names
    ]


def chart_of_days(days: Sequence[Day]) -> charts.Columns:
    """Return the picture of the acts per day; each fifth day is named."""
    labels = [
        date_format(each.day, "SHORT_DATE_FORMAT") if position % _LABEL_EACH == 2 else ""
        for position, each in enumerate(days)
    ]
    return charts.columns([(each.by_poll, each.by_people) for each in days], labels)
