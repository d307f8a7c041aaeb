"""What the polling commands share: they parse, call a service, print, and choose an exit status."""

import json
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.management.arguments import BAD_USAGE, SOME_FAILED, instant, whole_number
from idempotent_actions.management.deliveries import delivery_sentence, write_delivery_errors
from idempotent_actions.polling import PollOptions
from idempotent_actions.reports import Report

__all__ = ["PollingCommand"]

_HOW_TO_REGISTER = (
    "No action is registered. Write one in an installed app's actions.py: "
    "a LadderAction or an Action with the decorator @register."
)


class PollingCommand(BaseCommand):
    """Base of ``tick``, ``escalate_overdue`` and ``mark_overdue``."""

    limit_help = "apply at most N rows per action; failed and skipped rows don't count"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options that all polling commands take."""
        parser.add_argument("--limit", type=whole_number(0), metavar="N", help=self.limit_help)
        parser.add_argument(
            "--batch-size", type=whole_number(1), metavar="N", help="rows locked in one transaction"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="write nothing; list what the next run does"
        )
        parser.add_argument(
            "--at",
            type=instant,
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
        no_deliver: bool = False,
        workers: int | None = None,
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
                        "deliver": not no_deliver,
                        "workers": workers,
                        "on_progress": progress.update,
                    },
                    **chosen,
                )
            except IdempotentActionsError as error:
                raise CommandError(str(error), returncode=BAD_USAGE) from error
        self._print(reports, dry_run, json)
        deliveries = [report.delivery for report in reports if report.delivery is not None]
        wrong = [
            f"{count} {what}"
            for count, what in (
                (sum(report.failed for report in reports), "rows failed"),
                (sum(each.not_done + each.hanging for each in deliveries), "effects were not done"),
            )
            if count
        ]
        if wrong:
            raise CommandError(f"{', '.join(wrong)}; the others are done.", returncode=SOME_FAILED)

    def _print(self, reports: list[Report], dry_run: bool, as_json: bool) -> None:
        if not reports:
            self.stdout.write(_HOW_TO_REGISTER)
        for report in reports:
            for error in report.errors:
                self.stderr.write(f"{error['subject']}: {error['error']}")
            if report.delivery is not None:
                write_delivery_errors(self, report.delivery)
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
                self.stdout.write(f"  {act}")
            self.stdout.write(_sentence(report))
            done = report.delivery
            if done is not None and (done.count_of_all or done.for_a_person):
                self.stdout.write(f"  effects: {delivery_sentence(done)}")


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
    if report.stopped:
        counts.append(f"stopped ({report.stopped})")
    return f"{report.action}: {', '.join(counts)}"
