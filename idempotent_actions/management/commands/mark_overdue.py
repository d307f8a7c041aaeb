"""``manage.py mark_overdue``: detection alone."""

from typing import Any

from django.core.management.base import CommandParser

from idempotent_actions import polling
from idempotent_actions.management.arguments import add_model_argument
from idempotent_actions.management.polling_command import PollingCommand
from idempotent_actions.polling import PollOptions
from idempotent_actions.reports import Report


class Command(PollingCommand):
    """Mark the subjects whose deadline has lapsed, and do nothing else."""

    help = (
        "Mark the subjects whose deadline has lapsed. It writes no audit rows and climbs no rung."
    )
    limit_help = "mark at most N rows per model"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a model beside the common options."""
        add_model_argument(parser)
        super().add_arguments(parser)

    def poll(self, options: PollOptions, **chosen: Any) -> list[Report]:
        """Call the service."""
        return polling.mark_overdue(chosen["model"], **options)
