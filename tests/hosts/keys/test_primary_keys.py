"""A subject may have any kind of primary key: its row is found, written and audited once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from idempotent_actions import services, testing
from idempotent_actions.models import Escalation, LadderModel
from idempotent_actions.reports import Report
from tests.contention.threads import race
from tests.hosts.keys.models import Badge, Device, Locker, Parking, Permit

pytestmark = pytest.mark.django_db

DUE = datetime(2026, 3, 2, tzinfo=UTC)
NOW = DUE + timedelta(hours=1)
ROWS = 50


def parking(code: str, **values: Any) -> Parking:
    return Parking.objects.create(permit=Permit.objects.create(code=code), **values)


# Makes the nth row of a kind.
MAKERS: dict[type[LadderModel], Callable[..., LadderModel]] = {
    Badge: lambda n, **values: Badge.objects.create(**values),
    Locker: lambda n, **values: Locker.objects.create(number=n * 7 - 100, **values),
    Device: lambda n, **values: Device.objects.create(uid=UUID(int=n**20), **values),
    Permit: lambda n, **values: Permit.objects.create(code=f"{n:x}", **values),
    Parking: lambda n, **values: parking(f"{n:x}", **values),
}

each_kind = pytest.mark.parametrize("model", MAKERS, ids=lambda model: model.__name__)


def make(model: type[LadderModel], count: int = 1) -> list[LadderModel]:
    return [MAKERS[model](n, due_at=DUE) for n in range(count)]


def tick(model: type[LadderModel], **options: Any) -> Report:
    (report,) = testing.tick(f"escalate_overdue:{model._meta.label_lower}", **options)
    return report


@each_kind
def test_every_row_climbs_once_when_all_are_due_at_once_and_batches_are_small(
    model: type[LadderModel],
) -> None:
    make(model, ROWS)
    with testing.travel(NOW):
        applied = [tick(model, batch_size=1).applied for _ in range(2)]
    assert applied == [ROWS, 0]
    assert Escalation.objects.values("subject_pk").distinct().count() == ROWS


@each_kind
def test_the_audit_row_finds_its_subject(model: type[LadderModel]) -> None:
    (row,) = make(model)
    with testing.travel(NOW):
        tick(model)
    (escalation,) = Escalation.objects.about(row)
    assert escalation.subject == row


@each_kind
def test_a_dry_run_names_the_rows_that_the_tick_then_acts_on(model: type[LadderModel]) -> None:
    make(model, 5)
    with testing.travel(NOW):
        planned = {each.subject for each in tick(model, dry_run=True).planned}
        tick(model)
    label = model._meta.label_lower
    assert planned == {f"{label}:{each.subject_pk}" for each in Escalation.objects.all()}


@each_kind
def test_a_person_acts_on_one_row_of_two(model: type[LadderModel]) -> None:
    first, second = make(model, 2)
    with testing.travel(NOW):
        action = f"escalate_overdue:{model._meta.label_lower}"
        outcomes = [services.act(action, first, by="clerk", reason="asked") for _ in range(2)]
        assert services.hold(second, NOW + timedelta(days=1), by="clerk", reason="ill")
        assert tick(model).applied == 0
    assert [each.applied for each in outcomes] == [True, False]
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.rung, second.rung) == ("notice", "")


@each_kind
def test_a_raw_write_is_healed(model: type[LadderModel]) -> None:
    rows = make(model, 3)
    with testing.travel(NOW):
        tick(model)
        type(rows[1])._default_manager.filter(pk=rows[1].pk).update(status="overdue", rung="")
        assert tick(model).skipped == {"healed": 1}
    assert Escalation.objects.count() == 3


@each_kind
@pytest.mark.django_db(transaction=True)
def test_ticks_at_the_same_time_climb_each_row_once(model: type[LadderModel]) -> None:
    make(model, ROWS)
    with testing.travel(NOW):
        reports = race([lambda: tick(model, batch_size=7)] * 4)
        last = tick(model)
    assert sum(each.applied for each in reports) + last.applied == ROWS
    assert Escalation.objects.count() == ROWS


def test_permits_whose_codes_look_alike_are_different_subjects() -> None:
    codes = ["7", "07", "007", "7:1", "7%3A1", "a", "A"]
    for code in codes:
        Permit.objects.create(code=code, due_at=DUE)
    with testing.travel(NOW):
        assert [tick(Permit).applied for _ in range(2)] == [len(codes), 0]
    assert [Escalation.objects.about(Permit(code=code)).count() for code in codes] == [1] * 7


def test_a_locker_and_a_permit_of_the_same_number_are_different_subjects() -> None:
    Locker.objects.create(number=7, due_at=DUE)
    Permit.objects.create(code="7", due_at=DUE)
    with testing.travel(NOW):
        assert (tick(Locker).applied, tick(Permit).applied) == (1, 1)
    assert len({each.key for each in Escalation.objects.all()}) == 2
