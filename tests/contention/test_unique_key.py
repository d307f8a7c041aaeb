"""The unique keys stand underneath: code that bypasses lock and guard still can't act twice."""

from collections.abc import Callable

import pytest

from idempotent_actions import acts, polling
from idempotent_actions.models import Escalation
from project.billing.models import Invoice

Overdue = Callable[[int], list[Invoice]]
Climbs = Callable[[], dict[str, int]]

MANY = 60  # enough for the bulk path, which reports a conflict by another error class


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the poll find no earlier audit row, as if it had been written a moment ago by another."""
    monkeypatch.setattr(acts, "find_behind", lambda action, plans, asked: {})


def test_a_second_audit_row_for_one_act_is_refused_and_the_state_with_it(
    overdue: Overdue, climbs: Climbs, blind: None
) -> None:
    overdue(MANY)
    assert polling.escalate_overdue(Invoice)[0].applied == MANY
    Invoice.objects.filter(number="00007").update(status="overdue", rung="", next_at=None)

    (report,) = polling.escalate_overdue(Invoice)

    assert (report.applied, report.failed) == (0, 1)
    assert "idempotent_escalation_key" in report.errors[0]["error"]
    assert sorted(climbs().values()) == [1] * MANY
    assert Invoice.objects.get(number="00007").rung == ""


def test_a_conflict_in_the_bulk_path_costs_only_its_own_row(
    overdue: Overdue, climbs: Climbs, blind: None
) -> None:
    invoices = overdue(MANY)
    polling.escalate_overdue(Invoice, limit=1)
    Invoice.objects.filter(rung="reminder").update(status="overdue", rung="", next_at=None)

    (report,) = polling.escalate_overdue(Invoice)

    assert (report.applied, report.failed) == (MANY - 1, 1)
    assert climbs() == {str(each.pk): 1 for each in invoices}
    assert Escalation.objects.count() == MANY
