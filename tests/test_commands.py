"""The polling commands: their flags, what they print, and the JSON that other programs read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django_fsm.signals import pre_transition

from idempotent_actions.models import Escalation, Run
from idempotent_actions.testing import travel
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from project.school.actions import EscalateNoShows
from project.school.models import Intervention
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.oddities.models import DispatchParcels, Parcel, Seal
from tests.registering import only

pytestmark = pytest.mark.django_db

EVERY = ["escalate_overdue", "mark_overdue", "tick"]


@pytest.fixture(autouse=True)
def these_actions() -> Iterator[None]:
    with only(EscalateInvoices, EscalateNoShows, DispatchParcels), travel(DUE):
        yield


def run(*arguments: str) -> str:
    """Run a command of which all rows go well; return what it prints."""
    out, complaints = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=complaints)
    assert complaints.getvalue() == ""
    return out.getvalue()


def run_json(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(*arguments, "--json").splitlines()[-1])
    return answer


def no_show(**columns: Any) -> Intervention:
    values = {"student": "S", "programme": "P", "guardian_email": "g@example.org", "due_at": DUE}
    return Intervention.objects.create(**values | columns)


def parcel() -> Parcel:
    made = Parcel.objects.create(name="books")
    Seal.objects.create(parcel=made)
    return made


@contextmanager
def poison(number: str) -> Iterator[None]:
    def complain(instance: Invoice, name: str, **kwargs: Any) -> None:
        if (instance.number, name) == (number, "escalate"):
            raise ValueError("a wrong address")

    pre_transition.connect(complain, sender=Invoice)
    try:
        yield
    finally:
        pre_transition.disconnect(complain, sender=Invoice)


def test_the_json_has_the_promised_shape() -> None:
    for number in range(9):
        make_invoice(number)
    make_invoice("ended", status="overdue", rung="final_notice")
    make_invoice("stranded", status="overdue", rung="gone")
    bad = make_invoice("bad")
    out = StringIO()
    with poison("bad"), pytest.raises(CommandError) as caught:
        call_command("escalate_overdue", "--json", model=Invoice, stdout=out, stderr=StringIO())

    assert caught.value.returncode == 1
    assert str(caught.value) == "1 rows failed; the others are done."
    answer = json.loads(out.getvalue().splitlines()[-1])
    (action,) = answer.pop("actions")
    assert answer == {"dry_run": False, "marked_overdue": 10}
    delivery = action.pop("delivery")
    assert (delivery["performed"], delivery["succeeded"], delivery["not_done"]) == (9, 9, 0)
    assert action == {
        "action": "escalate_overdue:billing.invoice",
        "run": Run.objects.get().pk,
        "stopped": "",
        "missing": 0,
        "resolved": 0,
        "selected": 12,
        "applied": 10,
        "exhausted": 1,
        "skipped": {"unknown_rung": 1},
        "failed": 1,
        "errors": [
            {"subject": f"billing.invoice:{bad.pk}", "error": "ValueError: a wrong address"}
        ],
    }


def test_the_run_keeps_what_the_json_says() -> None:
    make_invoice(1)
    (action,) = run_json("escalate_overdue", "--model", "billing.Invoice")["actions"]
    record = Run.objects.get(pk=action.pop("run"))
    assert (record.action, record.now, record.outcome) == (LADDER, DUE, "succeeded")
    for name in ("selected", "applied", "exhausted", "failed", "skipped", "errors"):
        assert getattr(record, name) == action[name]
    assert [row.run for row in Escalation.objects.all()] == [record]


def test_a_failed_row_is_named_on_stderr_and_the_sentence_counts_it() -> None:
    make_invoice("good")
    bad = make_invoice("bad")
    out, complaints = StringIO(), StringIO()
    with poison("bad"), pytest.raises(CommandError):
        call_command("escalate_overdue", model=Invoice, stdout=out, stderr=complaints)
    assert complaints.getvalue() == f"billing.invoice:{bad.pk}: ValueError: a wrong address\n"
    assert (
        out.getvalue()
        == f"{LADDER}: 1 applied, 2 marked overdue, 1 failed\n  effects: 1 succeeded\n"
    )


def test_escalate_overdue_runs_all_ladders_or_that_of_one_model() -> None:
    invoice, intervention, waiting = make_invoice(), no_show(), parcel()
    assert "escalate_overdue:school.intervention: 1 applied, 1 marked overdue" in run(
        "escalate_overdue", "--model", "school.Intervention"
    )
    assert (climbed(invoice), climbed(intervention)) == ([], ["parent_notice"])
    answer = run_json("escalate_overdue")
    assert [each["action"] for each in answer["actions"]] == [
        LADDER,
        "escalate_overdue:school.intervention",
    ]
    assert climbed(invoice) == ["reminder"]
    waiting.refresh_from_db()
    assert waiting.state == "waiting"


def test_tick_runs_every_action_or_the_named_ones() -> None:
    invoice, intervention, waiting = make_invoice(), no_show(), parcel()
    answer = run_json("tick", "dispatch_parcels", LADDER)
    assert [each["action"] for each in answer["actions"]] == ["dispatch_parcels", LADDER]
    assert (climbed(invoice), climbed(intervention)) == (["reminder"], [])
    waiting.refresh_from_db()
    assert waiting.state == "sent"
    assert len(run_json("tick")["actions"]) == 3
    assert climbed(intervention) == ["parent_notice"]


def test_mark_overdue_marks_and_does_nothing_else() -> None:
    invoice = make_invoice()
    answer = run_json("mark_overdue", "--model", "billing.invoice")
    assert answer["marked_overdue"] == 1
    assert (now_there(invoice).status, now_there(invoice).rung) == ("overdue", "")
    assert not Escalation.objects.exists()
    assert run_json("mark_overdue")["marked_overdue"] == 0


def test_no_mark_leaves_detection_out() -> None:
    lapsed, marked = make_invoice(1), make_invoice(2, status="overdue")
    for command in ("escalate_overdue", "tick"):
        assert run_json(command, "--no-mark")["marked_overdue"] == 0
    assert (climbed(lapsed), climbed(marked)) == ([], ["reminder"])
    assert now_there(lapsed).status == "open"


@pytest.mark.parametrize("command", EVERY)
def test_the_limit_counts_applied_rows_of_each_action_oldest_first(command: str) -> None:
    for number in range(5):
        make_invoice(number, due_at=DUE - timedelta(days=number))
    no_show()
    for limit, done in ((0, set()), (2, {"3", "4"}), (2, {"1", "2", "3", "4"})):
        run_json(command, "--limit", str(limit))
        moved = Invoice.objects.exclude(rung="") if command != "mark_overdue" else marked()
        assert set(moved.values_list("number", flat=True)) == done


def marked() -> Any:
    return Invoice.objects.filter(status="overdue")


@pytest.mark.parametrize("command", EVERY)
def test_the_batch_size_changes_nothing_that_is_done(command: str) -> None:
    for number in range(7):
        make_invoice(number)
    answer = run_json(command, "--batch-size", "3")
    assert answer["marked_overdue"] == 7
    done = Invoice.objects.values_list("status", flat=True)
    assert set(done) == {"overdue" if command == "mark_overdue" else "escalated"}


def test_a_dry_run_lists_the_acts_and_does_none() -> None:
    ended = make_invoice("ended", status="overdue", rung="final_notice")
    fresh = make_invoice("fresh")
    shown = run("escalate_overdue", "--model", "billing.Invoice", "--dry-run")
    assert sorted(shown.splitlines()[:2]) == sorted(
        [
            f"  billing.invoice:{ended.pk} exhaust",
            f"  billing.invoice:{fresh.pk} escalate reminder [send_dunning_notice]",
        ]
    )
    assert shown.splitlines()[2:] == [
        f"{LADDER}: 2 would be applied, 1 of them exhausted, 1 would be marked overdue"
    ]
    assert not Run.objects.exists()

    answer = run_json("escalate_overdue", "--model", "billing.Invoice", "--dry-run")
    assert (answer["dry_run"], answer["marked_overdue"]) == (True, 1)
    (action,) = answer["actions"]
    assert (action["run"], action["applied"], action["exhausted"]) == (None, 2, 1)
    climb = {"transition": "escalate", "rung": "reminder", "effects": ["send_dunning_notice"]}
    assert {"subject": f"billing.invoice:{fresh.pk}", **climb} in action["planned"]
    assert now_there(fresh).status == "open"


@pytest.mark.parametrize("at", ["2026-03-02T08:00Z", "2026-03-02T02:00-06:00"])
def test_a_dry_run_looks_from_another_instant(at: str) -> None:
    invoice = make_invoice()
    with travel(DUE - timedelta(days=30)):
        assert run_json("escalate_overdue", "--dry-run")["actions"][0]["planned"] == []
        answer = run_json("escalate_overdue", "--dry-run", "--at", at)
    (planned,) = answer["actions"][0]["planned"]
    assert planned["subject"] == f"billing.invoice:{invoice.pk}"


@pytest.mark.parametrize("command", EVERY)
def test_a_dry_run_counts_as_the_run_after_it_does(command: str) -> None:
    for number in range(3):
        make_invoice(number)
    make_invoice("paid", paid_at=DUE)
    parcel()
    foretold, done = run_json(command, "--dry-run"), run_json(command)
    assert foretold["marked_overdue"] == done["marked_overdue"] == 3
    for one, other in zip(foretold["actions"], done["actions"], strict=True):
        for name in ("action", "resolved", "selected", "applied", "exhausted", "skipped", "failed"):
            assert one[name] == other[name], name


@pytest.mark.parametrize("command", EVERY)
@pytest.mark.parametrize("flags", [(), ("--json",), ("--dry-run", "--json")])
def test_with_nothing_registered_there_is_nothing_to_do(
    command: str, flags: tuple[str, ...]
) -> None:
    with only():
        shown = run(command, *flags)
    if "--json" in flags:
        assert json.loads(shown.splitlines()[-1])["actions"] == []
    else:
        assert "No action is registered." in shown
        assert "actions.py" in shown
        assert "@register" in shown
