"""``manage.py replay_receivables``: would the ladder have been right about last year's invoices?"""

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from idempotent_actions.management.arguments import BAD_USAGE, SOME_FAILED
from project.billing.receivables import ReceivablesError, read_receivables
from project.billing.replay import Replay, ReplayError, days_of, replay


class Command(BaseCommand):
    """Replay a receivables file on the dunning ladder; store nothing."""

    help = "Back-test the dunning ladder on a receivables file, in simulated time. Stores nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the file and what to do with its disputed invoices."""
        parser.add_argument("path", type=Path, metavar="PATH", help="a CSV file of receivables")
        parser.add_argument(
            "--hold-disputed", action="store_true", help="hold the disputed invoices throughout"
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(
        self, *args: Any, path: Path, hold_disputed: bool, json: bool, **options: Any
    ) -> None:
        """Replay. Exit status 2 for a file that can't be taken, 1 when a row failed."""
        try:
            receivables = read_receivables(path)
        except ReceivablesError as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from error
        days = len(days_of(receivables))
        with tqdm(total=days, unit=" days", disable=None, leave=False) as progress:  # on a TTY
            try:
                result = replay(receivables, hold_disputed=hold_disputed, on_tick=progress.update)
            except ReplayError as error:
                raise CommandError(str(error), returncode=SOME_FAILED) from error
        if json:
            self.stdout.write(jsonlib.dumps(asdict(result)))
        else:
            self._print(result)

    def _print(self, result: Replay) -> None:
        self.stdout.write(f"{result.invoices} invoices, {result.ticks} daily ticks:")
        for rung, count in result.rungs.items():
            self.stdout.write(f"  {rung:<14}{count:>6}")
        self.stdout.write(f"{result.doubled} climbed a rung twice. All of it is rolled back.")
