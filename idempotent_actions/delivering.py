"""Delivery in bulk: one sweep over what is pending, lapsed or unknown, in a bounded pool."""

import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connections, router
from django.db.models import Q

from idempotent_actions import clock
from idempotent_actions.actions import Reason
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import reconnect_if_lost
from idempotent_actions.deliveries import Delivered, deliver_one
from idempotent_actions.effects import LEASE_MARGIN, all_effects, find_effect
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models.capture import Capture, CaptureQuerySet, CaptureState
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.pause import Pause
from idempotent_actions.pausing import held_captures
from idempotent_actions.pools import Pool
from idempotent_actions.running import describe, refuse_inside_transaction

__all__ = ["DeliveryReport", "deliver", "home"]

_PAGE = 200
"""Captures read at a time. Several deliverers read the same page and share it by their locks."""

MOST_COUNTED = 10_000
"""Paused captures that a sweep counts. It is asked each minute, however many wait."""

_DONE_WELL = (CaptureState.SUCCEEDED, CaptureState.VOID)


@dataclass(slots=True)
class DeliveryReport:
    """What one sweep did.

    ``by_state``: captures by the state they were left in; ``late`` ones had been given to another
    worker. ``waiting``: captures left as they are, by reason; those that are ``paused`` at its end
    are counted without a look at each, and no further than ``MOST_COUNTED``. ``for_a_person``: all
    that go no further until somebody decides, from earlier sweeps too. ``not_done``: what went
    wrong in this one, with its ``errors``.
    """

    performed: int = 0
    by_state: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    hanging: int = 0
    for_a_person: int = 0
    not_done: int = 0
    errors: list[dict[str, str]] = field(default_factory=list)

    def count(self, done: Delivered, kept: int) -> None:
        """Add what came of one capture; keep its error among the first ``kept``."""
        self.performed += done.performed
        if done.waiting_for:
            self.waiting[done.waiting_for] += 1
        else:
            self.by_state[done.state or "error"] += 1
        if done.error is None and (done.waiting_for or done.state in _DONE_WELL):
            return
        self.not_done += 1
        if len(self.errors) < kept:
            error = done.error or {"class": done.state, "message": ""}
            text = f"{done.state or 'error'}: {error['class']}: {error['message']}"
            self.errors.append({"capture": done.key, "error": text.rstrip(": ")})

    @property
    def count_of_all(self) -> int:
        """How many captures the sweep looked at, or found paused."""
        return self.by_state.total() + self.waiting.total() + self.hanging

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {
            "performed": self.performed,
            **{state.value: self.by_state[state.value] for state in CaptureState},
            "late": self.by_state["late"],
            "waiting": dict(sorted(self.waiting.items())),
            "hanging": self.hanging,
            "for_a_person": self.for_a_person,
            "not_done": self.not_done,
            "errors": self.errors,
        }


def deliver(
    *,
    effect: str | None = None,
    actions: Sequence[str] | None = None,
    escalation: Escalation | None = None,
    limit: int | None = None,
    workers: int | None = None,
    now: datetime | None = None,
    give_up_at: float = math.inf,
) -> DeliveryReport:
    """Deliver and recover what is due: of one ``effect``, of some ``actions``, of one act, or all.

    ``limit``: at most so many effects are run; captures that wait don't count. ``workers``: threads
    that run effects (the setting ``WORKERS``; one on SQLite); 0 runs them in the caller's thread.
    ``now``: the instant of a simulation. ``give_up_at``: no effect is begun from then on, by
    ``time.monotonic()``.

    What a pause holds back is left as it is, pending, unknown or lapsed: nothing is sent, and no
    provider is asked. The first sweep after it goes on with that.

    Returns a report. Raises ``InsideTransaction`` inside a transaction, and ``InvalidInput`` for
    arguments it can't take, before anything is done.
    """
    using = home()
    refuse_inside_transaction()
    wanted = _wanted(effect, actions, escalation, using)
    for name, value in (("limit", limit), ("workers", workers)):
        if value is not None and (not isinstance(value, int) or value < 0):
            raise InvalidInput(f"{name} must be a whole number of at least 0, not {value!r}.")
    if now is not None:
        clock.check_instant(now, "now")
    sweep = _Sweep(using, wanted, limit, _threads(workers, using), now, give_up_at)
    return sweep.run()


def home() -> str:
    """Return the database alias that captures are written to."""
    return router.db_for_write(Capture)


def _wanted(
    effect: str | None,
    actions: Sequence[str] | None,
    escalation: Escalation | None,
    using: str,
) -> Q:
    wanted = Q()
    if effect is not None:
        stored = Capture.objects.using(using).filter(effect=effect)
        if find_effect(effect) is None and not stored.exists():
            known = ", ".join(sorted(each.name for each in all_effects())) or "none"
            raise InvalidInput(f"There is no effect {effect!r}. Declared: {known}.")
        wanted &= Q(effect=effect)
    if actions is not None:
        wanted &= Q(action__in=list(actions))
    if escalation is not None:
        wanted &= Q(escalation=escalation)
    return wanted


