"""LadderModel declares no manager: a host's soft delete is the host's word, in every base order."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import models

from idempotent_actions import services, testing
from idempotent_actions.models import Escalation, LadderModel
from idempotent_actions.reports import Report
from tests.hosts.keys.models import Membership, NotDeleted, Ticket
from tests.hosts.moments import before_locking

pytestmark = pytest.mark.django_db

DUE = datetime(2026, 3, 2, tzinfo=UTC)
NOW = DUE + timedelta(hours=1)

each_base_order = pytest.mark.parametrize("model", [Ticket, Membership])


def everything(model: Any) -> models.QuerySet[Any]:
    return models.QuerySet(model)


def tick(model: Any) -> Report:
    with testing.travel(NOW):
        (report,) = testing.tick(f"escalate_overdue:{model._meta.label_lower}")
    return report


def test_the_ladder_declares_no_manager() -> None:
    assert LadderModel._meta.local_managers == []


@each_base_order
def test_the_hosts_manager_is_the_default_one(model: Any) -> None:
    assert type(model._default_manager) is NotDeleted
    assert type(model.objects) is NotDeleted


@each_base_order
def test_deleted_rows_are_neither_marked_nor_climbed(model: Any) -> None:
    model.objects.create(due_at=DUE)
    deleted = model.objects.create(due_at=DUE, deleted=True)

    report = tick(model)

    assert (report.selected, report.marked, report.applied) == (1, 1, 1)
    assert everything(model).get(pk=deleted.pk).status == "open"


@each_base_order
@pytest.mark.django_db(transaction=True)
def test_a_row_deleted_between_candidate_query_and_lock_is_not_climbed(model: Any) -> None:
    model.objects.create(due_at=DUE)
    with before_locking(model, lambda: model.objects.update(deleted=True), nth=2):
        report = tick(model)
    assert (report.applied, report.skipped) == (0, {"excluded": 1})
    assert not Escalation.objects.exists()


@each_base_order
def test_the_button_does_not_act_on_a_deleted_row(model: Any) -> None:
    row = model.objects.create(due_at=DUE, deleted=True)
    action = f"escalate_overdue:{model._meta.label_lower}"
    outcome = services.act(action, row, by="clerk", reason="asked", now=NOW)
    assert (outcome.applied, outcome.reason) == (False, "excluded")
