"""What a host does on a save or a transition happens on every path, a poll's batches included."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models import Q
from django.db.models.signals import post_save

from idempotent_actions import polling, services, testing
from idempotent_actions.actions import Action
from idempotent_actions.models import Escalation, LadderModel
from idempotent_actions.reports import Report
from tests.hosts.hooks.actions import (
    EscalateFines,
    EscalateLoans,
    EscalateParcels,
    EscalateRentals,
)
from tests.hosts.hooks.models import Fine, History, Loan, Parcel, Rental
from tests.hosts.hooks.receivers import CURSED

pytestmark = pytest.mark.django_db

DUE = datetime(2026, 3, 2, tzinfo=UTC)
NOW = DUE + timedelta(hours=1)
ALL = [(Fine, EscalateFines), (Rental, EscalateRentals), (Loan, EscalateLoans)]


def make(model: Any, *names: str) -> None:
    """Make overdue rows, and forget what was noted about that."""
    for name in names:
        model.objects.create(name=name, due_at=DUE)
    History.objects.all().delete()


def tick(action: type[Action], **options: Any) -> Report:
    with testing.travel(NOW):
        (report,) = testing.tick(action, **options)
    return report


def test_a_save_of_the_models_own_runs_in_detection_and_in_escalation() -> None:
    make(Fine, "a", "b")
    assert tick(EscalateFines).applied == 2
    assert History.lines() == [
        "saved a overdue",
        "saved b overdue",
        "saved a escalated notice",
        "saved b escalated notice",
    ]
    assert set(Fine.objects.values_list("search_text", flat=True)) == {
        "a escalated notice",
        "b escalated notice",
    }


def test_a_save_of_a_mixin_behind_the_ladder_runs_too() -> None:
    make(Rental, "a", "b")
    assert tick(EscalateRentals).applied == 2
    assert History.lines() == [
        "saved a overdue",
        "saved b overdue",
        "saved a escalated notice",
        "saved b escalated notice",
    ]


def test_receivers_of_save_signals_hear_of_detection_and_of_escalation() -> None:
    make(Loan, "a")
    assert tick(EscalateLoans).applied == 1
    assert History.lines() == [
        "before save: a overdue",
        "after save: a overdue",
        "before save: a escalated notice",
        "after save: a escalated notice",
    ]


def test_receivers_of_transition_signals_hear_of_detection_and_of_escalation() -> None:
    make(Parcel, "a")
    assert tick(EscalateParcels).applied == 1
    assert History.lines() == [
        "before mark_overdue: a open",
        "after mark_overdue: a overdue",
        "before escalate: a overdue",
        "after escalate: a escalated notice",
    ]


def test_a_receiver_that_is_connected_later_is_heard_too() -> None:
    heard = []

    def listen(instance: Parcel, **kwargs: Any) -> None:
        heard.append(str(instance))

    make(Parcel, "a")
    post_save.connect(listen, sender=Parcel)
    try:
        tick(EscalateParcels)
    finally:
        post_save.disconnect(listen, sender=Parcel)
    assert heard == ["a overdue", "a escalated notice"]


@pytest.mark.parametrize(("model", "action"), ALL)
def test_a_row_with_hooks_climbs_once_and_has_one_audit_row(
    model: type[LadderModel], action: type[Action]
) -> None:
    make(model, *"abcde")
    assert [tick(action, batch_size=2).applied for _ in range(2)] == [5, 0]
    assert Escalation.objects.count() == 5


@pytest.mark.parametrize(("model", "action"), [*ALL, (Parcel, EscalateParcels)])
def test_a_dry_run_saves_nothing_and_signals_nothing(model: Any, action: type[Action]) -> None:
    make(model, "a")
    assert tick(action, dry_run=True).applied == 1
    assert History.lines() == []
    assert not Escalation.objects.exists()


@pytest.mark.parametrize(
    "act",
    [
        lambda row: services.act(EscalateFines, row, by="clerk", reason="late", now=NOW),
        lambda row: services.resolve(row, by="clerk", reason="settled"),
        lambda row: services.cancel(row, by="clerk", reason="a mistake"),
        lambda row: services.hold(row, NOW, by="clerk", reason="ill", now=DUE),
        lambda row: services.adopt(
            EscalateFines, Fine.objects.all(), next_at=NOW, by="clerk", reason="old", now=DUE
        ),
    ],
    ids=["act", "resolve", "cancel", "hold", "adopt"],
)
def test_the_acts_of_a_person_save_as_the_host_does(act: Any) -> None:
    make(Fine, "a")
    act(Fine.objects.get())
    fine = Fine.objects.get()
    assert History.lines()[-1] == f"saved {fine.name} {fine.status} {fine.rung}".strip()


def test_a_healed_row_is_saved_as_the_host_does() -> None:
    make(Fine, "a")
    tick(EscalateFines)
    Fine.objects.update(status="overdue", rung="", search_text="stale")
    assert tick(EscalateFines).skipped == {"healed": 1}
    assert Fine.objects.get().search_text == "a escalated notice"


@pytest.mark.parametrize(
    ("model", "action", "status", "undone"),
    [
        (Loan, EscalateLoans, "open", f"save: {CURSED}"),  # refused as it is marked
        (Parcel, EscalateParcels, "overdue", f"escalate: {CURSED}"),
    ],
)
def test_a_hook_that_refuses_a_row_undoes_what_hooks_wrote_for_it_and_no_other_row(
    model: Any, action: type[Action], status: str, undone: str
) -> None:
    make(model, "a", CURSED, "b")

    with testing.travel(NOW):
        (report,) = polling.tick(f"escalate_overdue:{model._meta.label_lower}")

    assert (report.applied, report.failed) == (2, 1)
    assert report.errors[0]["error"] == "RuntimeError: cursed"
    cursed = model.objects.get(name=CURSED)
    assert (cursed.status, cursed.rung) == (status, "")
    assert not [line for line in History.lines() if undone in line]
    assert Escalation.objects.count() == 2
    assert not Escalation.objects.about(cursed).exists()


def test_a_missing_subject_is_saved_as_the_host_does() -> None:
    class CancelFines(Action):
        name = "cancel_fines"
        model = Fine
        transition = "cancel"

        def due(self, now: datetime) -> Q:
            return Q(pk=None)

        def occurrence(self, subject: Fine) -> str:
            return str(subject.cycle)

        def missing_subjects(self, now: datetime) -> Iterator[Fine]:
            yield Fine(name="a")
            yield Fine(name="b")

    with testing.registered(CancelFines):
        testing.tick("cancel_fines")
    assert History.lines() == ["saved a open", "saved b open"]
