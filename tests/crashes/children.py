"""Processes that crash: each case in a child of its own, forked from one that has Django ready."""

import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from django.db import OperationalError, connection, transaction

from idempotent_actions import captures, polling
from idempotent_actions.databases import reconnect_if_lost
from idempotent_actions.models import Capture, Escalation
from project.billing.models import Invoice
from tests.crashes import striking
from tests.crashes.notices import EFFECTS, NAME, Notices, capture_of, overdue_invoice
from tests.crashes.table import Case
from tests.processes import Meet, in_processes
from tests.registering import only
from tests.waiting import until

__all__ = ["crash", "crashed_capture"]

KILLED = -9
STRUCK = 0
MISSED = 3


def crash(way: str, cases: Sequence[Case]) -> None:
    """Let each of `cases` crash in a process of its own; `way` is how it comes to deliver.

    Returns when all are dead and the database has noticed. Raises `AssertionError` where the crash
    didn't strike.
    """
    numbered = [[number, *astuple(case)] for number, case in enumerate(cases)]
    target = f"{__name__}.{run_in_forks.__name__}"
    (statuses,) = in_processes(target, [way, numbered], deadline=110)
    assert statuses == [KILLED if case.crash == "killed" else STRUCK for case in cases]
    until(_nobody_else_is_connected, "the end of what the dead had open")


def crashed_capture(way: str, number: int) -> Capture:
    """The capture of the case with this place in the list."""
    if way == "act":
        return capture_of(Invoice.objects.get(number=str(number)))
    return Capture.objects.get(key=f"crash:{number}")


def run_in_forks(meet: Meet, way: str, cases: list[list[Any]]) -> list[int]:
    """Runs in a child: fork it once for each case; return how each of them ended."""
    assert connection.connection is None, "a connection must not be shared with a fork"
    return [_fork(WAYS[way], number, Case(*case)) for number, *case in cases]


def _fork(work: Callable[[int, str], None], number: int, case: Case) -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        with only(Notices), striking.at(case.point, case.crash) as struck:
            work(number, case.policy)
        status = STRUCK if struck else MISSED
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _act(number: int, policy: str) -> None:
    """A poll commits the intent, and delivers it in its pool."""
    invoice = overdue_invoice(number, policy)
    polling.tick(NAME, deliver=False)
    captures.deliver(escalation=Escalation.objects.about(invoice).get())


def _request(number: int, policy: str) -> None:
    """A caller requests it without a subject, and again if that failed; then it is delivered."""

    def request() -> None:
        with transaction.atomic():
            captures.request(EFFECTS[policy], key=f"crash:{number}", params={"number": number})

    _stubbornly(request)
    _perform(number, policy)


def _perform(number: int, policy: str) -> None:
    """A caller does it at once, and tries again if that failed."""

    def perform() -> None:
        captures.perform(EFFECTS[policy], key=f"crash:{number}", params={"number": number})

    _stubbornly(perform)


WAYS = {"act": _act, "request": _request, "perform": _perform}


def _stubbornly(work: Callable[[], None]) -> None:
    for _ in range(2):
        with suppress(striking.Crash, OperationalError):
            work()
        reconnect_if_lost("default")


def _nobody_else_is_connected() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return bool(cursor.fetchone()[0])
