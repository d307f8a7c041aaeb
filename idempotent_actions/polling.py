"""The poll: read current state, act on it batch by batch, and keep a record of the run."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypedDict, Unpack

from django.db import models

from idempotent_actions import clock
from idempotent_actions.actions import Action
from idempotent_actions.acts import Asked, BatchResult, act_on
from idempotent_actions.candidates import PAGE_IN_BATCHES, candidate_pks
from idempotent_actions.conf import get_settings
from idempotent_actions.databases import reconnect_if_lost, retry_transient
from idempotent_actions.exceptions import InvalidInput, UnknownAction
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.escalation import subject_ref
from idempotent_actions.models.run import Run
from idempotent_actions.passes import MarkOverdue
from idempotent_actions.previews import preview
from idempotent_actions.registry import registry
from idempotent_actions.reports import Report
from idempotent_actions.subjects import insert_missing

__all__ = ["PollOptions", "escalate_overdue", "mark_overdue", "run_action", "tick"]


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


def tick(*names: str, **options: Unpack[PollOptions]) -> list[Report]:
    """Run every registered action, or the named ones, each through all its passes.

    Returns a report for each action. One that can't run at all is reported as failed and keeps no
    other from running. Raises ``UnknownAction`` or ``InvalidInput`` before anything runs.
    """
    actions = [registry.get(name) for name in names] if names else list(registry)
    return [run_action(action, **options) for action in actions]


def escalate_overdue(
    model: type[models.Model] | None = None, **options: Unpack[PollOptions]
) -> list[Report]:
    """Run the ladders, or the one of ``model``: the main job.

    Returns and raises as ``tick`` does.
    """
    return [run_action(action, **options) for action in _ladders(model)]


def mark_overdue(
    model: type[models.Model] | None = None, **options: Unpack[PollOptions]
) -> list[Report]:
    """Run detection alone; ``Report.marked`` says how many deadlines had lapsed.

    Returns and raises as ``tick`` does.
    """
    return [run_action(MarkOverdue(each, alone=True), **options) for each in _ladders(model)]


def run_action(action: Action, **options: Unpack[PollOptions]) -> Report:
    """Poll one action: insert missing subjects, resolve, detect, act.

    Returns a report. Raises ``InvalidInput`` for options it can't take. An error of the database or
    of the action's own rules is reported as one failed row, named after the model.
    """
    _check(options)
    report = Report(action.name, dry_run=options.get("dry_run", False))
    try:
        now = options.get("now") or clock.now(action.using)
        if not action.branches(now):
            return report  # never polled: started by services.act only
        if report.dry_run:
            preview(action, now, report, options.get("limit"), options.get("mark", True))
        else:
            _Poll(action, now, report, options).run()
    except Exception as error:
        report.add_error(action.model._meta.label_lower, error, get_settings().ERRORS_KEPT)
    return report


def _ladders(model: type[models.Model] | None) -> list[LadderAction]:
    if model is None:
        return registry.ladders()
    action = registry.ladder_for(model)
    if action is None:
        raise UnknownAction(
            f"No LadderAction is registered for {model._meta.label}. Write one with @register in "
            f"an installed app's actions.py."
        )
    return [action]


def _check(options: PollOptions) -> None:
    if unknown := set(options) - set(PollOptions.__annotations__):
        raise TypeError(f"unknown option {unknown.pop()!r}; see PollOptions")
    for name, least in (("limit", 0), ("batch_size", 1)):
        value: Any = options.get(name)
        if value is not None and (not isinstance(value, int) or value < least):
            raise InvalidInput(f"{name} must be a whole number of at least {least}, not {value!r}.")
    now = options.get("now")
    if now is not None:
        clock.check_instant(now, "now")


class _Poll:
    """One run of one action. Counts reach the report only after their batch has committed."""

    def __init__(self, action: Action, now: datetime, report: Report, options: PollOptions) -> None:
        self.action = action
        self.now = now
        self.report = report
        self.settings = get_settings()
        self.batch_size = options.get("batch_size") or self.settings.BATCH_SIZE
        self.limit = options.get("limit")
        self.mark = options.get("mark", True)
        self.on_progress = options.get("on_progress")
        self.runs = Run.objects.using(action.using)
        self.record = self.runs.create(
            action=action.name, now=now, started_at=clock.now(action.using)
        )
        self.report.run = self.record.pk
        self.asked = Asked(now, run=self.record)

    def run(self) -> None:
        self._attempt(self._insert_missing)
        if isinstance(self.action, LadderAction):
            if self.action.resolution is not None:
                self._attempt(self._poll, self.action.resolution)
            if self.mark:
                self._attempt(self._poll, self.action.detection)
        self._attempt(self._poll, self.action)
        self._save_counts(finished_at=clock.now(self.action.using))

    def _attempt(self, part: Callable[..., None], *arguments: Any) -> None:
        """Run one pass. What breaks it (a rule that raises) is reported; the next still runs."""
        try:
            part(*arguments)
        except Exception as error:
            reconnect_if_lost(self.action.using)
            self._fail(self.action.model._meta.label_lower, error)

    def _insert_missing(self) -> None:
        for count, failures in insert_missing(self.action, self.now, self.batch_size):
            self.report.missing += count
            for failure in failures:
                self._fail(subject_ref(failure.subject), failure.error)

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
                    self._batch(action, [pk])
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
        self.runs.filter(pk=self.record.pk).update(
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
