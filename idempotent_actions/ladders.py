"""The ladder of an escalation: ordered rungs, each with the wait until the next deadline. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from idempotent_actions.exceptions import InvalidLadder, LadderExhausted, UnknownRung

__all__ = ["MAX_RUNG_LENGTH", "Ladder", "Rung"]

MAX_RUNG_LENGTH = 50
"""Characters of a rung's name: the width of its column."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder.

    ``name`` is stored on the subject and in the audit trail: renaming a rung strands the subjects
    that stand on it. ``wait_after`` is the time from this rung's notice until the next deadline.
    Raises ``InvalidLadder`` for an empty, long or reserved name, or a wait that isn't above zero.
    """

    name: str
    wait_after: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name.startswith("@"):
            raise InvalidLadder(
                f"A rung needs a name that doesn't begin with '@', not {self.name!r}."
            )
        if len(self.name) > MAX_RUNG_LENGTH:
            raise InvalidLadder(
                f"The rung name {self.name!r} is longer than {MAX_RUNG_LENGTH} characters."
            )
        if not isinstance(self.wait_after, timedelta) or self.wait_after <= timedelta(0):
            raise InvalidLadder(
                f"Rung {self.name!r} needs wait_after as a timedelta above zero, "
                f"not {self.wait_after!r}: without a wait the whole ladder would go out at once."
            )


class Ladder:
    """The ordered rungs of an escalation.

    Raises ``InvalidLadder`` for no rungs or two of the same name.

    >>> ladder = Ladder(Rung("reminder", timedelta(days=7)), Rung("warning", timedelta(days=7)))
    >>> ladder.next("").name, ladder.next("reminder").name
    ('reminder', 'warning')
    """

    def __init__(self, *rungs: Rung) -> None:
        if not rungs:
            raise InvalidLadder("A ladder needs at least one rung.")
        if strangers := [rung for rung in rungs if not isinstance(rung, Rung)]:
            raise InvalidLadder(f"A ladder is made of Rung objects, not {strangers[0]!r}.")
        self.rungs = rungs
        self._position = {rung.name: index for index, rung in enumerate(rungs)}
        if len(self._position) != len(rungs):
            raise InvalidLadder("Two rungs of one ladder have the same name.")

    def __iter__(self) -> Iterator[Rung]:
        return iter(self.rungs)

    def __len__(self) -> int:
        return len(self.rungs)

    def __repr__(self) -> str:
        return f"Ladder({', '.join(self._position)})"

    def get(self, name: str) -> Rung:
        """Return the rung called ``name``; raise ``UnknownRung`` when it isn't declared."""
        if name not in self._position:
            raise UnknownRung(f"No rung {name!r} on {self!r}: it was renamed or removed.")
        return self.rungs[self._position[name]]

    def next(self, name: str) -> Rung:
        """Return the rung above ``name``, or the first one when ``name`` is empty.

        Raises ``LadderExhausted`` past the end and ``UnknownRung`` for a rung that is no longer
        declared.
        """
        if not name:
            return self.rungs[0]
        above = self._position[self.get(name).name] + 1
        if above == len(self.rungs):
            raise LadderExhausted(f"{name!r} is the last rung of {self!r}.")
        return self.rungs[above]

    def previous(self, name: str) -> Rung | None:
        """Return the rung below ``name``; None for the first one.

        Raises ``UnknownRung`` for a rung that isn't declared.
        """
        below = self._position[self.get(name).name] - 1
        return None if below < 0 else self.rungs[below]
