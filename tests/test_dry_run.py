"""The dry run: it lists exactly what the next tick does, and writes nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models.signals import post_save, pre_save
from django.test.utils import CaptureQueriesContext
from django_fsm.signals import post_transition, pre_transition

from idempotent_actions import Action
from idempotent_actions.models import Escalation
from idempotent_actions.polling import PollOptions, tick
from idempotent_actions.reports import Report
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.asking import DAY
from tests.explaining.parcels import TrackedParcels, make_parcel
from tests.invoices import DUE, make_invoice
from tests.oddities.models import DispatchParcels
from tests.registering import only
from tests.situations import Picky, one_of_each


@pytest.fixture
def on_the_due_day() -> Iterator[None]:
    with only(Picky, TrackedParcels), travel(DUE):
        yield


Acts = list[tuple[str, str, str, tuple[str, ...]]]


def written(report: Report) -> Acts:
    """What a tick did, by its audit rows; a poll's resolving is counted, not listed."""
    rows = Escalation.objects.filter(run=report.run).exclude(transition="resolve").order_by("id")
    return [
        (f"{row.subject_model}:{row.subject_pk}", row.transition, rung_climbed(row), requested(row))
        for row in rows
    ]


def requested(row: Escalation) -> tuple[str, ...]:
    return tuple(row.captures.order_by("id").values_list("effect", flat=True))


def rung_climbed(row: Escalation) -> str:
    return row.rung if row.transition == "escalate" else ""


def planned(report: Report) -> Acts:
    return [(each.subject, each.transition, each.rung, each.effects) for each in report.planned]


COUNTS = ("missing", "resolved", "marked", "selected", "applied", "exhausted", "failed", "skipped")


def counts(report: Report) -> dict[str, Any]:
    return {name: getattr(report, name) for name in COUNTS}


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
@pytest.mark.parametrize("mark", [True, False], ids=["mark", "no mark"])
@pytest.mark.parametrize("limit", [None, 0, 1, 4, 7, 100])
@pytest.mark.parametrize("batch_size", [500, 3])
def test_it_lists_exactly_what_the_next_tick_does(
    limit: int | None, batch_size: int, mark: bool
) -> None:
    one_of_each()
    for name in ("no effect", "no intent", "refused", "unreadable", "unstorable", "twice"):
        make_parcel(name)
    make_parcel("sealed twice", seals=2)
    options: PollOptions = {"limit": limit, "batch_size": batch_size, "mark": mark}
    dry: PollOptions = {**options, "dry_run": True}
    foretold = tick(**dry)
    done = tick(**options)

    for one, other in zip(foretold, done, strict=True):
        assert planned(one) == written(other)
        if limit is None:
            assert counts(one) == counts(other)
            assert one.errors == other.errors
    assert len(planned(foretold[0])) == min(limit if limit is not None else 100, 14 if mark else 4)


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
def test_it_lists_what_the_tick_does_on_every_day_that_follows() -> None:
    one_of_each()
    for day in range(0, 60, 5):
        with travel(DUE + day * DAY):
            foretold, done = tick(dry_run=True), tick()
        for one, other in zip(foretold, done, strict=True):
            assert (planned(one), counts(one)) == (written(other), counts(other))


def everything_stored() -> dict[str, Any]:
    """Every row of every table, and how far each sequence has counted."""
    stored: dict[str, Any] = {
        model._meta.label: list(model._base_manager.order_by("pk").values())
        for model in apps.get_models()
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT sequencename, last_value FROM pg_sequences ORDER BY 1")
        stored["sequences"] = cursor.fetchall()
    return stored


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("on_the_due_day")
def test_it_writes_nothing_and_locks_nothing() -> None:
    one_of_each()
    before = everything_stored()
    # What follows from them sends no statement, so that no savepoint is needed either.
    with only(Picky, DispatchParcels), CaptureQueriesContext(connection) as queries:
        reports = tick(dry_run=True)
    assert reports[0].planned
    assert everything_stored() == before
    for query in queries:
        # Transitions are rehearsed in a transaction that is rolled back.
        assert query["sql"].startswith(("SELECT", "BEGIN", "ROLLBACK"))
        assert " FOR " not in query["sql"].upper().replace(" FOR EACH ", "")


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("on_the_due_day")
def test_it_works_where_the_database_allows_no_write_no_lock_and_no_sequence_value() -> None:
    one_of_each()
    allowed = tick(dry_run=True)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        read_only = tick(dry_run=True)
    assert read_only == allowed


@contextmanager
def receivers(model: type[Any]) -> Iterator[list[str]]:
    heard: list[str] = []
    signals: dict[str, Any] = {
        "pre_save": pre_save,
        "post_save": post_save,
        "pre_transition": pre_transition,
        "post_transition": post_transition,
    }

    def listener(name: str) -> Callable[..., None]:
        return lambda **kwargs: heard.append(name)

    listeners = {name: listener(name) for name in signals}
    for name, signal in signals.items():
        signal.connect(listeners[name], sender=model)
    try:
        yield heard
    finally:
        for name, signal in signals.items():
            signal.disconnect(listeners[name], sender=model)


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
def test_it_fires_no_signal() -> None:
    one_of_each()
    with receivers(Invoice) as heard:
        tick(dry_run=True)
        assert heard == []
        tick()
        assert set(heard) == {"pre_save", "post_save", "pre_transition", "post_transition"}


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
def test_a_rule_that_raises_is_reported_and_the_other_actions_are_listed() -> None:
    class Broken(DispatchParcels):
        name = "broken"

        def get_queryset(self) -> Any:
            raise LookupError("no such tenant")

    make_invoice()
    actions: list[type[Action]] = [Broken, Picky]
    with only(*actions):
        broken, fine = tick(dry_run=True)
    assert (broken.failed, broken.applied) == (1, 0)
    assert broken.errors == [{"subject": "oddities.parcel", "error": "LookupError: no such tenant"}]
    assert len(fine.planned) == 1
