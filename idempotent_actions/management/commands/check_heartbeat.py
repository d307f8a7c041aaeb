"""``manage.py check_heartbeat``: what should have happened by now, and has not."""

import json as jsonlib
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.heartbeat import check_heartbeat
from idempotent_actions.management.arguments import BAD_USAGE, SOME_FAILED


class Command(BaseCommand):
    """A look from outside of the queue."""

    help = "Name actions without a good run, runs that died, captures and calls that wait too long."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the form of the answer."""
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        """Look. Exit status 1 when something is wrong, 2 for settings that can't be read."""
        try:
            found = check_heartbeat()
        except IdempotentActionsError as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from error
        for trouble in found.alarms:
            self.stderr.write(str(trouble))
        if json:
            self.stdout.write(jsonlib.dumps(found.as_dict()))
        else:
            for paused in (each for each in found.troubles if each.kind == "paused"):
                self.stdout.write(str(paused))
            if found:
                self.stdout.write("all is well")
        if not found:
            raise CommandError(f"{len(found.alarms)} troubles", returncode=SOME_FAILED)
