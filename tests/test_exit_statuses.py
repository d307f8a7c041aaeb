"""What a shell or a crontab sees of the commands: real processes, real exit statuses."""

import json
import os
import pty
import termios
from datetime import timedelta

import pytest
from django.utils import timezone

from project.billing.models import Invoice
from tests.database_errors import constraint
from tests.invoices import climbed, make_invoice
from tests.processes import manage

pytestmark = pytest.mark.django_db(transaction=True)

ONE_LADDER = ("escalate_overdue", "--model", "billing.Invoice")


def make_overdue_invoice(number: str) -> Invoice:
    return make_invoice(number, due_at=timezone.now() - timedelta(days=1))


def test_all_well_is_0_and_prints_no_progress_where_no_terminal_is() -> None:
    invoice = make_overdue_invoice("1")
    done = manage(*ONE_LADDER, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["actions"][0]["applied"] == 1
    assert climbed(invoice) == ["reminder"]


def test_some_failed_rows_are_1_and_the_others_are_done() -> None:
    bad, good = make_overdue_invoice("poison"), make_overdue_invoice("good")
    with constraint(Invoice, "rung = '' OR number <> 'poison'"):
        done = manage(*ONE_LADDER, "--json")
    assert done.returncode == 1
    assert f"billing.invoice:{bad.pk}: IntegrityError" in done.stderr
    assert "1 rows failed; the others are done." in done.stderr
    assert "Traceback" not in done.stderr
    (action,) = json.loads(done.stdout.splitlines()[-1])["actions"]
    assert (action["applied"], action["failed"]) == (1, 1)
    assert (climbed(bad), climbed(good)) == ([], ["reminder"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("escalate_overdue", "--model", "billing.Invoyce"), "there is no model 'billing.Invoyce'"),
        (("mark_overdue", "--model", "auth.User"), "No LadderAction is registered for auth.User"),
        (("escalate_overdue", "--limit", "-1"), "must be a whole number of at least 0"),
        (("tick", "--batch-size", "0"), "must be a whole number of at least 1"),
        (("tick", "--dry-run", "--at", "yesterday"), "'yesterday' is no time like"),
        (("tick", "--dry-run", "--at", "2026-02-30T08:00Z"), "'2026-02-30T08:00Z' is no time"),
        (("mark_overdue", "--at", "2026-03-01T08:00Z"), "--at goes with --dry-run only"),
        (("tick", "--dry-run", "--at", "2026-03-01T08:00"), "has no time zone: add Z or"),
        (("tick", "escalate_invoices"), "No action is registered as 'escalate_invoices'"),
    ],
)
def test_bad_usage_is_2_says_why_and_does_nothing(arguments: tuple[str, ...], message: str) -> None:
    invoice = make_overdue_invoice("1")
    done = manage(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert climbed(invoice) == []
    invoice.refresh_from_db()
    assert invoice.status == "open"


def test_nothing_registered_is_0_and_says_how_to_register() -> None:
    done = manage("tick", settings="tests.empty_settings")
    assert (done.returncode, done.stderr) == (0, "")
    assert "No action is registered. Write one in an installed app's actions.py" in done.stdout


def test_a_terminal_shows_progress_and_gets_its_line_back() -> None:
    make_overdue_invoice("1")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))  # else no character fits into a line
    os.set_blocking(ours, False)
    try:
        done = manage(*ONE_LADDER, stderr=theirs)
        shown = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert " rows" in shown
    assert shown.rpartition("\r")[2] == ""
    assert " rows" not in done.stdout
