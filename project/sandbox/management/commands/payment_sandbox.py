"""``manage.py payment_sandbox``: the payment server, in the foreground."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from project.sandbox.command_line import add_arguments
from project.sandbox.payments import FILE, PORT, serve


class Command(BaseCommand):
    """Serve payments until SIGTERM or SIGINT. No database is touched.

    The settings want one all the same; ``python -m project.sandbox.payments`` does without them.
    """

    help = "Serve the part of Stripe's API that moves money, and count what was really done."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take where to listen and what to write to."""
        add_arguments(parser, PORT, FILE)

    def handle(self, *args: Any, port: int, file: Path, with_parent: bool, **options: Any) -> None:
        """Serve."""
        serve(port, file, with_parent)
