"""How the lists are narrowed: filters whose choices no table is read for, and indexed searches."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from idempotent_actions import clock
from idempotent_actions.actions import POLL
from idempotent_actions.admin.base import ReadOnlyAdmin
from idempotent_actions.delivering import home
from idempotent_actions.effects import all_effects
from idempotent_actions.heartbeat import STUCK_AFTER
from idempotent_actions.models import CaptureState
from idempotent_actions.registry import registry

__all__ = [
    "ByFilter",
    "EffectFilter",
    "NamedFilter",
    "NarrowAdmin",
    "NeedsFilter",
    "OutcomeFilter",
    "StateFilter",
    "TransitionFilter",
    "WhenFilter",
    "about_subject",
]

LADDER_ACTS = (
    "adopt",
    "cancel",
    "escalate",
    "exhaust",
    "hold",
    "release",
    "reopen",
    "resolve",
    "skip_rung",
    "step_back",
)
"""What the audit trail tells of ladders; a plain action adds its own transition."""


class _InOneOrder(ChangeList):
    def get_ordering_field(self, field_name: Any) -> None:
        """No column is sorted by, not even by an address that was typed in."""


class NarrowAdmin(ReadOnlyAdmin):
    """A list that its own filters and an indexed search narrow, and nothing else.

    Django's lookups by address would read the whole table, and let who may see a row guess, letter
    by letter, at what it doesn't show.
    """

    show_facets = admin.ShowFacets.NEVER  # they count the whole table

    class Media:
        css = {"all": ("idempotent_actions/admin.css",)}  # noqa: RUF012 - as Django reads it

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow the filters."""
        filters: Iterable[Any] = self.list_filter
        return lookup in {each.parameter_name for each in filters}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return a list in the table's own order."""
        return _InOneOrder

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search for the term as it stands: what is looked up may hold blanks."""
        term = search_term.strip()
        is_asked = bool(term and self.search_fields)
        return (queryset.filter(self.found(term)) if is_asked else queryset), False

    def found(self, term: str) -> Q:
        """Return the rows that ``term`` names, as a rule that an index serves."""
        raise NotImplementedError


def about_subject(term: str) -> Q:
    """Return the rows about ``billing.invoice:42``, or about a bare primary key.

    A bare one is looked for among the models that actions are registered for: with the model's name
    the index on (subject_model, subject_pk) serves it.
    """
    label, _, pk = term.partition(":")
    acted_on = {action.model._meta.label_lower for action in registry}
    bare = Q(subject_model__in=sorted(acted_on), subject_pk=term)
    return bare | Q(subject_model=label.lower(), subject_pk=pk) if pk else bare


class NamedFilter(admin.SimpleListFilter):
    """Filters by a name; ``names`` are offered, and others, which the code has lost, taken."""

    def names(self) -> Iterable[str]:
        """Return what is offered."""
        raise NotImplementedError

    def narrowed(self, rows: QuerySet[Any], name: str) -> QuerySet[Any]:
        """Return the rows that ``name`` stands for: in the column called as the parameter is."""
        return rows.filter(**{str(self.parameter_name): name})

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names."""
        return [(name, name) for name in self.names()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows of the chosen name; no text with a NUL is anywhere."""
        name = self.value()
        if not name:
            return queryset
        return queryset.none() if "\0" in name else self.narrowed(queryset, name)


class EffectFilter(NamedFilter):
    """Filters by the declared effects."""

    title = parameter_name = "effect"

    def names(self) -> Iterable[str]:
        """Return the names of all effects."""
        return sorted(each.name for each in all_effects())


class StateFilter(NamedFilter):
    """Filters captures by their state."""

    title = parameter_name = "state"

    def names(self) -> Iterable[str]:
        """Return the states."""
        return CaptureState.values


class NeedsFilter(NamedFilter):
    """What captures need: a person, unless another choice is made, or one is searched for."""

    title = "what it needs"
    parameter_name = "needs"

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(request, *args)
        wanted = request.GET.get(SEARCH_VAR) or request.GET.get(StateFilter.parameter_name)
        self._unless_chosen = "all" if wanted else "person"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [("person", "a person"), ("stuck", "delivery (stuck)"), ("all", "all")]

    def value(self) -> str:
        """Return what was chosen, or what stands for no choice."""
        return super().value() or self._unless_chosen

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        """Yield the choices alone: "all" is one of them."""
        for name, title in self.lookup_choices:
            query = changelist.get_query_string({self.parameter_name: name})
            yield {"selected": name == self.value(), "query_string": query, "display": title}

    def narrowed(self, rows: Any, name: str) -> QuerySet[Any]:
        """Return the captures that need it; an unknown outcome is a person's to look at, too."""
        match name:
            case "person":
                narrowed = rows.for_a_person() | rows.filter(state=CaptureState.UNKNOWN)
            case "stuck":
                narrowed = rows.due(clock.now(home()) - STUCK_AFTER)
            case _:
                narrowed = rows if name == "all" else rows.none()
        return narrowed  # type: ignore[no-any-return]


class TransitionFilter(NamedFilter):
    """Filters acts by their transition."""

    title = parameter_name = "transition"

    def names(self) -> Iterable[str]:
        """Return the transitions of ladders and of all actions."""
        return sorted({*LADDER_ACTS, *(action.transition for action in registry)})


class _WaysFilter(NamedFilter):
    """Filters in a few ways, each with a rule of its own at an instant."""

    ways: dict[str, Callable[[datetime], Q]]

    def names(self) -> Iterable[str]:
        """Return the names of the ways."""
        return self.ways

    def narrowed(self, rows: QuerySet[Any], name: str) -> QuerySet[Any]:
        """Return what that way's rule finds; there are no others."""
        way = self.ways.get(name)
        return rows.none() if way is None else rows.filter(way(clock.now(home())))


class ByFilter(_WaysFilter):
    """Filters acts by who did them."""

    title = parameter_name = "by"
    ways = {  # noqa: RUF012 - never changed
        "poll": lambda now: Q(actor=POLL),
        "a person": lambda now: ~Q(actor=POLL),
    }


class WhenFilter(_WaysFilter):
    """Filters acts by when they were done: the index on that serves it."""

    title = parameter_name = "when"
    ways = {  # noqa: RUF012 - never changed
        "today": lambda now: Q(acted_at__gte=_midnight(now)),
        "7 days": lambda now: Q(acted_at__gte=now - timedelta(days=7)),
        "30 days": lambda now: Q(acted_at__gte=now - timedelta(days=30)),
    }


class OutcomeFilter(_WaysFilter):
    """Filters runs by what ``Run.outcome`` says of them."""

    title = parameter_name = "outcome"
    ways = {  # noqa: RUF012 - never changed
        "unfinished": lambda now: Q(finished_at=None),
        "stopped": lambda now: Q(finished_at__isnull=False) & ~Q(stopped=""),
        "failed": lambda now: Q(finished_at__isnull=False, stopped="", failed__gt=0),
        "succeeded": lambda now: Q(finished_at__isnull=False, stopped="", failed=0),
    }


def _midnight(now: datetime) -> datetime:
    local = timezone.localtime(now) if timezone.is_aware(now) else now
    return local.replace(hour=0, minute=0, second=0, microsecond=0)
