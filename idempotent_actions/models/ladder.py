"""LadderModel: the columns, the state machine and the protection of a subject on a ladder."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models, router
from django_fsm import RETURN_VALUE, transition

from idempotent_actions import clock
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.ladders import MAX_RUNG_LENGTH, Ladder, Rung
from idempotent_actions.models.fields import StatusField

__all__ = ["OWN_COLUMNS", "LadderModel", "Status"]

OWN_COLUMNS = frozenset(
    {
        "status",
        "rung",
        "cycle",
        "revision",
        "next_at",
        "escalated_at",
        "hold_until",
        "hold_reason",
    }
)
"""Columns that ``save()`` writes only when that very instance changed them; not ``due_at``, the
host's own."""


class Status(models.TextChoices):
    """The states of a subject on a ladder."""

    OPEN = "open"
    OVERDUE = "overdue"
    ESCALATED = "escalated"
    EXHAUSTED = "exhausted"
    RESOLVED = "resolved"
    CANCELLED = "cancelled"


LIVE = [Status.OPEN, Status.OVERDUE, Status.ESCALATED, Status.EXHAUSTED]


class LadderModel(models.Model):
    """Abstract base of a subject on a ladder: the host's own table, or a side row of one.

    A subclass sets ``ladder`` (a ``Ladder``, or a property that returns one for each row) and may
    override ``on_climb`` and ``deadline_after``. It declares no manager, so that the host's wins.

    The transitions below only change the instance, as django-fsm's do. Call a service
    (``idempotent_actions.services``) to lock, guard, save and audit.
    """

    if TYPE_CHECKING:

        @property
        def ladder(self) -> Ladder:
            """The ladder that this subject is on; a class attribute will do."""

    # Every column that can't be null has a default in the database too: during a rolling deploy the
    # old code inserts rows without it.
    status = StatusField(
        choices=Status.choices,
        default=Status.OPEN.value,
        db_default=Status.OPEN.value,
        protected=True,
        editable=False,
    )
    rung = models.CharField(
        max_length=MAX_RUNG_LENGTH, blank=True, default="", db_default="", editable=False
    )
    cycle = models.PositiveIntegerField(default=1, db_default=1, editable=False)
    revision = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    due_at = models.DateTimeField(null=True, blank=True)
    next_at = models.DateTimeField(null=True, blank=True, editable=False)
    escalated_at = models.DateTimeField(null=True, blank=True, editable=False)
    hold_until = models.DateTimeField(null=True, blank=True, editable=False)
    hold_reason = models.CharField(
        max_length=255, blank=True, default="", db_default="", editable=False
    )

    class Meta:
        abstract = True
        # Unnamed: a name would exceed 30 characters for long class names. Unconditional and without
        # the primary key: they fit every backend and every name of a primary key.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["status", "due_at"]),
            models.Index(fields=["status", "next_at"]),
        ]

    # -- a stale instance never writes back an old rung or state

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._remember(OWN_COLUMNS)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save as Django does, but the app's own columns only where this instance changed them.

        An edit form opened before a tick, or a task that loaded the row an hour ago, can't put
        the subject back on the rung it has left.
        """
        is_new = self._state.adding
        super().save(*args, **kwargs)
        if is_new:
            self._remember(OWN_COLUMNS)

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: Any = None,
    ) -> None:
        """Reload as Django does, the protected state included."""
        names = None if fields is None else list(fields)
        self.__dict__["_refreshing"] = True
        try:
            super().refresh_from_db(using, names, from_queryset)
        finally:
            del self.__dict__["_refreshing"]
        self._remember(OWN_COLUMNS if names is None else OWN_COLUMNS.intersection(names))

    def _do_update(
        self, base_qs: Any, using: Any, pk_val: Any, values: Any, *args: Any, **kwargs: Any
    ) -> Any:
        # Django calls this for each table of the row with (field, model, value) triples. Filtering
        # here, rather than passing update_fields, keeps the INSERT of a row that isn't there and
        # what save-signal receivers are told.
        # An import that knows the key of an existing row, and nothing of its ladder, is new and
        # has our defaults, which mustn't put the ladder back to its start.
        loaded = self._defaults() if self._state.adding else self.__dict__["_loaded"]
        wanted = [
            entry
            for entry in values
            if entry[0].name not in loaded or loaded[entry[0].name] != entry[2]
        ]
        result = super()._do_update(base_qs, using, pk_val, wanted, *args, **kwargs)
        if result:
            self._remember(OWN_COLUMNS.intersection(entry[0].name for entry in wanted))
        return result

    def save_base(self, raw: bool = False, *args: Any, **kwargs: Any) -> None:
        """Save as Django does; a fixture's row (``raw``) is restored in full."""
        self.__dict__["_raw"] = raw
        super().save_base(raw, *args, **kwargs)

    def _prepare_related_fields_for_save(self, operation_name: str, fields: Any = None) -> None:
        # bulk_create() calls this on each instance, and nothing else of it.
        super()._prepare_related_fields_for_save(operation_name, fields)  # type: ignore[misc]
        if operation_name == "bulk_create":
            self._remember(OWN_COLUMNS)
            self.__dict__["_inserting"] = True

    def _defaults(self) -> dict[str, Any]:
        if self.__dict__.get("_raw"):
            return {}
        fields = [self._meta.get_field(name) for name in OWN_COLUMNS]
        return {each.name: each.get_default() for each in fields if isinstance(each, models.Field)}

    def _remember(self, names: Iterable[str]) -> None:
        # A new dict each time: a copy of the instance shares the old one.
        values = {name: self.__dict__[name] for name in names if name in self.__dict__}
        self.__dict__["_loaded"] = self.__dict__.get("_loaded", {}) | values

    # -- the host's hooks

    def on_climb(self, rung: Rung) -> None:
        """Change the row's own columns as it climbs ``rung``: a late fee, say. Same transaction."""

    def deadline_after(self, rung: Rung, sent_at: datetime) -> datetime:
        """Return when the rung above may be climbed, given that this one's notice went out then.

        The default adds the rung's wait to the minute of the notice: a tick that starts some
        seconds earlier next week must not cost the subject another day. Override for business days.
        """
        if rung.wait_after >= timedelta(minutes=1):
            sent_at = sent_at.replace(second=0, microsecond=0)
        return sent_at + rung.wait_after

    def next_deadline(self, rung: str, sent_at: datetime) -> datetime:
        """Ask ``deadline_after``, and check what it says. Raises ``InvalidInput``."""
        deadline = self.deadline_after(self.ladder.get(rung), sent_at)
        if clock.check_instant(deadline, "deadline_after()") <= sent_at:
            raise InvalidInput(
                f"deadline_after() must return a later instant, not {deadline.isoformat()}."
            )
        return deadline

    # -- the state machine

    @transition(field="status", source=[Status.OPEN, Status.ESCALATED], target=Status.OVERDUE.value)
    def mark_overdue(self) -> None:
        """Note that the current deadline has lapsed."""

    @transition(field="status", source=Status.OVERDUE.value, target=Status.ESCALATED.value)
    def escalate(self, now: datetime | None = None) -> None:
        """Climb exactly one rung at the instant ``now`` (the database's, unless given).

        Raises ``LadderExhausted`` at the ladder's end and ``UnknownRung`` where the rung the
        subject stands on is no longer declared; the instance is then unchanged.
        """
        rung = self.ladder.next(self.rung)
        now = now or self._database_now()
        self.rung = rung.name
        self.escalated_at = now
        self.next_at = self.next_deadline(rung.name, now)
        self.on_climb(rung)

    @transition(field="status", source=Status.OVERDUE.value, target=Status.EXHAUSTED.value)
    def exhaust(self, now: datetime | None = None) -> None:
        """Note that the last rung's wait has lapsed: nothing is left to climb."""
        self.escalated_at = now or self._database_now()
        self.next_at = None

    @transition(field="status", source=LIVE, target=Status.RESOLVED.value)
    def resolve(self) -> None:
        """End this cycle: what was overdue is settled."""
        self._rest()

    @transition(field="status", source=LIVE, target=Status.CANCELLED.value)
    def cancel(self) -> None:
        """End this cycle: the subject should not be escalated at all."""
        self._rest()

    @transition(
        field="status", source=[Status.RESOLVED, Status.CANCELLED], target=Status.OPEN.value
    )
    def reopen(self) -> None:
        """Begin the next cycle below the first rung."""
        self.cycle += 1
        self.rung = ""
        self.escalated_at = None
        self._rest()

    @transition(
        field="status", source=LIVE, target=RETURN_VALUE(Status.OPEN.value, Status.ESCALATED.value)
    )
    def adopt(self, rung: str, next_at: datetime) -> str:
        """Stand on ``rung`` (below the first when empty) and wait until ``next_at``."""
        self.rung = rung
        self.next_at = next_at
        self.revision += 1
        return Status.ESCALATED.value if rung else Status.OPEN.value

    @transition(
        field="status",
        source=[Status.OPEN, Status.OVERDUE, Status.ESCALATED],
        target=Status.ESCALATED.value,
    )
    def skip_rung(self, now: datetime | None = None) -> None:
        """Stand on the next rung without having climbed it: no effects, no ``on_climb``.

        The rest of the ladder keeps its dates: the wait counts from when the rung would have been
        climbed. Raises as ``escalate`` does.
        """
        rung = self.ladder.next(self.rung)
        now = now or self._database_now()
        climbed_at = max(now, self.due_at or now, self.next_at or now)
        self._stand_on(rung, now, self.next_deadline(rung.name, climbed_at))

    @transition(
        field="status",
        source=[Status.OVERDUE, Status.ESCALATED, Status.EXHAUSTED],
        target=RETURN_VALUE(Status.OPEN.value, Status.ESCALATED.value),
    )
    def step_back(self, now: datetime | None = None) -> str:
        """Stand one rung lower, and climb the one just left again after the lower one's wait.

        Below the first rung there is no wait: it is climbed by the next poll, if still due. Raises
        ``UnknownRung`` where the rung is no longer declared.
        """
        rung = self.ladder.previous(self.rung)
        now = now or self._database_now()
        self._stand_on(rung, now, self.next_deadline(rung.name, now) if rung else None)
        return Status.ESCALATED.value if rung else Status.OPEN.value

    def _stand_on(self, rung: Rung | None, now: datetime, next_at: datetime | None) -> None:
        self.rung = rung.name if rung else ""
        self.escalated_at = now if rung else None
        self.next_at = next_at
        self.revision += 1

    def _rest(self) -> None:
        self.next_at = None
        self.hold_until = None
        self.hold_reason = ""

    def _database_now(self) -> datetime:
        return clock.now(self._state.db or router.db_for_write(type(self), instance=self))
