"""What the polling commands share: they parse, call a service, print, and choose an exit status."""

import argparse
import json
from datetime import datetime
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import models
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from tqdm import tqdm

from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.polling import PollOptions
from idempotent_actions.registry import registry
from idempotent_actions.reports import Report

__all__ = ["BAD_USAGE", "SOME_FAILED", "PollingCommand"]

SOME_FAILED = 1
"""Exit status: some rows failed, the others are done."""

BAD_USAGE = 2
"""Exit status: nothing was done."""

_HOW_TO_REGISTER = (
    "No action is registered. Write one in an installed app's actions.py: "
    "a LadderAction or an Action with the decorator @register."
)


class PollingCommand(BaseCommand):
    """Base of ``tick``, ``escalate_overdue`` and ``mark_overdue``."""

    limit_help = "apply at most N rows per action; failed and skipped rows don't count"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options that all polling commands take."""
        parser.add_argument("--limit", type=_at_least(0), metavar="N", help=self.limit_help)
        parser.add_argument(
            "--batch-size", type=_at_least(1), metavar="N", help="rows locked in one transaction"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="write nothing; list what the next run does"
        )
        parser.add_argument(
            "--at",
            type=_instant,
            metavar="ISO-TIME",
            help="with --dry-run: as if it were this time, like 2026-03-01T08:00Z",
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def poll(self, options: PollOptions, **chosen: Any) -> list[Report]:
        """Call the service; implemented by each command."""
        raise NotImplementedError

    def handle(
        self,
        *args: Any,
        limit: int | None,
        batch_size: int | None,
        dry_run: bool,
        at: datetime | None,
        json: bool,
        no_mark: bool = False,
        **chosen: Any,
    ) -> None:
        """Run the poll. Exit status 1 when rows failed, 2 for bad usage."""
        if at is not None and not dry_run:
            raise CommandError(
                "--at goes with --dry-run only: a real run uses the database's clock.",
                returncode=BAD_USAGE,
            )
        with tqdm(unit=" rows", disable=None, leave=False) as progress:  # None: off unless a TTY
            try:
                reports = self.poll(
                    {
                        "limit": limit,
                        "batch_size": batch_size,
                        "dry_run": dry_run,
                        "now": at,
                        "mark": not no_mark,
                        "on_progress": progress.update,
                    },
                    **chosen,
                )
            except IdempotentActionsError as error:
                raise CommandError(str(error), returncode=BAD_USAGE) from error
        self._print(reports, dry_run, json)
        if failed := sum(report.failed for report in reports):
            raise CommandError(
                f"{failed} rows failed; the others are done.", returncode=SOME_FAILED
            )

    def _print(self, reports: list[Report], dry_run: bool, as_json: bool) -> None:
        if not reports:
            self.stdout.write(_HOW_TO_REGISTER)
        for report in reports:
            for error in report.errors:
                self.stderr.write(f"{error['subject']}: {error['error']}")
        if as_json:
            self.stdout.write(
                json.dumps(
                    {
                        "dry_run": dry_run,
                        "marked_overdue": sum(report.marked for report in reports),
                        "actions": [report.as_dict() for report in reports],
                    }
                )
            )
            return
        for report in reports:
            for act in report.planned:
                self.stdout.write(f"  {act.subject} {act.transition} {act.rung}".rstrip())
            self.stdout.write(_sentence(report))


def add_model_argument(parser: CommandParser) -> None:
    """Declare ``--model``, which narrows a command to one model's ladder."""
    parser.add_argument(
        "--model", type=_model, metavar="APP.MODEL", help="this model's ladder only"
    )


def _sentence(report: Report) -> str:
    would = "would be " if report.dry_run else ""
    counts = [f"{report.applied} {would}applied"]
    for count, word in (
        (report.exhausted, "of them exhausted"),
        (report.marked, f"{would}marked overdue"),
        (report.resolved, f"{would}resolved"),
        (report.failed, "failed"),
    ):
        if count:
            counts.append(f"{count} {word}")
    counts += [f"{count} skipped ({why})" for why, count in sorted(report.skipped.items())]
    return f"{report.action}: {', '.join(counts)}"


def _at_least(least: int) -> Any:
    def parse(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}")
        return int(text)

    return parse


def _instant(text: str) -> datetime:
    try:
        value = parse_datetime(text)
    except ValueError:
        value = None
    if value is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time like 2026-03-01T08:00Z")
    if not settings.USE_TZ and timezone.is_naive(value):
        return value
    if not settings.USE_TZ:
        raise argparse.ArgumentTypeError(f"{text!r} has a time zone, and USE_TZ is off")
    if timezone.is_naive(value):
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: add Z or +01:00")
    return value


def _model(text: str) -> type[models.Model]:
    try:
        return apps.get_model(text)
    except (LookupError, ValueError):
        ladders = ", ".join(action.model._meta.label for action in registry.ladders()) or "none"
        raise argparse.ArgumentTypeError(
            f"there is no model {text!r}. Models with a ladder: {ladders}"
        ) from None
