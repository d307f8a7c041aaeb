"""Rehearsing: the host's code runs as it does in a tick, and nothing that it does is kept.

All that it writes is rolled back, on the alias of the subjects. What a transition does elsewhere
can't be undone, as it can't in a tick whose batch fails: that is what effects are for.
"""

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from django.db import connections, transaction

from idempotent_actions import machines
from idempotent_actions.actions import Action
from idempotent_actions.acts import Asked, Plan, fire_one
from idempotent_actions.databases import is_transient, lazy_savepoint
from idempotent_actions.models.capture import Capture
from idempotent_actions.writing import Change, snapshot

__all__ = ["Rehearsal", "rehearse_act"]

T = TypeVar("T")


class _Undone(Exception):
    """Ends a part that went well, so that its work is rolled back as that of one that failed."""


class Rehearsal:
    """A transaction on the alias ``using`` that keeps nothing. Use it in a ``with`` statement.

    It is open before the host's code runs: a block of its own then commits nothing, and a hook for
    after the commit is never called. Parts that send no statement cost none. Inside a transaction
    of the caller's each part is undone alone.
    """

    def __init__(self, using: str) -> None:
        self.using = using
        self._own: transaction.Atomic | None = None

    def __enter__(self) -> Self:
        if not connections[self.using].in_atomic_block:
            self._own = transaction.atomic(using=self.using)
            self._own.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._own is None:
            return
        transaction.set_rollback(True, using=self.using)
        self._own.__exit__(kind, error, traceback)

    def run(self, part: Callable[[], T]) -> T | Exception:
        """Call ``part``; return what it returns or raises, as a tick sets an error apart.

        What it leaves in the database is undone at once, and its locks with it. Raises what ends
        the whole transaction (a deadlock).
        """
        try:
            with lazy_savepoint(self.using) as traces:
                result = part()
                if traces.sent:
                    # Fails, as the tick does, where the part has swallowed a database error.
                    connections[self.using].savepoint()
                raise _Undone
        except _Undone:
            return result
        except Exception as error:
            if is_transient(error):
                raise
            return error


def rehearse_act(action: Action, planned: Plan, asked: Asked) -> list[Capture]:
    """Return the unsaved captures of the effects that the planned act would request.

    The transition is fired on a copy of the subject, without its signals. Raises what it raises,
    and what is wrong with an effect. To be run in a ``Rehearsal``.
    """
    double = machines.silenced(planned.subject)
    change = Change(double, snapshot(double))
    fire_one(action, replace(planned, subject=double), change, asked)
    return change.captures
