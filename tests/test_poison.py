"""A row that can't be done is reported and left as it was; the rest of its batch is done."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_fsm.signals import post_transition

from idempotent_actions import polling
from idempotent_actions.models import Escalation, Run
from project.billing.models import Invoice

pytestmark = pytest.mark.django_db

POISON = 3


class OwnError(Exception):
    """What a host's code raises."""


@pytest.fixture
def invoices() -> list[Invoice]:
    due_at = timezone.now() - timedelta(days=1)
    return Invoice.objects.bulk_create(
        Invoice(number=f"{n}", email="a@example.org", amount=n, due_at=due_at) for n in range(8)
    )


@pytest.fixture
def on_climb(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a function of the invoice run as it climbs."""

    def arrange(hook: Any) -> None:
        monkeypatch.setattr(Invoice, "on_climb", lambda self, rung: hook(self))

    return arrange


def raise_for_poison(invoice: Invoice) -> None:
    if invoice.amount == POISON:
        raise OwnError("no climbing")


def assert_only_the_poison_row_is_left(report: Any, error: str) -> None:
    assert (report.applied, report.failed, report.selected) == (7, 1, 8)
    poison = Invoice.objects.get(amount=POISON)
    (told,) = report.errors
    assert told["subject"] == f"billing.invoice:{poison.pk}"
    assert told["error"].startswith(error)
    assert (poison.status, poison.rung) == ("overdue", "")
    assert not Escalation.objects.filter(subject_pk=str(poison.pk)).exists()
    assert Escalation.objects.count() == 7
    run = Run.objects.get(pk=report.run)
    assert (run.failed, run.errors, run.outcome) == (1, report.errors, "failed")


def run_commit_hooks() -> None:
    entry: Any  # the savepoints it was registered under, the hook, and whether it may fail
    for entry in connection.run_on_commit:
        entry[1]()


@pytest.mark.usefixtures("invoices")
def test_a_transition_that_raises_stops_only_its_own_row(on_climb: Any) -> None:
    on_climb(raise_for_poison)
    (report,) = polling.escalate_overdue(Invoice)
    assert_only_the_poison_row_is_left(report, "OwnError: no climbing")


@pytest.mark.usefixtures("invoices")
def test_what_a_failed_transition_wrote_is_undone_and_what_others_wrote_stays(
    on_climb: Any,
) -> None:
    committed: list[str] = []

    def write_then_raise(invoice: Invoice) -> None:
        Group.objects.create(name=invoice.number)
        transaction.on_commit(lambda: committed.append(invoice.number))
        raise_for_poison(invoice)

    on_climb(write_then_raise)
    (report,) = polling.escalate_overdue(Invoice)
    assert_only_the_poison_row_is_left(report, "OwnError")
    assert not Group.objects.filter(name=str(POISON)).exists()
    assert Group.objects.count() == 7
    run_commit_hooks()
    assert sorted(committed) == list("0124567")


@pytest.mark.usefixtures("invoices")
def test_a_transition_that_breaks_the_transaction_stops_only_its_own_row(on_climb: Any) -> None:
    def fail_in_sql(invoice: Invoice) -> None:
        if invoice.amount == POISON:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")

    on_climb(fail_in_sql)
    (report,) = polling.escalate_overdue(Invoice)
    assert_only_the_poison_row_is_left(report, "DataError")


@pytest.mark.usefixtures("invoices")
def test_a_nested_block_that_condemns_the_transaction_stops_only_its_own_row(on_climb: Any) -> None:
    def condemn(invoice: Invoice) -> None:
        with transaction.atomic(savepoint=False):
            raise_for_poison(invoice)

    on_climb(condemn)
    (report,) = polling.escalate_overdue(Invoice)
    assert_only_the_poison_row_is_left(report, "OwnError")


@pytest.fixture
def refused_by_the_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE billing_invoice ADD CONSTRAINT poison"
            f" CHECK (NOT (status = 'escalated' AND amount = {POISON})) NOT VALID"
        )


@pytest.mark.usefixtures("refused_by_the_database")
def test_a_row_that_the_database_refuses_stands_alone(invoices: list[Invoice]) -> None:
    (report,) = polling.escalate_overdue(Invoice)
    assert_only_the_poison_row_is_left(report, "IntegrityError")
    assert "a@example.org" not in report.errors[0]["error"], (
        "the row's own data are nobody's business"
    )


@pytest.mark.usefixtures("invoices", "refused_by_the_database")
def test_a_refused_row_takes_what_its_transition_wrote_with_it(on_climb: Any) -> None:
    committed: list[str] = []

    def write(invoice: Invoice) -> None:
        Group.objects.create(name=invoice.number)
        transaction.on_commit(lambda: committed.append(invoice.number))

    on_climb(write)
    (report,) = polling.escalate_overdue(Invoice)
    assert_only_the_poison_row_is_left(report, "IntegrityError")
    assert sorted(Group.objects.values_list("name", flat=True)) == list("0124567")
    run_commit_hooks()
    assert sorted(committed) == list("0124567")


@pytest.mark.usefixtures("invoices")
def test_a_row_whose_update_changes_nothing_is_not_recorded_as_done() -> None:
    """A trigger that swallows the UPDATE: the audit trail must not tell of a climb."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RETURN NULL; END';"
            " CREATE TRIGGER swallow BEFORE UPDATE ON billing_invoice FOR EACH ROW"
            f" WHEN (new.status = 'escalated' AND new.amount = {POISON})"
            " EXECUTE FUNCTION swallow()"
        )
    (report,) = polling.escalate_overdue(Invoice)
    assert_only_the_poison_row_is_left(report, "SubjectNotSaved")


@pytest.mark.usefixtures("invoices")
def test_a_rule_that_fails_on_one_row_fails_that_row_alone(on_climb: Any) -> None:
    def raise_in_receiver(sender: Any, instance: Any, name: str, **kwargs: Any) -> None:
        if name == "escalate":
            raise_for_poison(instance)

    post_transition.connect(raise_in_receiver)
    try:
        (report,) = polling.escalate_overdue(Invoice)
    finally:
        post_transition.disconnect(raise_in_receiver)
    assert_only_the_poison_row_is_left(report, "OwnError")


@pytest.fixture
def statements(request: pytest.FixtureRequest) -> Any:
    def count(poisoned: bool) -> int:
        Invoice.objects.all().delete()
        due_at = timezone.now() - timedelta(days=1)
        Invoice.objects.bulk_create(
            Invoice(number=f"{n}", email="a@example.org", amount=n, due_at=due_at)
            for n in range(500)
        )
        if poisoned:
            request.getfixturevalue("refused_by_the_database")
        polling.mark_overdue(Invoice)
        with CaptureQueriesContext(connection) as captured:
            (report,) = polling.escalate_overdue(Invoice, mark=False, deliver=False)
        assert report.failed == int(poisoned)
        return len(captured)

    return count


def test_one_poison_row_among_500_costs_some_statements_and_not_one_for_each_row(
    statements: Any,
) -> None:
    clean, poisoned = statements(poisoned=False), statements(poisoned=True)
    halvings = 9  # 500 rows: 250, 125, ... 1
    # Savepoint, UPDATE, keys for the audit rows, those and the captures (by COPY where there are
    # many), release or rollback.
    for_each_half = 6
    assert poisoned <= clean + 2 * halvings * for_each_half
