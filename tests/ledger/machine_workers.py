"""The rules of the ledger's state machine: what polls, workers, the network and time do."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from idempotent_actions import Action, captures, services
from idempotent_actions.barrier import Claim, is_as_seen, pass_barrier
from idempotent_actions.effects import Call
from idempotent_actions.models import Capture
from idempotent_actions.recovery import recover
from idempotent_actions.running import call_of, run_effect
from idempotent_actions.settling import settle
from tests.ledger.machine import USING, LedgerMachine
from tests.ledger.simulation import KINDS, LEASE, SETTLE_TIME, SLOWEST, Worker, say, world
from tests.oddities.models import Parcel

__all__ = ["Dispatch", "WorkerRules", "which"]

MOST = 3
"""Live captures at a time: few, so that most steps meet each other."""

which = st.integers(0, MOST - 1)
pauses = st.sampled_from(
    [timedelta(seconds=10), LEASE, SETTLE_TIME, timedelta(hours=2), timedelta(hours=2)]
)
kinds = st.sampled_from(sorted(KINDS))
words = ["done", "dropped", "dropped", "lost", "not sent", "not sent", "refused"]
outcomes = st.sampled_from(words)
what_workers_do = st.sampled_from(["sends", "is killed", "is killed sending", *words])


class Dispatch(Action):
    """An act with one effect; the parcel's name says of which kind, and to whom."""

    name = "sim_dispatch"
    model = Parcel
    transition = "dispatch"

    def due(self, now: datetime) -> None:
        return None

    def occurrence(self, subject: Parcel) -> str:
        return f"trip {subject.trip}"

    def effects(self, subject: Parcel, step: Any) -> Any:
        kind, address = subject.name.split(" ")
        yield KINDS[kind](to=address)


