"""``manage.py explain``: would a subject be acted on at the next tick, and if not, why not."""

import json as jsonlib
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import models

from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.explaining import Explanation, Part, explain
from idempotent_actions.management.arguments import BAD_USAGE, instant, model


class Command(BaseCommand):
    """Ask the tick's own rules about one row."""

    help = (
        "Tell whether the next tick acts on a subject, how and with which effects; else everything "
        "that stands against it. Writes nothing. Exit status 0 whatever the answer is, a row that "
        "is gone included; 2 for a model without an action or a key that can't be one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the subject, and from when to look."""
        parser.add_argument("model", type=model, metavar="APP.MODEL", help="like billing.Invoice")
        parser.add_argument("pk", metavar="PK", help="the row's primary key")
        parser.add_argument(
            "--at",
            type=instant,
            metavar="ISO-TIME",
            help="as if it were this time, like 2026-03-01T08:00Z",
        )
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object as the last line"
        )

    def handle(
        self,
        *args: Any,
        model: type[models.Model],
        pk: str,
        at: datetime | None,
        json: bool,
        **options: Any,
    ) -> None:
        """Explain. Exit status 2 for bad usage."""
        try:
            explanation = explain(model(pk=model._meta.pk.to_python(pk)), at)
        except ValidationError as error:
            message = f"{pk!r} is no primary key of {model._meta.label}: {error.messages[0]}"
            raise CommandError(message, returncode=BAD_USAGE) from error
        except IdempotentActionsError as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from error
        if json:
            self.stdout.write(jsonlib.dumps(explanation.as_dict()))
        else:
            self._print(explanation)

    def _print(self, explanation: Explanation) -> None:
        self.stdout.write(f"{explanation.subject} at {explanation.now.isoformat()}")
        for part in explanation.parts:
            self.stdout.write(f"{part.action}: {_verdict(part)}")
            for effect in part.effects:
                params = jsonlib.dumps(effect.params, ensure_ascii=False)
                paused = f" (paused: {effect.paused})" if effect.paused else ""
                self.stdout.write(f"  {effect.name} {params}{paused}")
            for code, sentence in part.reasons:
                self.stdout.write(f"  {code}: {sentence}")
            if part.due_from is not None:
                self.stdout.write(f"  nothing stands against it from {part.due_from.isoformat()}")


def _verdict(part: Part) -> str:
    if not part.climbs:
        return "the next tick does nothing with it"
    return f"the next tick will {part.transition} it {part.rung and f'to {part.rung}'}".rstrip()
