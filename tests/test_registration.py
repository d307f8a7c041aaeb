"""What registration refuses, and the advice it gives."""

import enum
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import models
from django.db.models import Q
from django.test.utils import isolate_apps
from django_fsm import FSMField, can_proceed, transition

from idempotent_actions import Action, register
from idempotent_actions.exceptions import InvalidAction
from idempotent_actions.models import LadderModel
from idempotent_actions.registry import registry
from idempotent_actions.testing import registered
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.oddities.models import DispatchParcels, Parcel
from tests.registering import dispatch, ladder_of, only, refusal


class Odd(models.Model):
    """Base of the models below, which live as long as one test."""

    class Meta:
        abstract = True
        app_label = "oddities"

    def __str__(self) -> str:
        return "odd"


@pytest.fixture(autouse=True)
def no_other_actions() -> Iterator[None]:
    with only():
        yield


def test_a_well_made_action_is_registered_and_returned() -> None:
    assert register(DispatchParcels) is DispatchParcels
    assert register(EscalateInvoices) is EscalateInvoices
    assert [action.name for action in registry] == [
        "dispatch_parcels",
        "escalate_overdue:billing.invoice",
    ]


def test_an_unknown_transition_is_answered_with_those_there_are() -> None:
    message = refusal(dispatch(transition="despatch"))
    assert "oddities.Parcel has no transition 'despatch'" in message
    assert "It has: dispatch, recall" in message


@isolate_apps("tests.oddities")
def test_an_override_without_the_decorator_is_no_transition() -> None:
    class Plain(Parcel):
        class Meta:
            app_label = "oddities"
            proxy = True

        def dispatch(self) -> None: ...

    assert "needs the @transition decorator again" in refusal(dispatch(model=Plain))


@isolate_apps("tests.oddities")
def test_a_frozenset_source_never_matches() -> None:
    class Frozen(Odd):
        state = FSMField(default="waiting")

        @transition(field=state, source=frozenset({"waiting"}), target="sent")  # type: ignore[arg-type]
        def dispatch(self) -> None: ...

    message = refusal(dispatch(model=Frozen))
    assert "frozenset" in message
    assert "Use a list, tuple or set." in message


@isolate_apps("tests.oddities")
def test_a_plain_enum_as_a_source_never_matches_what_is_stored() -> None:
    class State(enum.Enum):
        WAITING = "waiting"

    class Enumerated(Odd):
        state = FSMField(default="waiting")

        @transition(field=state, source=State.WAITING, target="sent")  # type: ignore[arg-type]
        def dispatch(self) -> None: ...

    assert not can_proceed(Enumerated(state="waiting").dispatch)
    assert "WAITING" in refusal(dispatch(model=Enumerated))


@isolate_apps("tests.oddities")
def test_a_model_needs_a_state_field() -> None:
    class Stateless(Odd):
        def dispatch(self) -> None: ...

    message = refusal(dispatch(model=Stateless))
    assert "oddities.Stateless has no state field" in message
    assert "django_fsm.FSMField" in message
    assert "or inherit LadderModel" in message


def test_two_actions_can_not_have_one_name() -> None:
    with registered(DispatchParcels):
        with pytest.raises(InvalidAction) as caught:
            register(dispatch())
        assert [type(action) for action in registry] == [DispatchParcels]
    assert "Two actions are called 'dispatch_parcels'" in str(caught.value)
    assert "another name" in str(caught.value)


@pytest.mark.parametrize("answer", [{"state": "waiting"}, [], True, Parcel.objects])
def test_due_must_return_a_q(answer: Any) -> None:
    message = refusal(dispatch(due=lambda self, now: answer))
    assert "dispatch_parcels: due() must return a django.db.models.Q" in message
    assert "or None for an action that is never polled" in message


def test_a_ladders_due_must_return_a_q() -> None:
    assert "must return a django.db.models.Q" in refusal(
        ladder_of(Invoice, due=lambda self, now: {"due_at__lte": now})
    )


def test_due_must_be_written() -> None:
    message = refusal(dispatch(due=Action.due))
    assert "write due(self, now) and return a Q" in message


def test_due_may_be_none() -> None:
    register(dispatch(due=lambda self, now: None))


def test_the_default_occasion_is_refused_where_the_states_lead_back_to_the_start() -> None:
    message = refusal(dispatch(occurrence=Action.occurrence))
    assert "oddities.Parcel can come back to a state from which 'dispatch' starts" in message
    assert "Write occurrence(self, subject)" in message
    assert "its period or its due date" in message


@isolate_apps("tests.oddities")
def test_the_default_occasion_is_fine_where_no_way_leads_back() -> None:
    class Bottle(Odd):
        state = FSMField(default="waiting")

        @transition(field=state, source="waiting", target="sent")
        def dispatch(self) -> None: ...

    register(dispatch(model=Bottle, occurrence=Action.occurrence, due=lambda self, now: Q()))


def test_a_ladder_needs_a_ladder_model() -> None:
    message = refusal(ladder_of(Parcel))
    assert "oddities.Parcel must inherit LadderModel" in message
    assert "side row: class Dunning(LadderModel) with a OneToOneField" in message


@isolate_apps("tests.oddities")
def test_a_ladder_model_needs_a_ladder() -> None:
    class Bare(LadderModel):
        class Meta(LadderModel.Meta):
            app_label = "oddities"

    assert "oddities.Bare has no ladder: set ladder = Ladder" in refusal(ladder_of(Bare))


@isolate_apps("tests.oddities")
def test_an_abstract_model_has_no_rows() -> None:
    class Idea(models.Model):
        state = FSMField(default="waiting")

        class Meta:
            abstract = True

    assert "Idea is abstract and has no rows" in refusal(dispatch(model=Idea))
    assert "LadderModel is abstract and has no rows" in refusal(ladder_of(LadderModel, name="x"))


@isolate_apps("tests.oddities")
def test_a_child_with_a_primary_key_of_its_own_is_sent_to_its_parent() -> None:
    class Crate(Parcel):
        code = models.CharField(max_length=9, primary_key=True)
        box = models.OneToOneField(Parcel, models.CASCADE, parent_link=True)

        class Meta:
            app_label = "oddities"

    message = refusal(dispatch(model=Crate))
    assert "the state lives on oddities.Parcel" in message
    assert "oddities.Crate has a primary key of its own" in message
    assert "Register the action for oddities.Parcel." in message


@isolate_apps("tests.oddities")
def test_a_child_that_shares_its_parents_key_is_fine() -> None:
    class Letter(Parcel):
        stamp = models.CharField(max_length=9)

        class Meta:
            app_label = "oddities"

    register(dispatch(model=Letter))
