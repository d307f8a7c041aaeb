"""What must come of a crash, at each point, of each kind, under each policy.

`python -m tests.crashes.table` prints it as it stands in docs/crashes.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from idempotent_actions.crashpoints import CRASH_POINTS

__all__ = ["COMMITS", "CRASHES", "EXPECTED", "LOST", "POLICIES", "Case", "Story", "cases", "table"]

POLICIES = ("Replay", "Reconcile", "Park")

LOST = "answer lost"
CRASHES = ("killed", "exception", "connection dropped", LOST)

COMMITS = {
    "after_intent": "the intent's commit",
    "before_barrier_commit": "the barrier's commit",
    "before_settle_commit": "the settle's commit",
}
"""The commits whose answer may be lost, and the points beside them."""


@dataclass(frozen=True, slots=True)
class Case:
    """One crash."""

    point: str
    crash: str
    policy: str


@dataclass(frozen=True, slots=True)
class Story:
    """What came of one capture: by the provider's books, and by ours."""

    calls: int
    effects: int
    attempts: tuple[str, ...]
    state: str

    def __str__(self) -> str:
        effects = "1 effect" if self.effects == 1 else f"{self.effects} effects"
        return f"{effects} in {self.calls} call{'s' * (self.calls != 1)}, {self.state}"


_ONCE = Story(1, 1, ("succeeded",), "succeeded")
_NEXT = Story(1, 1, ("unfinished", "succeeded"), "succeeded")
_AGAIN = Story(2, 1, ("unfinished", "succeeded"), "succeeded")
_FOUND = Story(1, 1, ("unfinished",), "succeeded")
_UNSENT = Story(0, 0, ("unfinished",), "review")
_SENT = Story(1, 1, ("unfinished",), "review")

_SAFE = (_ONCE, _ONCE, _ONCE)
"""Nothing was marked yet, or the worker lived on, or all was written."""
_MARKED = (_NEXT, _NEXT, _UNSENT)
"""Marked as sending and not sent, which nobody can tell from outside."""
_DONE = (_AGAIN, _FOUND, _SENT)
"""Sent, and nobody has written it down."""

_BY_POINT = {
    "after_intent": (_SAFE, _SAFE, _SAFE, _SAFE),
    "before_barrier_commit": (_SAFE, _SAFE, _SAFE, _MARKED),
    "after_barrier_commit": (_MARKED, _MARKED, _SAFE, None),
    "after_effect": (_DONE, _DONE, _SAFE, None),
    "before_settle_commit": (_DONE, _DONE, _SAFE, _SAFE),
    "after_settle_commit": (_SAFE, _SAFE, _SAFE, None),
}


def cases(policy: str) -> list[Case]:
    """Every crash there is under `policy`. No answer is lost where there is no commit."""
    return [
        Case(point, crash, policy)
        for point in CRASH_POINTS
        for crash in CRASHES
        if crash != LOST or point in COMMITS
    ]


def _expected() -> Iterator[tuple[Case, Story]]:
    for policy in POLICIES:
        for case in cases(policy):
            by_policy = _BY_POINT[case.point][CRASHES.index(case.crash)]
            assert by_policy is not None
            yield case, by_policy[POLICIES.index(policy)]


EXPECTED = dict(_expected())


def table(stories: Mapping[Case, Story]) -> str:
    """Return what came of each case as a table in Markdown; a dash where it was not tried."""
    rows: list[tuple[str, ...]] = [("point", "crash", *POLICIES), ("---",) * 5]
    for point in CRASH_POINTS:
        for crash in CRASHES:
            what = crash if crash != LOST else f"answer of {COMMITS.get(point, 'a commit')} lost"
            told = [stories.get(Case(point, crash, policy)) for policy in POLICIES]
            none = "no commit here" if crash == LOST and point not in COMMITS else "-"
            rows.append((point, what, *[none if each is None else str(each) for each in told]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    print(table(EXPECTED))
