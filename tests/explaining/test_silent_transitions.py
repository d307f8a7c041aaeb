"""A silenced copy: it changes as django-fsm changes the subject, and nobody hears of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import models
from django.test.utils import isolate_apps
from django_fsm import GET_STATE, RETURN_VALUE, FSMField, TransitionNotAllowed, transition
from django_fsm.signals import post_transition, pre_transition

from idempotent_actions import machines
from project.billing.models import Invoice
from tests.asking import DAY
from tests.invoices import DUE


@pytest.fixture
def machine() -> Iterator[Any]:
    """A parcel's machine with every kind of target."""
    with isolate_apps("tests.oddities"):

        class Machine(models.Model):
            state = FSMField(default="a")
            told = models.CharField(max_length=50, default="")

            class Meta:
                app_label = "oddities"

            def __str__(self) -> str:
                return self.told

            @transition(field=state, source="a", target="b")
            def fixed(self, word: str) -> str:
                self.told = f"{word} in {self.state}"
                return word

            @transition(field=state, source="a", target=RETURN_VALUE("b", "c"))
            def returned(self, word: str) -> str:
                return word

            @transition(field=state, source="*", target=GET_STATE(lambda self, word: word))
            def asked(self, word: str) -> None: ...

            @transition(field=state, source="a", target=None)
            def kept(self, word: str) -> None:
                self.told = word

            @transition(field=state, source="a", target="b")
            @transition(field=state, source="b", target="c")
            def stacked(self, word: str) -> None:
                self.told += word

            @transition(field=state, source="a", target="c")
            def chained(self, word: str) -> None:
                self.fixed(word)
                self.asked("d")

            @transition(field=state, source="a", target="b", conditions=[lambda self: False])
            def forbidden(self, word: str) -> None: ...

            @transition(field=state, source="b", target="c")
            def from_elsewhere(self, word: str) -> None: ...

            @transition(field=state, source="a", target="b")
            def refused_within(self, word: str) -> None:
                self.from_elsewhere(word)

            @transition(field=state, source="a", target="b")
            def broken(self, word: str) -> None:
                self.told = word
                raise LookupError(word)

        yield Machine(pk=1)


@contextmanager
def signals() -> Iterator[list[Any]]:
    """The transitions that somebody hears of meanwhile."""
    heard: list[Any] = []

    def listen(name: str, **kwargs: Any) -> None:
        heard.append(name)

    for signal in (pre_transition, post_transition):
        signal.connect(listen)
    try:
        yield heard
    finally:
        for signal in (pre_transition, post_transition):
            signal.disconnect(listen)


def fire(subject: Any, name: str) -> tuple[Any, ...]:
    """What comes of a transition: its answer or error, and what it leaves."""
    answer: Any
    try:
        answer = getattr(subject, name)("c")
    except (LookupError, TransitionNotAllowed) as error:
        answer = repr(error)
    return answer, subject.state, subject.told


TRANSITIONS = [
    "fixed",
    "returned",
    "asked",
    "kept",
    "stacked",
    "chained",
    "forbidden",
    "from_elsewhere",
    "refused_within",
    "broken",
]


@pytest.mark.parametrize("name", TRANSITIONS)
def test_it_does_what_the_transition_does_without_a_signal(machine: Any, name: str) -> None:
    double = machines.silenced(machine)
    with signals() as heard:
        foretold = fire(double, name)
        assert heard == []
        assert (machine.state, machine.told) == ("a", "")
        assert fire(machine, name) == foretold
        assert bool(heard) == (name not in ("forbidden", "from_elsewhere"))


def test_a_ladders_subject_is_left_alone_and_its_copy_can_go_on() -> None:
    invoice = Invoice(status="overdue", due_at=DUE)
    double = machines.silenced(invoice)
    with signals() as heard:
        double.escalate(now=DUE)
        double.mark_overdue()
        double.adopt("", DUE + DAY)
    assert (double.status, double.rung, double.revision) == ("open", "", 1)
    assert (invoice.status, invoice.rung, invoice.revision) == ("overdue", "", 0)
    assert heard == []


def test_related_objects_that_the_copy_gets_are_its_own(machine: Any) -> None:
    double = machines.silenced(machine)
    double._state.fields_cache["owner"] = object()
    double._state.db = "elsewhere"
    assert machine._state.fields_cache == {}
    assert machine._state.db is None
