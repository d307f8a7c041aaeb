"""Reads from the audit trail what some runs did: who climbed what, and who climbed twice."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db.models import Count

from idempotent_actions.models import Escalation

__all__ = ["END", "Story", "tell"]

END = "(ladder's end)"
"""Stands for a rung where none was left to climb."""


@dataclass(frozen=True, slots=True)
class Story:
    """What the audit trail says of some runs.

    ``climbed`` names subjects, as ``billing.invoice:42``, with those that came to the ladder's end.
    ``steps`` counts audit rows by model and rung, and ``examples`` holds a line about one of them.
    """

    climbed: set[str]
    climbed_twice: int
    steps: Counter[tuple[str, str]]
    examples: dict[tuple[str, str], str]


def tell(runs: Iterable[int], about: Collection[str]) -> Story:
    """Read the audit rows of ``runs``, primary keys of ``Run``.

    Tells of the subjects named in ``about`` alone; ``climbed_twice`` is of all that climbed.
    """
    acts = Escalation.objects.filter(run_id__in=runs, transition__in=("escalate", "exhaust"))
    rows = [row for row in acts if _name(row) in about]
    # By age of the subject: which process wrote its audit row first is chance.
    rows.sort(key=lambda row: (len(row.subject_pk), row.subject_pk))
    subjects = acts.order_by().values("subject_model", "subject_pk").annotate(times=Count("id"))
    first_of_step = {_step(row): row for row in reversed(rows)}
    return Story(
        climbed={_name(row) for row in rows},
        climbed_twice=subjects.filter(times__gt=1).count(),
        steps=Counter(_step(row) for row in rows),
        examples={
            step: f"{row.subject}, from {row.from_rung or 'the ground'}"
            for step, row in first_of_step.items()
        },
    )


def _name(row: Escalation) -> str:
    return f"{row.subject_model}:{row.subject_pk}"


def _step(row: Escalation) -> tuple[str, str]:
    return row.subject_model, row.rung if row.transition == "escalate" else END
