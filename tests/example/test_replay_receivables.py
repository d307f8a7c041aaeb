"""`manage.py replay_receivables`: the ladder on invoices of the past, and files that are broken."""

import csv
import json
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from idempotent_actions.models import Escalation, Run
from project.billing.factories import InvoiceFactory
from project.billing.models import Invoice
from project.billing.receivables import ReceivablesError, read_receivables
from project.billing.replay import ReplayError, replay

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).parent.parent.parent

HEADER = "invoiceNumber,customerID,InvoiceDate,DueDate,InvoiceAmount,Disputed,SettledDate"

# Days from the first day past due to each act: the waits are 7, 7 and 14 days.
CLIMBS = {"reminder": 0, "warning": 7, "final_notice": 14, "exhausted": 28}

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(*lines: str, header: str = HEADER) -> Path:
        path = tmp_path / "receivables.csv"
        path.write_bytes("".join(f"{line}\r\n" for line in (header, *lines)).encode())
        return path

    return write


@pytest.fixture
def real_file() -> Path:
    beside = ROOT.parent / "shared" / "data" / "accounts-receivable.csv"
    path = Path(os.environ.get("RECEIVABLES_CSV", beside))
    if not path.is_file():
        pytest.skip(f"no receivables file: set RECEIVABLES_CSV (there is none at {path})")
    return path


def run_command(path: Path, *flags: str) -> dict[str, Any]:
    stdout = StringIO()
    call_command("replay_receivables", str(path), "--json", *flags, stdout=stdout)
    report: dict[str, Any] = json.loads(stdout.getvalue().splitlines()[-1])
    return report


def stored() -> tuple[int, int, int]:
    return Invoice.objects.count(), Escalation.objects.count(), Run.objects.count()


def day(text: str) -> date:
    return datetime.strptime(text, "%m/%d/%Y").date()  # noqa: DTZ007 - a day, no instant