class WorkerRules(LedgerMachine):
    """Requests, deliveries in single steps or as a whole, a network that is slow, and time."""

    # -- requests

    @initialize(kinds=st.lists(kinds, min_size=MOST, max_size=MOST))
    def begin(self, kinds: list[str]) -> None:
        for number, kind in enumerate(kinds):
            self.request(kind, bool(number % 2))

    @precondition(lambda self: self.live < MOST)
    @rule(kind=kinds, by_itself=st.booleans())
    def request(self, kind: str, by_itself: bool) -> None:
        """An effect follows from an act on a subject, or is requested by itself, and twice."""
        if by_itself:
            request: Any = {"key": ("request", Capture.objects.count()), "params": {"to": "a"}}
            stored = captures.request(KINDS[kind], **request)
            assert captures.request(KINDS[kind], **request) == stored
        else:
            parcel = Parcel.objects.create(name=f"{kind} a")
            assert services.act(Dispatch, parcel, by="clerk", reason="asked")

    # -- a delivery in single steps

    @rule(number=which, how=st.sampled_from(["at once", "slowly", "late"]))
    def claim(self, number: int, how: str) -> None:
        """A deliverer reads a capture, recovers it if need be, and goes to the barrier.

        A slow one goes there in a later step, with what it has seen by then.
        """
        if how == "late" and self.views:
            seen_at, capture = self.views.pop(number % len(self.views))
            if self.now - seen_at <= SLOWEST:
                self._pass_barrier(capture)
        elif judged := self._judge(number):
            if how == "slowly":
                self.views.append((self.now, judged))
            else:
                self._pass_barrier(judged)

    @rule(number=which)
    def stall(self, number: int) -> None:
        """A worker takes a capture, its lease ends, and another deliverer comes upon it."""
        busy = len(self.workers)
        self.claim(number, "at once")
        for worker in self.workers[busy:]:
            self.move_to(max(self.now, self._wakes_at(worker)))
            self._judge_one(worker.claim.capture)
            self.move_to(max(self.now, self._wakes_at(worker)))

    @precondition(lambda self: self.workers)
    @rule(number=which, what=what_workers_do)
    def work(self, number: int, what: str) -> None:
        """A worker sends, says what came of it (in time or late), or is heard of no more."""
        worker = self.workers[number % len(self.workers)]
        if what == "sends":
            self._send(worker)
            return
        self.workers.remove(worker)
        if what == "is killed sending":
            self.on_its_way.append(worker)
        elif what != "is killed":
            self._settle(worker, what)

    @precondition(lambda self: self.on_its_way)
    @rule(number=which)
    def arrive(self, number: int) -> None:
        """A request arrives of which its worker doesn't know, or knows no more."""
        self._send(self.on_its_way.pop(number % len(self.on_its_way)))

    # -- a delivery as a whole, and time

    @rule(number=which, answer=outcomes)
    def deliver(self, number: int, answer: str) -> None:
        """Nothing happens until this one is due, and then it is delivered in one go."""
        capture = self.one_of(number, wake_at__isnull=False)
        if capture is not None and capture.wake_at is not None:
            self.move_to(max(self.now, capture.wake_at))
            self.deliver_with(capture, answer)

    @rule(pause=pauses)
    def wait(self, pause: timedelta) -> None:
        self.move_to(self.now + pause)

    def _judge(self, number: int) -> Capture | None:
        capture = self.one_of(number, wake_at__lte=self.now)
        return None if capture is None else self._judge_one(capture)

    def _judge_one(self, capture: Capture) -> Capture | None:
        capture = Capture.objects.get(pk=capture.pk)
        while capture.state != "pending":
            word = recover(capture, None, USING)
            if word == "replay":
                break
            if word not in ("again", "pending"):
                return None
            capture.refresh_from_db()
        return capture

    def _wakes_at(self, worker: Worker) -> datetime:
        return Capture.objects.get(pk=worker.claim.capture.pk).wake_at or self.now

    def _pass_barrier(self, capture: Capture) -> None:
        before = Capture.objects.get(pk=capture.pk)
        claim = pass_barrier(capture, None, USING)
        if isinstance(claim, Claim):
            assert is_as_seen(before, capture)
            assert claim.subject is None or claim.subject.state == "sent"
            self.workers.append(Worker(claim, self._arrives_by(claim.capture)))

    def everybody_is_late(self) -> None:
        """Who has seen a capture comes to the barrier; who has sent arrives, and then tells."""
        for number in range(len(self.views)):
            self.claim(number, "late")
        for worker in [*self.workers, *self.on_its_way]:
            self._send(worker)
        for number, worker in enumerate(self.workers):
            self._settle(worker, words[number % len(words)])
        self.workers.clear()

    def _send(self, worker: Worker) -> None:
        if not worker.sent and self.now < worker.until:
            worker.send(self.now)

    def _settle(self, worker: Worker, word: str) -> None:
        claim = worker.claim
        if word == "done":
            self._send(worker)
        world.answer = self._answer(worker, word)
        before = Capture.objects.filter(pk=claim.capture.pk).values().get()
        verdict = run_effect(claim.effect, call_of(claim.capture, claim.effect, None))
        said = settle(claim, verdict, USING)
        mine = (claim.capture.token, claim.capture.generation)
        if (before["token"], before["generation"]) != mine:
            assert said == "late"
            assert Capture.objects.filter(pk=claim.capture.pk).values().get() == before

    def _answer(self, worker: Worker, answer: str) -> Callable[[Call], Any]:
        """What `worker` says: never what isn't true."""
        if worker.sent:
            said = "done" if answer == "done" else "dropped"
        elif answer == "done" or (answer == "refused" and self.may_be_done(worker.key)):
            said = "lost"
        else:
            said = answer
        if said == "dropped" and not worker.sent and self.now < worker.until:
            worker.until = self.now + SETTLE_TIME
            self.on_its_way.append(worker)
        return lambda call: say(said)

    def _arrives_by(self, capture: Capture) -> datetime:
        assert capture.wake_at is not None
        asked = "settle_time" in str(capture.policy)
        return capture.wake_at + (SETTLE_TIME if asked else timedelta(0))
