"""``manage.py prune_captures``: blank old payloads, keep what prevents a repetition."""

import json as jsonlib
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from idempotent_actions.management.arguments import duration
from idempotent_actions.pruning import prune_captures


class Command(BaseCommand):
    """Blank the payloads of captures that were finished long ago."""

    help = "Blank parameters and results of old captures; keys, states and references stay."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the age."""
        parser.add_argument(
            "--older-than", type=duration, required=True, metavar="AGE", help="like 365d or 12h"
        )
        parser.add_argument("--dry-run", action="store_true", help="count only, write nothing")
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(
        self, *args: Any, older_than: timedelta, dry_run: bool, json: bool, **options: Any
    ) -> None:
        """Prune."""
        count = prune_captures(older_than, dry_run=dry_run)
        if json:
            self.stdout.write(jsonlib.dumps({"dry_run": dry_run, "pruned": count}))
        else:
            would = "would be " if dry_run else ""
            self.stdout.write(f"{count} captures {would}pruned")
