"""``manage.py deliver_captures``: do what is pending, recover what is unknown."""

import json as jsonlib
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from idempotent_actions.delivering import deliver
from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.management.arguments import (
    BAD_USAGE,
    SOME_FAILED,
    add_workers_argument,
    whole_number,
)
from idempotent_actions.management.deliveries import delivery_sentence, write_delivery_errors


class Command(BaseCommand):
    """One sweep over the captures that are due."""

    help = "Deliver captures that are pending; recover those whose outcome is unknown."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what narrows the sweep."""
        parser.add_argument("--effect", metavar="NAME", help="captures of this effect only")
        parser.add_argument(
            "--limit",
            type=whole_number(0),
            metavar="N",
            help="run at most N effects; captures that wait don't count",
        )
        add_workers_argument(parser)
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(
        self,
        *args: Any,
        effect: str | None,
        limit: int | None,
        workers: int | None,
        json: bool,
        **options: Any,
    ) -> None:
        """Deliver. Exit status 1 when some were not delivered, 2 for bad usage."""
        try:
            report = deliver(effect=effect, limit=limit, workers=workers)
        except IdempotentActionsError as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from error
        write_delivery_errors(self, report)
        self.stdout.write(jsonlib.dumps(report.as_dict()) if json else delivery_sentence(report))
        if wrong := report.not_done + report.hanging:
            raise CommandError(
                f"{wrong} effects were not done; the others are.", returncode=SOME_FAILED
            )
