"""The question that each batch, each barrier and each sweep asks: has a person paused this?

Pauses are set and lifted in ``pause_services``. Nothing is remembered between two questions, so one
that another connection commits counts from the next batch, or the next effect, on.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db import connections
from django.db.models import Q

from idempotent_actions import clock
from idempotent_actions.models.pause import Pause, PauseScope

__all__ = ["held_captures", "paused_by"]

_NONE = Q(pk__in=[])
_ALL = ~_NONE


def paused_by(
    using: str, now: datetime | None = None, *, action: str = "", effect: str = ""
) -> Pause | None:
    """Return the newest pause that stops ``action`` or ``effect`` at ``now``; None if they go on.

    ``using`` is the database's alias. A pause of everything stops both, whatever they are called. A
    ladder's passes are asked for by the name of its action. Without ``now`` the database's clock is
    read, but only where a pause has to be compared with it.
    """
    if not _is_any(using):
        return None
    stops = Q(scope=PauseScope.EVERYTHING)
    if action:
        stops |= Q(scope=PauseScope.ACTION, name=action)
    if effect:
        stops |= Q(scope=PauseScope.EFFECT, name=effect)
    active = Pause.objects.using(using).active(clock.now(using) if now is None else now)
    return active.filter(stops).order_by("-id").first()


def held_captures(pauses: Iterable[Pause]) -> Q:
    """Return the captures that ``pauses`` hold back, as a rule; it finds none without a pause.

    An action's pause holds back the effects of its acts, an effect's those of every action.
    """
    held = _NONE
    for pause in pauses:
        match pause.scope:
            case PauseScope.EVERYTHING:
                return _ALL
            case PauseScope.ACTION:
                held |= Q(action=pause.name)
            case PauseScope.EFFECT:
                held |= Q(effect=pause.name)
    return held


def _is_any(using: str) -> bool:
    # By hand: each batch and each effect waits for the answer, which is nearly always no, and a
    # queryset takes several times as long to make as this takes to answer.
    connection = connections[using]
    table = connection.ops.quote_name(Pause._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {table} WHERE lifted_at IS NULL LIMIT 1")  # noqa: S608 - our name
        return cursor.fetchone() is not None
