"""``manage.py tick``: every action through all its passes; one line in a crontab is enough."""

from typing import Any

from django.core.management.base import CommandParser

from idempotent_actions import polling
from idempotent_actions.management.arguments import add_delivery_arguments
from idempotent_actions.management.polling_command import PollingCommand
from idempotent_actions.polling import PollOptions
from idempotent_actions.reports import Report


class Command(PollingCommand):
    """Run all registered actions, or the named ones."""

    help = "Run every registered action, or the named ones: missing, resolve, detect, act, deliver."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take names beside the common options."""
        parser.add_argument("names", nargs="*", metavar="NAME", help="an action's name")
        parser.add_argument("--no-mark", action="store_true", help="leave out detection")
        add_delivery_arguments(parser)
        super().add_arguments(parser)

    def poll(self, options: PollOptions, **chosen: Any) -> list[Report]:
        """Call the service."""
        return polling.tick(*chosen["names"], **options)