def _threads(workers: int | None, using: str) -> int:
    if connections[using].in_atomic_block:
        return 0  # a test case's own transaction, whose rows no other thread sees
    if connections[using].vendor == "sqlite":
        return min(1, 1 if workers is None else workers)
    return get_settings().WORKERS if workers is None else workers


class _Sweep:
    """One pass over the captures that were due when it began."""

    def __init__(
        self,
        using: str,
        wanted: Q,
        limit: int | None,
        workers: int,
        fixed: datetime | None,
        give_up_at: float,
    ) -> None:
        self.using = using
        self.wanted = wanted
        self.limit = limit
        self.fixed = fixed
        self.now = fixed or clock.now(using)
        self.kept = get_settings().ERRORS_KEPT
        self.report = DeliveryReport()
        self.pool: Pool[Any, tuple[Any, Delivered | None]] = Pool(self._deliver, workers)
        self.locked: list[Any] = []
        self.patient = False
        self.waiting: set[Any] = set()  # asked once in a sweep, also where the clock stands still
        leases = [each.lease for each in all_effects()]
        self.patience = (max(leases, default=LEASE_MARGIN) + LEASE_MARGIN).total_seconds()
        self.give_up_at = give_up_at
        # What is under way by then is waited for, a quarter as long again.
        self.leave_at = give_up_at + (give_up_at - time.monotonic()) / 4

    def run(self) -> DeliveryReport:
        try:
            self._feed(self._due())
            before = 0
            while self.locked and len(self.locked) != before:
                # Somebody held their subject, most likely the settle of another of its captures.
                self.patient = True
                again, self.locked = self.locked, []
                before = len(again)
                self._feed(iter(again))
            self.report.waiting["locked"] += len(self.locked)
            self.report.waiting[Reason.PAUSED] = self._count_paused()
            self.report.waiting = +self.report.waiting
            self.report.hanging = self.pool.in_flight
            stuck = Capture.objects.using(self.using).for_a_person().filter(self.wanted)
            self.report.for_a_person = stuck.count()
        finally:
            self.pool.close()
        return self.report

    def _feed(self, pks: Iterator[Any]) -> None:
        for pk in pks:
            while self.pool.is_full or self._might_reach_limit():
                if not self.pool.in_flight:
                    return  # the limit is reached
                if not self._take_one():
                    return  # every worker hangs: what they hold is found when its lease has ended
            if time.monotonic() >= self.give_up_at:
                break  # the next sweep goes on from here
            self.pool.submit(pk)
        while self.pool.in_flight and self._take_one():
            pass

    def _might_reach_limit(self) -> bool:
        return self.limit is not None and self.report.performed + self.pool.in_flight >= self.limit

    def _take_one(self) -> bool:
        left = max(0.0, self.leave_at - time.monotonic())
        answer = self.pool.next_result(min(self.patience, left))
        if answer is None:
            return False
        pk, done = answer
        if done is None:
            return True
        if done.interrupt is not None and not self.pool.has_threads:
            # In the caller's own thread it ends the sweep. In one of the pool's it was the effect's
            # own doing: signals reach the main thread only.
            self.report.count(done, self.kept)
            raise done.interrupt
        if done.waiting_for == "locked":
            self.locked.append(pk)
        else:
            if done.waiting_for:
                self.waiting.add(pk)
            self.report.count(done, self.kept)
        return True

    def _due(self) -> Iterator[Any]:
        last = Q()
        while True:
            rows = self._rows().filter(last).exclude(self._held())  # asked anew for each page
            page = list(rows.order_by("wake_at", "id").values_list("wake_at", "id")[:_PAGE])
            pks = [pk for _wake_at, pk in page if pk not in self.waiting]
            if self.limit is None and self.pool.has_threads:
                random.shuffle(pks)  # deliverers that read the same page don't queue for its rows
            yield from pks
            if len(page) < _PAGE:
                return
            wake_at, pk = page[-1]
            # The last condition says the first again in a form that an index starts from.
            last = Q(wake_at__gt=wake_at) | Q(wake_at=wake_at, id__gt=pk)
            last &= Q(wake_at__gte=wake_at)

    def _rows(self) -> CaptureQuerySet:
        return Capture.objects.using(self.using).due(self.now).filter(self.wanted)

    def _held(self) -> Q:
        return held_captures(Pause.objects.using(self.using).active(self.now))

    def _count_paused(self) -> int:
        return self._rows().filter(self._held())[:MOST_COUNTED].count()

    def _deliver(self, pk: Any) -> tuple[Any, Delivered | None]:
        try:
            return pk, deliver_one(pk, self.fixed, self.using, patient=self.patient)
        except BaseException as error:
            reconnect_if_lost(self.using)
            interrupt = None if isinstance(error, Exception) else error
            return pk, Delivered(f"capture {pk}", error=describe(error), interrupt=interrupt)
