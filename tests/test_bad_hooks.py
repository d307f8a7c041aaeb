"""Hooks and calls that are subtly wrong are told of, and cost nobody else."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.db.models import Q
from django.utils import timezone

from idempotent_actions import LadderAction, polling, services
from idempotent_actions.exceptions import InvalidAction, InvalidInput, UnknownRung
from idempotent_actions.models import Escalation
from idempotent_actions.registry import check_action
from project.billing.models import Invoice
from project.school.models import Intervention

pytestmark = pytest.mark.django_db

ACTION = "escalate_overdue:billing.invoice"


@pytest.fixture
def invoices() -> list[Invoice]:
    due_at = timezone.now() - timedelta(days=1)
    return Invoice.objects.bulk_create(
        Invoice(number=f"{n}", email="a@example.org", amount=n, due_at=due_at) for n in range(5)
    )


@pytest.mark.usefixtures("invoices")
def test_a_hook_that_swallows_a_database_error_fails_its_own_row_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swallow(invoice: Invoice, rung: Any) -> None:
        if invoice.amount == 2:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT nope FROM nope")
            except DatabaseError:
                pass

    monkeypatch.setattr(Invoice, "on_climb", swallow)
    (report,) = polling.escalate_overdue(Invoice)
    assert (report.applied, report.failed) == (4, 1)


@pytest.mark.usefixtures("invoices")
@pytest.mark.parametrize("answer", [None, timezone.now() - timedelta(days=1), datetime(2030, 1, 1)])  # noqa: DTZ001
def test_a_deadline_that_is_none_past_or_naive_fails_its_row(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(Invoice, "deadline_after", lambda self, rung, sent_at: answer)
    (report,) = polling.escalate_overdue(Invoice)
    assert (report.applied, report.failed) == (0, 5)
    assert "deadline_after()" in report.errors[0]["error"]


def test_a_misspelt_option_is_an_error_and_not_a_real_run(invoices: list[Invoice]) -> None:
    misspelt: Any = {"dryrun": True}
    with pytest.raises(TypeError, match="dryrun"):
        polling.tick(**misspelt)
    misspelt = {"by": "ann", "reason": "asked", "seem": (9, "x")}
    with pytest.raises(TypeError, match="seem"):
        services.act(ACTION, invoices[0], **misspelt)
    incomplete: Any = {"by": "ann"}
    with pytest.raises(TypeError, match="reason"):
        services.resolve(invoices[0], **incomplete)
    assert not Escalation.objects.exists()


@pytest.mark.parametrize("seen", [("1", ""), 5, (1,), "1"])
def test_what_was_seen_is_a_cycle_and_a_rung(invoices: list[Invoice], seen: Any) -> None:
    with pytest.raises(InvalidInput, match="seen"):
        services.act(ACTION, invoices[0], by="ann", reason="asked", seen=seen)


def test_an_import_that_updates_on_conflict_leaves_the_ladder_alone(
    invoices: list[Invoice],
) -> None:
    polling.escalate_overdue(Invoice)
    Invoice.objects.bulk_create(
        [Invoice(number="1", email="new@example.org", amount=1)],
        update_conflicts=True,
        unique_fields=["number"],
        update_fields=["email"],
    )
    there = Invoice.objects.get(number="1")
    assert (there.email, there.status, there.rung) == ("new@example.org", "escalated", "reminder")


def test_a_subject_is_held_again_through_a_proxy(invoices: list[Invoice]) -> None:
    class Bill(Invoice):
        class Meta:
            proxy = True
            app_label = "billing"

    bill = Bill.objects.get(number="1")
    until = timezone.now() + timedelta(days=1)
    asked: Any = {"by": "ann", "reason": "asked"}
    assert services.hold(bill, until, **asked)
    assert services.release(bill, **asked)
    assert services.hold(bill, until, **asked)
    assert Escalation.objects.about(bill).count() == 3


def test_adoption_tells_of_a_misspelt_rung_at_once_and_leaves_out_what_is_paid(
    invoices: list[Invoice],
) -> None:
    asked: Any = {"by": "ann", "reason": "asked", "next_at": timezone.now() + timedelta(days=9)}
    with pytest.raises(UnknownRung, match="remnder"):
        services.adopt(ACTION, Invoice.objects.all(), rung="remnder", **asked)
    Invoice.objects.filter(number="1").update(paid_at=timezone.now())
    report = services.adopt(ACTION, Invoice.objects.all(), rung="reminder", **asked)
    assert (report.applied, report.skipped) == (4, {"resolved": 1})


@pytest.mark.parametrize(
    ("members", "advice"),
    [
        ({"due": lambda self, now: Q(duee_at__lte=now)}, "names no field"),
        ({"get_queryset": lambda self: None}, "must return a queryset"),
        ({"resolved_when": lambda self: True}, "must return a Q or None"),
    ],
)
def test_a_rule_that_can_not_be_asked_is_refused_at_registration(
    members: dict[str, Any], advice: str
) -> None:
    broken = type("Broken", (LadderAction,), {"model": Intervention, "name": "broken", **members})
    with pytest.raises(InvalidAction, match=advice):
        check_action(broken())
