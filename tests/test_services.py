"""A person's acts: what they write and what they answer."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from idempotent_actions.models import Escalation
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.asking import (
    DAY,
    HELD,
    ON_REMINDER,
    Service,
    act,
    cancel,
    each_service,
    hold,
    release,
    reopen,
    resolve,
    skip_rung,
    step_back,
)
from tests.invoices import DUE, LADDER, make_invoice, now_there, trail

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with travel(DUE):
        yield


ENDED = ["resolved", "cancelled"]
LIVE = ["open", "overdue", "escalated", "exhausted"]


def row_of(invoice: Invoice) -> dict[str, Any]:
    return {**Invoice.objects.filter(pk=invoice.pk).values().get()}


@each_service
def test_an_act_changes_what_it_should_and_writes_one_audit_row_in_full(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    before = row_of(invoice)

    outcome = service(invoice, by="ada", reason="she called")

    if service is hold:
        changed = {**changed, "hold_reason": "she called"}
    after = row_of(invoice)
    assert after == {**before, **changed}
    row: dict[str, Any] = {**Escalation.objects.values().get()}
    assert row.pop("key").startswith(f"billing.invoice:{invoice.pk}:{LADDER.replace(':', '%3A')}:")
    assert row == {
        "id": outcome.escalation.pk if outcome.escalation else None,
        "action": LADDER,
        "transition": "escalate" if service is act else service.__name__,
        "subject_model": "billing.invoice",
        "subject_pk": str(invoice.pk),
        "from_status": before["status"],
        "to_status": after["status"],
        "from_rung": before["rung"],
        "rung": after["rung"],
        "cycle": after["cycle"],
        "revision": after["revision"],
        "next_at": after["next_at"],
        "hold_until": after["hold_until"],
        "actor": "ada",
        "reason": "she called",
        "acted_at": DUE,
        "run_id": None,
    }


@each_service
def test_the_instance_handed_in_is_left_alone_and_a_fresh_one_is_returned(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    make_invoice(**columns)
    stale = Invoice.objects.get()
    stale.amount = 7
    before = {name: value for name, value in stale.__dict__.items() if name != "_state"}
    outcome = service(stale)
    assert {name: value for name, value in stale.__dict__.items() if name != "_state"} == before
    assert outcome
    assert outcome.subject is not stale
    assert {name: getattr(outcome.subject, name) for name in changed} == changed
    assert outcome.subject.amount == 100


@each_service
def test_doing_it_again_is_answered_and_writes_nothing(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    assert service(invoice)
    before = row_of(invoice)
    again = service(invoice)
    reason = {
        act: "not_due",
        hold: "held",
        release: "not_held",
        skip_rung: "stale_view",
        step_back: "stale_view",
    }.get(service, "wrong_status")
    assert (again.applied, again.reason, again.escalation) == (False, reason, None)
    assert again.subject == invoice
    assert row_of(invoice) == before
    assert Escalation.objects.count() == 1


@each_service
def test_what_was_seen_must_still_be_so(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    before = row_of(invoice)
    for seen in ((2, invoice.rung), (1, "final_notice"), (0, "")):
        outcome = service(invoice, seen=seen)
        assert (outcome.applied, outcome.reason) == (False, "stale_view")
        assert outcome.subject.rung == invoice.rung
    assert (row_of(invoice), trail(invoice)) == (before, [])
    assert service(invoice, seen=(1, invoice.rung))


@each_service
def test_a_row_that_is_gone_is_answered(
    service: Service, columns: dict[str, Any], changed: dict[str, Any]
) -> None:
    invoice = make_invoice(**columns)
    Invoice.objects.all().delete()
    for outcome in (service(invoice), service(invoice, seen=(1, ""))):
        assert (outcome.applied, outcome.reason, outcome.subject) == (False, "gone", None)
    assert not Escalation.objects.exists()


@pytest.mark.parametrize(
    ("service", "columns", "reason"),
    [
        (act, {"due_at": DUE + DAY}, "not_due"),
        (act, {"due_at": None}, "not_due"),
        (act, {"status": "overdue", "due_at": DUE + DAY}, "not_due"),
        (act, ON_REMINDER, "not_due"),
        (act, {**HELD}, "held"),
        (act, {"status": "overdue", **HELD}, "held"),
        (act, {"paid_at": DUE}, "resolved"),
        (act, {"status": "overdue", "paid_at": DUE}, "resolved"),
        *[(act, {"status": status}, "wrong_status") for status in (*ENDED, "exhausted")],
        *[(hold, {"status": status}, "wrong_status") for status in ENDED],
        *[(resolve, {"status": status}, "wrong_status") for status in ENDED],
        *[(cancel, {"status": status}, "wrong_status") for status in ENDED],
        *[(reopen, {"status": status}, "wrong_status") for status in LIVE],
        (release, {}, "not_held"),
        (release, {"status": "resolved"}, "not_held"),
    ],
)
def test_an_act_that_does_not_apply_says_why_and_writes_nothing(
    service: Service, columns: dict[str, Any], reason: str
) -> None:
    invoice = make_invoice(**columns)
    before = row_of(invoice)
    outcome = service(invoice)
    assert (bool(outcome), outcome.reason, outcome.subject) == (False, reason, invoice)
    assert (row_of(invoice), trail(invoice)) == (before, [])


@pytest.mark.parametrize("status", LIVE)
@pytest.mark.parametrize("service", [hold, resolve, cancel])
def test_every_live_row_can_be_held_resolved_and_cancelled(service: Service, status: str) -> None:
    assert service(make_invoice(status=status))


def test_a_held_row_is_not_due_until_its_hold_lapses_by_itself() -> None:
    invoice = make_invoice()
    assert hold(invoice, DUE + 3 * DAY)
    for moment, done in ((2 * DAY, []), (3 * DAY - timedelta(microseconds=1), []), (3 * DAY, 1)):
        with travel(DUE + moment):
            tick(LADDER)
        assert trail(invoice) == ["hold", *(["escalate reminder"] if done else [])]


def test_holding_twice_is_one_hold_and_another_date_is_another() -> None:
    invoice = make_invoice()
    assert hold(invoice)
    assert hold(invoice, reason="the same again").reason == "held"
    assert now_there(invoice).hold_reason == "because"
    assert hold(invoice, DUE + 2 * DAY, reason="longer")
    assert now_there(invoice).hold_reason == "longer"
    assert release(invoice)
    assert hold(invoice)
    assert trail(invoice) == ["hold", "hold", "release", "hold"]
