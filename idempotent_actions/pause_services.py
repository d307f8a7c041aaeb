"""A person's pause: everything, an action or an effect stands still until it is lifted or ends."""

from datetime import datetime
from typing import Any

from idempotent_actions import clock
from idempotent_actions.asking import actor_of, check_text, in_transaction
from idempotent_actions.delivering import home
from idempotent_actions.effects import all_effects
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models.pause import Pause, PauseScope
from idempotent_actions.nudges import nudge
from idempotent_actions.registry import registry

__all__ = ["lift", "pause"]


def pause(
    scope: str,
    name: str = "",
    *,
    reason: str,
    by: Any,
    until: datetime | None = None,
    using: str | None = None,
) -> Pause:
    """Stop ``"everything"``, or the ``"action"`` or ``"effect"`` called ``name``.

    A run under way ends after its current batch, a delivery before its next effect; what is being
    sent is settled. A paused action climbs, marks and resolves nothing, and its effects wait; the
    effects of a paused effect wait, while what requests them goes on. A person can still hold,
    release, resolve, cancel and reopen. ``reason`` has at most 255 characters, ``by`` is a user or
    a text of at most 150. At ``until`` the pause ends by itself; None: only by ``lift``. ``using``
    is the database's alias, that of the app's tables unless given.

    What is paused already may be paused again: each pause is lifted by itself. Returns the pause.
    Raises ``InvalidInput`` for a scope or a name that isn't there, and an ``until`` in the past.
    """
    using = using or home()
    _check_scope(scope, name)
    check_text("reason", reason, 255)
    actor = actor_of(by)
    if until is not None:
        clock.check_instant(until, "until")
    now = clock.now(using)
    if until is not None and until <= now:
        raise InvalidInput(f"until must lie in the future, not at {until.isoformat()}.")
    return Pause.objects.using(using).create(
        scope=scope, name=name, reason=reason, actor=actor, paused_at=now, until=until
    )


def lift(pause: Pause, *, reason: str, by: Any) -> bool:
    """Let what ``pause`` stops go on, unless another pause stops it too; effects go out at once.

    ``reason`` and ``by``: as for ``pause``; the instance handed in isn't changed. Returns False for
    a pause that was lifted before, or has ended by itself. Raises ``InvalidInput``.
    """
    if not isinstance(pause, Pause) or pause.pk is None:
        raise InvalidInput(f"pause must be a stored Pause, not {pause!r}.")
    check_text("reason", reason, 255)
    actor = actor_of(by)
    using = pause._state.db or home()

    def work() -> bool:
        rows = Pause.objects.using(using).select_for_update()
        stored = rows.filter(pk=pause.pk).first()
        now = clock.now(using)  # after the wait for the row
        if stored is None or not stored.is_active(now):
            return False
        stored.lifted_at, stored.lifted_by, stored.lift_reason = now, actor, reason
        stored.save(using=using, update_fields=["lifted_at", "lifted_by", "lift_reason"])
        nudge(using)
        return True

    return in_transaction(work, using)


def _check_scope(scope: str, name: str) -> None:
    if scope not in PauseScope.values:
        scopes = ", ".join(PauseScope.values)
        raise InvalidInput(f"scope must be one of {scopes}, not {scope!r}.")
    if not isinstance(name, str):
        raise InvalidInput(f"name must be a text, not {name!r}.")
    if scope == PauseScope.EVERYTHING:
        if name:
            raise InvalidInput(f"a pause of everything takes no name: {name!r} was given.")
        return
    if not name:
        raise InvalidInput(f"name must say which {scope} to pause.")
    of_actions = scope == PauseScope.ACTION
    known = sorted(each.name for each in (registry if of_actions else all_effects()))
    if name not in known:
        there = "registered" if of_actions else "declared"
        raise InvalidInput(
            f"There is no {scope} {name!r}. {there.capitalize()}: {', '.join(known) or 'none'}."
        )
