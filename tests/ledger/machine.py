"""The ledger's state machine: what it knows of the world, and what is true after every step."""

import sys
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from idempotent_actions.deliveries import deliver_one
from idempotent_actions.effects import Call
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.testing import travel
from tests.ledger.moments import FAR, NOW
from tests.ledger.simulation import Worker, say, world
from tests.oddities.models import Parcel

__all__ = ["USING", "LedgerMachine"]

USING = "default"

LIVE = ["pending", "sending", "unknown"]


class LedgerMachine(RuleBasedStateMachine):
    """An empty ledger, no worker, and a clock that only the rules move."""

    def __init__(self) -> None:
        super().__init__()
        Capture.objects.all().delete()
        Escalation.objects.all().delete()
        Parcel.objects.all().delete()
        world.clear()
        self.workers: list[Worker] = []
        self.on_its_way: list[Worker] = []
        self.views: list[tuple[datetime, Capture]] = []
        self.decided: set[int] = set()  # captures that a person decided about in this step
        self.ever_decided: set[int] = set()
        self.refreshed: set[int] = set()
        self.before: dict[int, Capture] = {}
        self.live = 0
        self.stack = ExitStack()
        self.move_to(NOW)

    def move_to(self, now: datetime) -> None:
        self.now = now
        self.stack.close()
        self.stack.enter_context(travel(now))

    def one_of(self, number: int, **wanted: Any) -> Capture | None:
        rows = list(Capture.objects.filter(**wanted).order_by("id"))
        return rows[number % len(rows)] if rows else None

    def everybody_is_late(self) -> None:
        """What the rules have begun, and not ended, ends now."""

    def deliver_with(self, capture: Capture, answer: str) -> None:
        def run(call: Call) -> Any:
            if answer in ("done", "dropped"):
                world.receive(capture.effect, call.idempotency_key, self.now)
            if answer == "refused" and self.may_be_done(call.idempotency_key):
                raise ConnectionError
            return say(answer)

        world.answer = run
        deliver_one(capture.pk, None, USING)

    def may_be_done(self, key: str) -> bool:
        waiting = [*self.workers, *self.on_its_way]
        return world.has_done(key) or any(each.key == key for each in waiting)

    @invariant()
    def all_holds(self) -> None:
        rows = list(Capture.objects.all())
        self.no_generation_is_done_twice()
        assert not world.unwanted
        self.the_machine_says_only_what_is_true(rows)
        self.each_capture_goes_forward_only(rows)
        live = {each.pk for each in rows if each.state in LIVE}
        assert set(Capture.objects.due(FAR).values_list("pk", flat=True)) == live
        self.live = len(live)

    def no_generation_is_done_twice(self) -> None:
        twice = [key for key, done in world.effects.items() if len(done) > 1]
        assert not twice, [
            (each, world.effects[each.provider_key])
            for each in Capture.objects.all()
            if each.provider_key in twice
        ]

    def the_machine_says_only_what_is_true(self, rows: list[Capture]) -> None:
        for capture in rows:
            if capture.pk in self.ever_decided:
                continue  # a person has spoken
            if capture.state == "succeeded":
                assert world.has_done(capture.provider_key), capture
            if capture.state in ("void", "failed"):
                assert not world.has_done(capture.provider_key), capture

    def each_capture_goes_forward_only(self, rows: list[Capture]) -> None:
        for capture in rows:
            if capture.pk in self.before:
                self._check(self.before[capture.pk], capture)
        self.before = {capture.pk: capture for capture in rows}
        self.decided.clear()
        self.refreshed.clear()

    def _check(self, was: Capture, now: Capture) -> None:
        assert now.token >= was.token
        if was.state in ("succeeded", "void"):
            assert now.state == was.state
        if was.state == "failed" != now.state:
            assert now.pk in self.decided
        if now.generation != was.generation:
            assert now.generation == was.generation + 1
            assert now.pk in self.decided
        if now.fingerprint != was.fingerprint:
            assert now.pk in self.refreshed

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self._all_ends_well()
        finally:
            self.stack.close()

    def _all_ends_well(self) -> None:
        """Once nothing breaks any more, every capture is done, given up, or a person's.

        All who are late come just when the others have gone on without them.
        """
        for days in (0, 2, 2, 2, 2):
            self.move_to(self.now + timedelta(days=days))
            for capture in Capture.objects.due(self.now):
                self.deliver_with(capture, "done")
            self.everybody_is_late()
        left = Capture.objects.exclude(state__in=["succeeded", "failed", "void", "review"])
        assert not left.exists(), list(left)
        self.no_generation_is_done_twice()
        self.the_machine_says_only_what_is_true(list(Capture.objects.all()))
