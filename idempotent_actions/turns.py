"""The turn of a run: what it may rely on while it polls, and for how long."""

import time
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from django.db import IntegrityError, transaction

from idempotent_actions import clock
from idempotent_actions.actions import Action, Reason
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import is_unique_violation, retry_transient
from idempotent_actions.leases import Held, take
from idempotent_actions.models.run import Run
from idempotent_actions.pausing import paused_by
from idempotent_actions.running import worker

__all__ = ["LASTS", "Overlap", "Turn"]

Overlap = Literal["share", "skip"]

LASTS = timedelta(seconds=30)
"""How long a run's lease holds others off after its last batch. A batch takes some 50 ms, or a few
seconds behind a host's locks. Shorter than any queue's ``retry``: a killed run's task comes again
when the lease has ended, and goes on with its slot."""

_RENEWED_AFTER = LASTS.total_seconds() / 4
"""Seconds. Renewing at each batch would be a statement in five."""


class Turn:
    """One run's place among others: its action's lease, its slot, its time.

    ``overlap``: with ``skip`` a run holds a lease on its action, and does nothing while another
    holds it; with ``share`` runs at the same time share the rows by their locks. ``slot`` is the
    scheduled instant it serves. ``give_up_at`` is when it has to end, by ``time.monotonic()``.
    """

    def __init__(
        self,
        action: Action,
        overlap: Overlap,
        slot: datetime | None,
        give_up_at: float,
    ) -> None:
        self.action = action
        self.overlap = overlap
        self.slot = slot
        self.give_up_at = give_up_at
        self.stopped = ""
        """Why the run doesn't begin, or doesn't go on; empty while it does."""
        self.lease: Held | None = None
        self._renew_at = 0.0
        self._begun = False

    def begin(self, now: datetime) -> Run | None:
        """Return the record of a new run, or None with the reason in ``stopped``."""
        if self.is_paused(now):
            return None
        if self.overlap == "skip":
            self.lease = take(f"action:{self.action.name}", LASTS)
            if self.lease is None:
                self.stopped = "overlapping"
                return None
            self._renew_at = time.monotonic() + _RENEWED_AFTER
        try:
            return self._open(now)
        except BaseException:
            self.end()
            raise

    def goes_on(self) -> bool:
        """Tell whether another batch may be begun; if not, ``stopped`` says why."""
        if self.stopped:
            return False
        if time.monotonic() >= self.give_up_at:
            self.stopped = "out_of_time" if self._begun else "no_time"
        elif self.lease is not None and time.monotonic() >= self._renew_at:
            # Lost: another run has taken over what is left. Rows are safe either way, by their
            # locks and the guard.
            if not self.lease.renew():
                self.stopped = "lease_lost"
            self._renew_at = time.monotonic() + _RENEWED_AFTER
        self._begun = self._begun or not self.stopped
        return not self.stopped

    def is_paused(self, now: datetime) -> bool:
        """Tell whether a pause stops the run at ``now``; then ``stopped`` says so."""
        if paused_by(self.action.using, now, action=self.action.audit_name) is None:
            return False
        self.stopped = Reason.PAUSED
        return True

    def end(self) -> None:
        """Let the next run begin."""
        if self.lease is not None:
            self.lease.release()
            self.lease = None

    def _open(self, now: datetime) -> Run | None:
        using = self.action.using
        started = clock.now(using)
        run = Run(
            action=self.action.name,
            now=now,
            started_at=started,
            beat_at=started,
            slot=self.slot,
            worker=worker(),
        )
        if self.slot is None:
            run.save(using=using)
            return run
        work = transaction.atomic(using=using)(partial(self._take_slot, run))
        try:
            return retry_transient(work, using=using, tries=get_settings().MAX_TRIES)
        except IntegrityError as error:
            if not is_unique_violation(error):
                raise
            self.stopped = "overlapping"  # another has begun this slot at the same moment
            return None

    def _take_slot(self, run: Run) -> Run | None:
        using = self.action.using
        runs = Run.objects.using(using)
        of_slot = runs.select_for_update().filter(action=self.action.name, slot=self.slot)
        before = of_slot.first()
        if before is not None and not _left_open(before):
            self.stopped = "slot_done"
            return None
        if before is not None:
            # It was killed or paused, or is at work elsewhere: it goes on without its slot.
            runs.filter(pk=before.pk).update(slot=None)
            run.resumes = before
        run.save(using=using, force_insert=True)
        return run


def _left_open(run: Run) -> bool:
    # One that a pause has stopped left the rest undone, to be done when the pause is over.
    return run.finished_at is None or run.stopped == Reason.PAUSED
