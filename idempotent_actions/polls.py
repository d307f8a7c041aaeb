"""One run of one action: batch by batch through all its passes, with a record of it."""

import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypedDict

from idempotent_actions import clock
from idempotent_actions.actions import Action, Reason
from idempotent_actions.acts import Asked, BatchResult, act_on
from idempotent_actions.candidates import PAGE_IN_BATCHES, candidate_pks
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import reconnect_if_lost, retry_transient
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.escalation import subject_ref
from idempotent_actions.models.run import Run
from idempotent_actions.reports import Report
from idempotent_actions.subjects import insert_missing
from idempotent_actions.turns import Overlap, Turn

__all__ = ["Poll", "PollOptions"]


class PollOptions(TypedDict, total=False):
    """How to poll; every option may be left out."""

    limit: int | None
    """At most so many applied rows. Rows that fail or are skipped don't count."""
    batch_size: int | None
    """Rows locked and written in one transaction; the setting ``BATCH_SIZE`` otherwise."""
    mark: bool
    """False leaves out detection, for hosts that run ``mark_overdue`` on its own."""
    dry_run: bool
    """True writes nothing and lists in ``Report.planned`` what the next poll does."""
    now: datetime | None
    """The instant to compare deadlines with, for simulations; the database's clock otherwise."""
    on_progress: Callable[[int], object] | None
    """Called after each batch with its number of rows."""
    deliver: bool
    """False leaves the effects to ``deliver_captures``."""
    workers: int | None
    """Threads that run effects; the setting ``WORKERS`` otherwise, 0 for the caller's own."""
    overlap: Overlap
    """``share`` (the default): runs of one action at the same time share its rows by their locks.
    ``skip``: nothing is done while another run that skips as well is at it."""
    slot: datetime | None
    """The scheduled instant that the run serves. One that is finished is not run again."""
    seconds: float | None
    """No batch and no effect is begun after so many seconds: the next tick goes on from there."""
    give_up_at: float
    """The same as an instant of ``time.monotonic()``; made of ``seconds`` when the poll begins."""


class Poll:
    """One run of one action. Counts reach the report only after their batch has committed."""

    def __init__(
        self, action: Action, run: Run, turn: Turn, report: Report, options: PollOptions
    ) -> None:
        self.action = action
        self.now = run.now
        self.turn = turn
        self.report = report
        self.settings = get_settings()
        self.batch_size = options.get("batch_size") or self.settings.BATCH_SIZE
        self.limit = options.get("limit")
        self.mark = options.get("mark", True)
        self.on_progress = options.get("on_progress")
        self.run_pk = report.run = run.pk
        self.runs = Run.objects.using(action.using)
        self.started = run.started_at, time.monotonic()
        self.asked = Asked(run.now, run=run)

    def run(self) -> None:
        """Go through the passes. What breaks is counted in the report."""
        self._attempt(self._insert_missing)
        if isinstance(self.action, LadderAction):
            if self.action.resolution is not None:
                self._attempt(self._poll, self.action.resolution)
            if self.mark:
                self._attempt(self._poll, self.action.detection)
        self._attempt(self._poll, self.action)
        self.report.stopped = self.report.stopped or self.turn.stopped
        self._save_counts(finished_at=clock.now(self.action.using), stopped=self.report.stopped)

    def _attempt(self, part: Callable[..., None], *arguments: Any) -> None:
        """Run one pass. What breaks it (a rule that raises) is reported; the next still runs."""
        try:
            part(*arguments)
        except Exception as error:
            reconnect_if_lost(self.action.using)
            self._fail(self.action.model._meta.label_lower, error)
            self.report.stopped = "error"

    def _insert_missing(self) -> None:
        for count, failures in insert_missing(self.action, self.now, self.batch_size):
            self.report.missing += count
            for failure in failures:
                self._fail(subject_ref(failure.subject), failure.error)
            if not self.turn.goes_on() or self.turn.is_paused(self.now):
                return

    def _poll(self, action: Action) -> None:
        wanted = self.limit if action is self.action else None
        size = self.batch_size if wanted is None else max(1, min(self.batch_size, wanted))
        for branch in action.branches(self.now):
            for page in candidate_pks(action, branch, size * PAGE_IN_BATCHES):
                rest = iter(page)
                while wanted is None or self.report.applied < wanted:
                    left = size if wanted is None else min(size, wanted - self.report.applied)
                    if not (pks := list(islice(rest, left))):
                        break
                    if not self.turn.goes_on():
                        return
                    self._batch(action, pks)
                else:
                    return

    def _batch(self, action: Action, pks: list[Any]) -> None:
        try:
            result = retry_transient(
                partial(act_on, action, pks, self.asked),
                using=action.using,
                tries=self.settings.MAX_TRIES,
            )
        except Exception as error:
            # Nothing of the batch was written, and the error names no row: ask them one by one.
            reconnect_if_lost(action.using)
            if len(pks) == 1:
                self.report.selected += 1
                self._fail(f"{action.model._meta.label_lower}:{pks[0]}", error)
            else:
                for pk in pks:
                    if not self.turn.stopped:
                        self._batch(action, [pk])
            return
        if result.paused:
            self.turn.stopped = Reason.PAUSED  # its rows count as not looked at
            return
        self._count(action, result)
        if self.on_progress is not None:
            self.on_progress(len(pks))

    def _count(self, action: Action, result: BatchResult) -> None:
        if action.counted_as != "applied":
            done_so_far = getattr(self.report, action.counted_as)
            setattr(self.report, action.counted_as, done_so_far + len(result.applied))
        if action is not self.action:
            result.applied.clear()
        if action.counted_as == "resolved":
            result.skipped.clear()  # what resolving passes over, detection meets again
        self.report.count(result, self.settings.ERRORS_KEPT)
        self._save_counts()

    def _fail(self, subject: str, error: BaseException) -> None:
        self.report.add_error(subject, error, self.settings.ERRORS_KEPT)

    def _save_counts(self, **also: Any) -> None:
        report = self.report
        self.runs.filter(pk=self.run_pk).update(
            beat_at=clock.later(*self.started),
            marked=report.marked,
            resolved=report.resolved,
            selected=report.selected,
            applied=report.applied,
            exhausted=report.exhausted,
            failed=report.failed,
            skipped=dict(report.skipped),
            errors=report.errors,
            **also,
        )
