"""What registration refuses of an action's own members, and how the registry answers."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models import Q

from idempotent_actions import Action, register
from idempotent_actions.exceptions import InvalidAction, UnknownAction
from idempotent_actions.registry import registry
from idempotent_actions.testing import registered
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.oddities.models import DispatchParcels, Parcel
from tests.registering import dispatch, ladder_of, only, refusal


@pytest.fixture(autouse=True)
def no_other_actions() -> Iterator[None]:
    with only():
        yield


@pytest.mark.parametrize("path", ["seal", "name", "nothing", "parcel__seal"])
def test_only_forward_relations_can_be_locked(path: str) -> None:
    message = refusal(dispatch(lock=(path,)))
    assert "dispatch_parcels: lock takes forward relations" in message
    assert "a ForeignKey or OneToOneField of oddities.Parcel" in message
    assert repr(path) in message


@pytest.mark.parametrize("path", ["nothing", "-nothing", "name__length", "seal__nothing", "?"])
def test_the_order_must_name_fields(path: str) -> None:
    message = refusal(dispatch(order_by=("name", path)))
    assert f"dispatch_parcels: order_by names no field: {path.removeprefix('-')!r}" in message


@pytest.mark.parametrize("path", ["pk", "-pk", "name", "-weight", "seal__broken"])
def test_the_order_may_name_fields_of_related_models_and_the_primary_key(path: str) -> None:
    register(dispatch(order_by=(path,)))


def test_a_model_has_one_ladder() -> None:
    with registered(EscalateInvoices):
        with pytest.raises(InvalidAction) as caught:
            register(ladder_of(Invoice, name="a second one"))
        assert len(registry.ladders()) == 1
    assert "billing.Invoice has a ladder action already" in str(caught.value)
    assert "'escalate_overdue:billing.invoice'" in str(caught.value)
    assert "put a second one on a side row" in str(caught.value)


@pytest.mark.parametrize(
    ("members", "advice"),
    [
        ({"name": ""}, "set name to a text of at most 100 characters"),
        ({"name": "n" * 101}, "set name to a text of at most 100 characters"),
        ({"name": 7}, "set name to a text of at most 100 characters"),
        ({"transition": ""}, "set transition to the name of a django-fsm transition"),
        ({"model": None}, "set model to the model whose rows it acts on"),
        ({"model": "oddities.Parcel"}, "set model to the model whose rows it acts on"),
        ({"model": object}, "set model to the model whose rows it acts on"),
    ],
)
def test_name_model_and_transition_are_needed(members: dict[str, Any], advice: str) -> None:
    assert advice in refusal(dispatch(**members))


@pytest.mark.parametrize("thing", [object, Parcel, DispatchParcels(), "dispatch_parcels"])
def test_only_actions_are_registered(thing: Any) -> None:
    assert "@register takes a subclass of Action" in refusal(thing)


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with registered(DispatchParcels), pytest.raises(UnknownAction) as caught:
        registry.get("dispatch")
    assert "No action is registered as 'dispatch'. Registered: dispatch_parcels." in str(
        caught.value
    )


def test_a_test_can_register_for_the_length_of_a_block() -> None:
    with pytest.raises(InvalidAction), registered(DispatchParcels, dispatch()):
        raise AssertionError("the second one has the same name")
    assert not list(registry)


def test_a_rule_may_read_the_clock_it_is_given_when_it_is_registered() -> None:
    def due(self: Action, now: datetime) -> Q:
        return Q(pk__lte=(now - timedelta(days=1)).toordinal())

    register(dispatch(due=due))