def by_hand(path: Path, hold_disputed: bool) -> dict[str, Any]:
    """Compute what the replay ought to report, from the file and the calendar alone."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rungs = dict.fromkeys(CLIMBS, 0)
    for row in rows:
        if hold_disputed and row["Disputed"] == "Yes":
            continue
        for rung, days in CLIMBS.items():
            climbs_on = day(row["DueDate"]) + timedelta(days=1 + days)
            rungs[rung] += climbs_on < day(row["SettledDate"])
    first = min(day(row["InvoiceDate"]) for row in rows)
    last = max(day(row["SettledDate"]) for row in rows)
    ticks = max(0, (last - first).days + 2)
    return {"invoices": len(rows), "ticks": ticks, "rungs": rungs, "doubled": 0}


@pytest.mark.slow
@pytest.mark.parametrize("hold_disputed", [False, True])
def test_the_real_file_climbs_as_the_calendar_says(real_file: Path, hold_disputed: bool) -> None:
    flags = ["--hold-disputed"] if hold_disputed else []
    assert run_command(real_file, *flags) == by_hand(real_file, hold_disputed)
    assert stored() == (0, 0, 0)


@pytest.mark.parametrize(
    ("settled", "rungs"),
    [
        ("12/15/2012", []),  # before it was written: no tick at all
        ("1/15/2013", []),  # before it was due
        ("1/31/2013", []),  # on its due day
        ("2/1/2013", []),  # its deadline has lapsed, but the payment comes before the tick
        ("2/2/2013", ["reminder"]),
        ("2/8/2013", ["reminder"]),
        ("2/9/2013", ["reminder", "warning"]),
        ("2/16/2013", ["reminder", "warning", "final_notice"]),
        ("3/1/2013", ["reminder", "warning", "final_notice"]),
        ("3/2/2013", ["reminder", "warning", "final_notice", "exhausted"]),
    ],
)
def test_a_payment_on_a_day_comes_before_that_days_tick(
    write: Write, settled: str, rungs: list[str]
) -> None:
    path = write(f"7,K1,1/1/2013,1/31/2013,55.94,No,{settled}")
    assert run_command(path)["rungs"] == {rung: int(rung in rungs) for rung in CLIMBS}
    assert run_command(path) == by_hand(path, hold_disputed=False)


def test_an_invoice_paid_before_the_first_tick_never_climbs(write: Write) -> None:
    path = write(
        "7,K1,1/1/2013,1/31/2013,55.94,No,12/15/2012", "8,K1,1/1/2013,1/31/2013,55.94,No,3/31/2013"
    )
    assert run_command(path)["rungs"] == dict.fromkeys(CLIMBS, 1)


def test_a_disputed_invoice_is_held_only_when_asked_for(write: Write) -> None:
    path = write("7,K1,1/1/2013,1/31/2013,55.94,Yes,3/31/2013")
    assert set(run_command(path)["rungs"].values()) == {1}
    assert set(run_command(path, "--hold-disputed")["rungs"].values()) == {0}


def test_columns_may_come_in_any_order_among_others_behind_a_byte_order_mark(write: Write) -> None:
    path = write(
        "9/30/2013,Paper,No,5,1/31/2013,01/01/2013,K1,0007",
        header="\ufeffSettledDate,PaperlessBill,Disputed,InvoiceAmount,DueDate,InvoiceDate,"
        "customerID,invoiceNumber",
    )
    [row] = read_receivables(path)
    assert (row.number, row.due_on, row.settled_on) == (
        "0007",
        date(2013, 1, 31),
        date(2013, 9, 30),
    )


@pytest.mark.django_db(transaction=True)
def test_all_that_was_there_during_the_replay_is_gone_after_it(write: Write) -> None:
    rows = read_receivables(write("7,K1,1/1/2013,1/31/2013,55.94,No,3/31/2013"))
    seen: list[tuple[int, int, int]] = []
    result = replay(rows, on_tick=lambda: seen.append(stored()))
    assert seen[-1] == (1, 5, result.ticks)  # an invoice, its four climbs and its settlement, runs
    assert stored() == (0, 0, 0)


def test_a_tick_runs_on_each_day_at_six(write: Write) -> None:
    rows = read_receivables(write("7,K1,12/30/2012,1/31/2013,55.94,No,1/1/2013"))
    times: list[datetime] = []
    replay(rows, on_tick=lambda: times.append(Run.objects.latest("id").now))
    days = [(2012, 12, 30), (2012, 12, 31), (2013, 1, 1), (2013, 1, 2)]
    assert times == [datetime(*day, 6, tzinfo=UTC) for day in days]


def test_an_overdue_invoice_of_the_same_number_is_not_touched(write: Write) -> None:
    InvoiceFactory.create(number="7", due_at=timezone.now() - timedelta(days=9000))
    before = Invoice.objects.values().get()
    seen: list[Any] = []
    rows = read_receivables(write("7,K1,1/1/2013,1/31/2013,55.94,No,3/31/2013"))
    replay(rows, on_tick=lambda: seen.append(Invoice.objects.values().get(number="7")))
    assert all(row == before for row in seen)
    assert Invoice.objects.values().get() == before


def test_a_rung_that_is_climbed_twice_past_the_guard_is_counted_as_doubled(write: Write) -> None:
    rows = read_receivables(write("7,K1,1/1/2013,1/31/2013,55.94,No,2/3/2013"))

    def bypass() -> None:
        if Escalation.objects.filter(transition="escalate").count() == 1:
            act = Escalation.objects.get(transition="escalate")
            act.pk, act.key = None, "another key"
            act.save(force_insert=True)

    result = replay(rows, on_tick=bypass)
    assert (result.rungs["reminder"], result.doubled) == (2, 1)


def test_a_row_that_fails_ends_the_replay_and_nothing_is_stored(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_fee(invoice: Invoice, rung: object) -> None:
        raise ZeroDivisionError("no fee")

    monkeypatch.setattr(Invoice, "on_climb", no_fee)
    path = write("7,K1,1/1/2013,1/31/2013,55.94,No,3/31/2013")
    with pytest.raises(ReplayError, match=r"2013-02-01, billing\.invoice:.*no fee"):
        replay(read_receivables(path))
    with pytest.raises(CommandError, match="no fee") as caught:
        run_command(path)
    assert caught.value.returncode == 1
    assert stored() == (0, 0, 0)


GOOD = "7,K1,1/1/2013,1/31/2013,55.94,No,3/31/2013"


@pytest.mark.parametrize(
    ("lines", "where", "why"),
    [
        ([GOOD.replace("1/31/2013", "31/1/2013")], "line 2, column DueDate", "'31/1/2013'"),
        ([GOOD.replace("1/31/2013", "2/29/2013")], "line 2, column DueDate", "'2/29/2013'"),
        ([GOOD.replace("1/31/2013", "2013-01-31")], "line 2, column DueDate", "month/day/year"),
        ([GOOD.replace("1/31/2013", "1/31/13")], "line 2, column DueDate", "month/day/year"),
        ([GOOD.replace("3/31/2013", "")], "line 2, column SettledDate", "month/day/year"),
        ([GOOD.replace("3/31/2013", "3/31/9999")], "line 2, column SettledDate", "1900 to 2100"),
        ([GOOD.replace("1/1/2013", "0/1/2013")], "line 2, column InvoiceDate", "'0/1/2013'"),
        ([GOOD.replace("55.94", "abc")], "line 2, column InvoiceAmount", "'abc'"),
        ([GOOD.replace("55.94", "NaN")], "line 2, column InvoiceAmount", "'NaN'"),
        ([GOOD.replace("55.94", "-1")], "line 2, column InvoiceAmount", "'-1'"),
        ([GOOD.replace("55.94", "12345678901")], "line 2, column InvoiceAmount", "12345678901"),
        ([GOOD.replace("55.94", "1.005")], "line 2, column InvoiceAmount", "'1.005'"),
        ([GOOD.replace("No", "Perhaps")], "line 2, column Disputed", "'Perhaps'"),
        ([GOOD.replace("K1", "")], "line 2, column customerID", "''"),
        ([GOOD.replace("K1", "K\0")], "line 2, column customerID", "x00"),
        ([GOOD, GOOD], "line 3, column invoiceNumber", "'7' is on line 2 too"),
        ([GOOD, "", "8" + GOOD[1:] + ",more"], "line 4, column SettledDate", "8 values"),
        ([GOOD, "8,K1,1/1/2013"], "line 3, column DueDate", "3 values"),
        ([], "line 2, column invoiceNumber", "no invoice below the header"),
        ([GOOD, '"8,K1'], "line 3", "unexpected end of data"),
    ],
)
def test_a_broken_line_is_named_with_its_column_and_nothing_is_stored(
    write: Write, lines: list[str], where: str, why: str
) -> None:
    path = write(*lines)
    with pytest.raises(CommandError) as caught:
        run_command(path)
    assert str(caught.value).startswith(f"{path}, {where}: ")
    assert why in str(caught.value)
    assert caught.value.returncode == 2
    assert stored() == (0, 0, 0)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (HEADER.replace("DueDate", "Due"), "is missing from the header"),
        (HEADER.replace("InvoiceDate", "DueDate"), "column InvoiceDate: it is missing"),
        (f"{HEADER},DueDate", "column DueDate: it is twice in the header"),
    ],
)
def test_a_header_without_a_column_is_named(write: Write, header: str, why: str) -> None:
    path = write(GOOD, header=header)
    with pytest.raises(ReceivablesError) as caught:
        read_receivables(path)
    assert str(caught.value).startswith(f"{path}, line 1, column ")
    assert why in str(caught.value)


def test_an_empty_file_lacks_its_first_column(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.touch()
    with pytest.raises(ReceivablesError, match=r"line 1, column invoiceNumber: .* holds: nothing"):
        read_receivables(path)


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.csv", tmp_path):
        with pytest.raises(CommandError, match=r"No such file|Is a directory") as caught:
            run_command(path)
        assert str(path) in str(caught.value)
        assert caught.value.returncode == 2


def test_a_file_in_another_encoding_is_named_with_its_line(write: Write) -> None:
    path = write(GOOD, GOOD)
    path.write_bytes(path.read_bytes().replace(b"K1", b"K\xe9", 2))
    with pytest.raises(ReceivablesError, match="line 2: this is not UTF-8"):
        read_receivables(path)


def test_no_progress_is_shown_where_nobody_watches(
    write: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    run_command(write(GOOD))
    assert capfd.readouterr().err == ""
