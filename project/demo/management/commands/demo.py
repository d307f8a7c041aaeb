"""``manage.py demo``: two processes act on the same rows at once, and nothing happens twice."""

import json as jsonlib
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.test import override_settings
from django.utils import timezone

from idempotent_actions.captures import deliver
from idempotent_actions.models import Capture
from project.demo.orders import make_orders
from project.demo.outside import Outside, outside
from project.demo.processes import Poller, PollerError, tick_in_processes
from project.demo.samples import DOMAINS, make_sample
from project.demo.story import END, Story, tell
from project.sandbox.running import SandboxError

USER = PASSWORD = "demo"  # noqa: S105 - for a demo on one's own machine

HOW_TO_LOOK = f"""
To look at it: uv run manage.py runserver
then http://127.0.0.1:8000/admin/ as {USER}, password {PASSWORD}
"""


class Command(BaseCommand):
    """Make a sample, act on it in two processes, once more, and tell what happened."""

    help = "Show on sample data that two pollers at once do each thing once, mails and charges too."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the format."""
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        """Run the demo. Exit status 1 when anything happened twice, wrongly, or not at all."""
        call_command("migrate", verbosity=0, interactive=False)
        _make_user()
        sample = make_sample()
        orders = make_orders()
        self.stdout.write(
            f"{len(sample.everyone)} subjects, of which {len(sample.due)} are due; "
            f"{orders} orders to be paid."
        )
        try:
            with outside() as servers:
                servers.payments.fault("drop_after", times=1)
                pollers = tick_in_processes(2, servers.environment)
                again = tick_in_processes(1, servers.environment)
                unknown = _ask_again(servers)
                done = servers.counts()
        except (PollerError, SandboxError) as error:
            raise CommandError(str(error)) from error
        # The database may hold others that were due. They climbed too, and are not the demo's.
        runs = [run for poller in pollers + again for run in poller.runs]
        story = tell(runs, about=sample.everyone)
        counts = {
            "due": len(sample.due),
            "climbed": len(story.climbed),
            "climbed_twice": story.climbed_twice,
            "second_run_applied": sum(poller.applied for poller in again),
            **done,
        }
        self._print(pollers, story, counts, unknown)
        if json:
            self.stdout.write(jsonlib.dumps(counts))
        twice = [name for name in counts if name.endswith("twice") and counts[name]]
        if story.climbed != sample.due or twice or counts["second_run_applied"]:
            wrong = ", ".join(sorted(story.climbed ^ sample.due)[:5]) or "nobody"
            raise CommandError(f"This should not be: {counts}; due or climbed, not both: {wrong}")

    def _print(
        self, pollers: list[Poller], story: Story, counts: dict[str, int], unknown: int
    ) -> None:
        say = self.stdout.write
        say("\nTwo processes ran tick at the same time:")
        for poller in pollers:
            say(f"  process {poller.pid}: {_sentence(poller)}")
        say("\nWho climbed what:")
        for domain in DOMAINS:
            for rung in [*(rung.name for rung in domain.ladder), END]:
                step = domain.label, rung
                example = story.examples.get(step, "")
                say(f"  {domain.label:<21}{rung:<21}{story.steps[step]:>4}   {example}")
        say(f"\nClimbed twice, by the audit trail: {story.climbed_twice}")
        say(f"Applied by one more run: {counts['second_run_applied']}")
        say("\nWhat the servers outside have really done:")
        say(f"  {counts['mails']} mails taken by the mail server, {counts['mailed_twice']} twice")
        say(
            f"  {counts['charges']} orders charged by the payment provider, "
            f"{counts['charged_twice']} twice; {counts['declined']} cards declined"
        )
        say(
            f"  {unknown} answer of the provider was lost on purpose. Its charge was 'unknown', "
            "and was asked for again with the same key: charged once."
        )
        say(HOW_TO_LOOK)


def _ask_again(servers: Outside) -> int:
    """Deliver as if some minutes had passed: by then a lost answer is asked for again."""
    unknown = Capture.objects.filter(state="unknown", effect="charge_order").count()
    with override_settings(PAYMENTS_URL=servers.payments.url):
        deliver(effect="charge_order", now=timezone.now() + timedelta(minutes=5))
    return unknown


def _make_user() -> None:
    users = get_user_model().objects
    if not users.filter(username=USER).exists():
        users.create_superuser(USER, password=PASSWORD)


def _sentence(poller: Poller) -> str:
    parts = [f"{poller.applied} applied", f"{poller.resolved} resolved"]
    parts += [f"{count} skipped ({why})" for why, count in sorted(poller.skipped.items())]
    return ", ".join(parts)
