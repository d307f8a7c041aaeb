"""``manage.py sync_schedules``: django-q2's schedules as the settings have them planned."""

import json as jsonlib
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.management.arguments import BAD_USAGE
from idempotent_actions.schedules import sync_schedules


class Command(BaseCommand):
    """Create, change and remove our rows of django-q2, and no other."""

    help = "Make django-q2's schedules as IDEMPOTENT_ACTIONS['SCHEDULES'] has them planned."

    # It says itself, and with its own exit status, what of the settings it can't use. A fault of
    # the queue's other settings is no reason to leave the schedules behind.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the form of the answer."""
        parser.add_argument("--dry-run", action="store_true", help="say what would be done")
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(self, *args: Any, dry_run: bool, json: bool, **options: Any) -> None:
        """Sync. Exit status 2 for settings that can't be used."""
        try:
            done = sync_schedules(dry_run=dry_run)
        except IdempotentActionsError as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from error
        if json:
            self.stdout.write(jsonlib.dumps(done))
            return
        would = "would be " if dry_run else ""
        for kind in ("created", "updated", "removed"):
            for name in done[kind]:
                self.stdout.write(f"{name}: {would}{kind}")
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in done.items())
        self.stdout.write(f"schedules: {counts}{' (dry run)' if dry_run else ''}")
