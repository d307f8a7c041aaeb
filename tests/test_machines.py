"""What is read from django-fsm's state graphs, compared with what django-fsm itself does."""

import enum
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import models
from django.test.utils import isolate_apps
from django_fsm import GET_STATE, RETURN_VALUE, FSMField, FSMIntegerField, can_proceed, transition

from idempotent_actions import machines
from idempotent_actions.exceptions import InvalidAction
from project.billing.models import Invoice
from tests.oddities.models import Parcel

STATES = ["a", "b", "c", "d"]


class Letter(enum.StrEnum):
    A = "a"
    B = "b"


class Graph(models.Model):
    """Base of graphs over four states; each test declares the transitions."""

    state = FSMField(default="a", choices=[(state, state) for state in STATES])

    class Meta:
        abstract = True
        app_label = "oddities"

    def __str__(self) -> str:
        return str(self.state)


@pytest.fixture(autouse=True)
def graphs_of_one_test() -> Iterator[None]:
    with isolate_apps("tests.oddities"):
        yield


def graph(**edges: tuple[Any, Any]) -> type[Graph]:
    """A model with a transition for each (source, target) of `edges`."""

    methods: dict[str, Any] = {}
    for name, (source, target) in edges.items():

        def does_nothing(self: Any) -> None: ...

        does_nothing.__name__ = name
        methods[name] = transition(field="state", source=source, target=target)(does_nothing)
    return type("Drawn", (Graph,), {"__module__": __name__, **methods})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("source", "startable"),
    [
        ("a", "a"),
        (["a", "c"], "ac"),
        (("b",), "b"),
        ({"b", "d"}, "bd"),
        (Letter.A, "a"),
        ([Letter.A, Letter.B], "ab"),
        ("*", "abcd"),
        ("+", "abc"),  # all but the target
    ],
)
def test_the_rows_a_transition_may_start_from_are_those_django_fsm_lets_through(
    source: Any, startable: str
) -> None:
    model = graph(go=(source, "d"))
    found = machines.sources_q(model, "go")
    for state in STATES:
        can = can_proceed(model(state=state).go, check_conditions=False)  # type: ignore[attr-defined]
        assert can == (state in startable)
        assert found.check({"state": state}) == (state in startable)


@pytest.mark.django_db
def test_decorators_upon_each_other_add_up() -> None:
    class Twice(Graph):
        @transition(field="state", source="a", target="b")
        @transition(field="state", source="b", target="c")
        def go(self) -> None: ...

    found = machines.sources_q(Twice, "go")
    assert [state for state in STATES if found.check({"state": state})] == ["a", "b"]


def test_the_state_field_is_the_models_own_although_the_metadata_is_shared() -> None:
    class Another(Graph): ...

    drawn = graph(go=("a", "b"))
    for model in (drawn, Invoice, Parcel):
        name = {drawn: "go", Invoice: "escalate", Parcel: "dispatch"}[model]
        assert machines.state_field(model, name).model is model
    with pytest.raises(InvalidAction, match=r"has no transition 'go'\. It has: none"):
        machines.state_field(Another, "go")


def test_of_two_state_fields_it_is_the_one_that_the_transition_changes() -> None:
    class Two(Graph):
        payment = FSMField(default="unpaid")

        @transition(field=payment, source="unpaid", target="paid")
        def pay(self) -> None: ...

        @transition(field="state", source="paid", target="unpaid")
        def misleading(self) -> None: ...

    assert machines.state_field(Two, "pay").name == "payment"
    assert not machines.leads_back(Two, "pay")  # the other field's states only look alike


BACK: list[tuple[dict[str, tuple[Any, Any]], bool]] = [
    ({"go": ("a", "b")}, False),
    ({"go": ("a", "b"), "on": ("b", "c")}, False),
    ({"go": ("a", "b"), "back": ("b", "a")}, True),
    ({"go": ("a", "b"), "on": ("b", "c"), "back": ("c", "a")}, True),
    ({"go": ("a", "b"), "back": ("c", "a")}, False),
    ({"go": ("a", "a")}, True),
    ({"go": ("a", None)}, True),
    ({"go": (["a", "b"], "b")}, True),
    ({"go": ("*", "d")}, True),
    ({"go": ("+", "d")}, False),
    ({"go": ("+", "d"), "on": ("d", "c")}, True),
    ({"go": ("a", "b"), "reset": ("*", "a")}, True),
    ({"go": ("a", "b"), "end": ("*", "d")}, False),
    ({"go": ("a", "b"), "reset": ("+", "a")}, True),
    ({"go": ("a", "b"), "into": ("d", "a")}, False),
    ({"go": ("a", RETURN_VALUE("b", "c"))}, False),
    ({"go": ("a", RETURN_VALUE("b", "a"))}, True),
    ({"go": ("a", RETURN_VALUE())}, True),
    ({"go": ("a", GET_STATE(lambda self: "b", states=["b"]))}, False),
    ({"go": ("a", GET_STATE(lambda self: "a"))}, True),
    ({"go": ("a", "b"), "stay": ("b", None)}, False),
    ({"go": (Letter.A, "b"), "back": ("b", "a")}, True),
    ({"go": ("a", "b"), "back": (Letter.B, Letter.A)}, True),
]


@pytest.mark.parametrize(("edges", "back"), BACK)
def test_whether_the_states_lead_back_to_where_a_transition_starts(
    edges: dict[str, tuple[Any, Any]], back: bool
) -> None:
    assert machines.leads_back(graph(**edges), "go") is back


def test_numbers_are_states_too() -> None:
    class Step(models.IntegerChoices):
        NEW = 0
        DONE = 1

    class Numbered(models.Model):
        step = FSMIntegerField(default=Step.NEW)

        class Meta:
            app_label = "oddities"

        def __str__(self) -> str:
            return str(self.step)

        @transition(field=step, source=Step.NEW, target=Step.DONE)
        def finish(self) -> None: ...

    row = Numbered()
    field = machines.state_field(Numbered, "finish")
    assert machines.state_of(row, field) == 0
    assert not machines.leads_back(Numbered, "finish")
    machines.set_state(row, field, "1")  # the audit trail keeps states as text
    assert machines.state_of(row, field) == 1


def test_a_protected_state_is_put_in_place_without_a_transition() -> None:
    invoice = Invoice()
    machines.set_state(invoice, machines.state_field(Invoice, "escalate"), "resolved")
    assert invoice.status == "resolved"


LIVE = {"open", "overdue", "escalated", "exhausted"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "startable"),
    [
        ("mark_overdue", {"open", "escalated"}),
        ("escalate", {"overdue"}),
        ("exhaust", {"overdue"}),
        ("resolve", LIVE),
        ("cancel", LIVE),
        ("adopt", LIVE),
        ("reopen", {"resolved", "cancelled"}),
    ],
)
def test_the_ladders_own_transitions_start_where_they_should(
    name: str, startable: set[str]
) -> None:
    found = machines.sources_q(Invoice, name)
    states = [str(state) for state, _label in Invoice._meta.get_field("status").flatchoices]
    assert {state for state in states if found.check({"status": state})} == startable
