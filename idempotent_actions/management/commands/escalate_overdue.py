"""``manage.py escalate_overdue``: the main job."""

from typing import Any

from django.core.management.base import CommandParser

from idempotent_actions import polling
from idempotent_actions.management.arguments import (
    add_delivery_arguments,
    add_model_argument,
)
from idempotent_actions.management.polling_command import PollingCommand
from idempotent_actions.polling import PollOptions
from idempotent_actions.reports import Report


class Command(PollingCommand):
    """Mark lapsed deadlines, then let each overdue subject climb one rung."""

    help = "Mark what is overdue, then escalate each overdue subject by one rung."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take a model beside the common options."""
        add_model_argument(parser)
        parser.add_argument("--no-mark", action="store_true", help="leave out detection")
        add_delivery_arguments(parser)
        super().add_arguments(parser)

    def poll(self, options: PollOptions, **chosen: Any) -> list[Report]:
        """Call the service."""
        return polling.escalate_overdue(chosen["model"], **options)
