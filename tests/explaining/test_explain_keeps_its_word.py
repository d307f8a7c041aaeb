"""What `explain` says of a row is what the next tick then does with it, in every situation."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from idempotent_actions.explaining import explain
from idempotent_actions.models import Escalation
from idempotent_actions.polling import tick
from idempotent_actions.reports import Report
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.asking import DAY
from tests.explaining.asked import part
from tests.explaining.parcels import TrackedParcels, make_parcel
from tests.invoices import DUE
from tests.oddities.models import Parcel, Seal
from tests.registering import only
from tests.situations import Picky, one_of_each

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _situations() -> Iterator[None]:
    with only(Picky, TrackedParcels), travel(DUE):
        one_of_each()
        for name in ("no effect", "no intent", "refused", "unreadable", "unstorable", "twice"):
            make_parcel(name)
        make_parcel("sealed twice", seals=2)
        make_parcel("heavy", weight=99)
        make_parcel("broken seal", seals=0)
        make_parcel("sent", state="sent")
        yield


@contextmanager
def undone() -> Iterator[None]:
    """Roll back what happens in the block."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def tick_with(subject: Any) -> tuple[Report, list[Escalation]]:
    """A tick in a world with this row alone; its report, and the acts on the row."""
    Seal.objects.exclude(parcel=subject.pk if isinstance(subject, Parcel) else None).delete()
    for model in (Invoice, Parcel):
        others = model._default_manager.all()
        if isinstance(subject, model):
            others = others.exclude(pk=subject.pk)
        others.delete()
    reports = tick(deliver=False)
    (report,) = [each for each in reports if each.action == part(subject).action]
    acts = Escalation.objects.filter(run=report.run).exclude(transition="resolve")
    return report, list(acts)


def check(subject: Any) -> None:
    """Compare what is said of the row with what a tick does with it."""
    told = part(subject)
    with undone():
        report, acts = tick_with(subject)
        assert told.climbs == bool(acts), (str(subject), told)
        effects = [each.effect for act in acts for each in act.captures.order_by("id")]
        params = [each.params for act in acts for each in act.captures.order_by("id")]
    assert told.climbs == (report.applied == 1)
    assert [each.name for each in told.effects] == effects
    if told.climbs:
        assert (told.reasons, told.due_from) == ((), None)
        assert [act.transition for act in acts] == [told.transition]
        assert told.rung == (acts[0].rung if told.transition == "escalate" else "")
        assert ["token" in each.params for each in told.effects] == ["token" in p for p in params]
        return
    said = {code for code, _ in told.reasons}
    assert said
    assert set(report.skipped) <= said
    assert ("error" in said) == bool(report.failed)
    for error in report.errors:
        assert error["error"] in [sentence for _, sentence in told.reasons]


@pytest.mark.parametrize("later", [0, 1, 20])
def test_it_climbs_as_told_or_there_is_a_reason_which_the_tick_gives_too(later: int) -> None:
    with travel(DUE + later * DAY):
        for subject in [*Invoice.objects.exclude(number__endswith=" 2"), *Parcel.objects.all()]:
            check(subject)


def test_from_the_instant_that_is_named_on_it_climbs_and_not_before() -> None:
    named = [(each, until) for each in Invoice.objects.all() if (until := part(each).due_from)]
    assert len(named) == 16
    for invoice, until in named:
        assert not part(invoice, until - timedelta(microseconds=1)).climbs
        assert part(invoice, until).climbs


def test_all_of_a_model_are_explained_as_the_dry_run_lists_them() -> None:
    planned = {
        each.subject: (each.transition, each.rung, each.effects)
        for report in tick(dry_run=True)
        for each in report.planned
    }
    told = {}
    for subject in [*Invoice.objects.all(), *Parcel.objects.all()]:
        explanation = explain(subject)
        for each in explanation.parts:
            if each.climbs:
                names = tuple(effect.name for effect in each.effects)
                told[explanation.subject] = (each.transition, each.rung, names)
    assert told == planned
