"""``manage.py demo``: two processes escalate the same subjects at once, and nobody climbs twice."""

import json as jsonlib
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from project.demo.processes import Poller, PollerError, escalate_in_processes
from project.demo.samples import DOMAINS, make_sample
from project.demo.story import END, Story, tell

USER = PASSWORD = "demo"  # noqa: S105 - for a demo on one's own machine

HOW_TO_LOOK = f"""
To look at it: uv run manage.py runserver
then http://127.0.0.1:8000/admin/ as {USER}, password {PASSWORD}
"""


class Command(BaseCommand):
    """Make a sample, escalate it in two processes, once more, and tell what happened."""

    help = "Show on sample data that two pollers at once escalate each overdue subject once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the format."""
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        """Run the demo. Exit status 1 when anybody climbed twice, wrongly, or not at all."""
        call_command("migrate", verbosity=0, interactive=False)
        _make_user()
        sample = make_sample()
        self.stdout.write(f"{len(sample.everyone)} subjects, of which {len(sample.due)} are due.")
        try:
            pollers = escalate_in_processes(2)
            again = escalate_in_processes(1)
        except PollerError as error:
            raise CommandError(str(error)) from error
        # The database may hold others that were due. They climbed too, and are not the demo's.
        runs = [run for poller in pollers + again for run in poller.runs]
        story = tell(runs, about=sample.everyone)
        counts = {
            "due": len(sample.due),
            "climbed": len(story.climbed),
            "climbed_twice": story.climbed_twice,
            "second_run_applied": sum(poller.applied for poller in again),
        }
        self._print(pollers, story, counts["second_run_applied"])
        if json:
            self.stdout.write(jsonlib.dumps(counts))
        if story.climbed != sample.due or counts["climbed_twice"] or counts["second_run_applied"]:
            wrong = ", ".join(sorted(story.climbed ^ sample.due)[:5]) or "nobody"
            raise CommandError(f"This should not be: {counts}; due or climbed, not both: {wrong}")

    def _print(self, pollers: list[Poller], story: Story, applied_again: int) -> None:
        say = self.stdout.write
        say("\nTwo processes ran escalate_overdue at the same time:")
        for poller in pollers:
            say(f"  process {poller.pid}: {_sentence(poller)}")
        say("\nWho climbed what:")
        for domain in DOMAINS:
            for rung in [*(rung.name for rung in domain.ladder), END]:
                step = domain.label, rung
                example = story.examples.get(step, "")
                say(f"  {domain.label:<21}{rung:<21}{story.steps[step]:>4}   {example}")
        say(f"\nClimbed twice, by the audit trail: {story.climbed_twice}")
        say(f"Applied by one more run: {applied_again}")
        say(HOW_TO_LOOK)


def _make_user() -> None:
    users = get_user_model().objects
    if not users.filter(username=USER).exists():
        users.create_superuser(USER, password=PASSWORD)


def _sentence(poller: Poller) -> str:
    parts = [f"{poller.applied} applied", f"{poller.resolved} resolved"]
    parts += [f"{count} skipped ({why})" for why, count in sorted(poller.skipped.items())]
    return ", ".join(parts)
