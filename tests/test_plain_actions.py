"""An action on a model that inherits nothing: by poll, by button, each occasion once."""

from typing import Any

import pytest

from idempotent_actions import services
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models import Escalation
from idempotent_actions.testing import tick
from tests.invoices import trail
from tests.oddities.models import DispatchParcels, Parcel, Seal
from tests.registering import only

pytestmark = pytest.mark.django_db

ASKED: Any = {"by": "clerk", "reason": "because"}


def make_parcel(**columns: Any) -> Parcel:
    parcel = Parcel.objects.create(**{"name": "books", **columns})
    Seal.objects.create(parcel=parcel)
    return parcel


def test_a_poll_fires_the_transition_once_and_audits_it() -> None:
    parcel = make_parcel()
    with only(DispatchParcels):
        assert [tick()[0].applied for _ in range(3)] == [1, 0, 0]
    row = Escalation.objects.get()
    assert row.key == f"oddities.parcel:{parcel.pk}:dispatch_parcels:trip 1"
    assert (row.transition, row.from_status, row.to_status) == ("dispatch", "waiting", "sent")
    assert (row.rung, row.cycle, row.revision, row.actor) == ("", None, None, "poll")


def test_a_button_fires_it_once() -> None:
    parcel = make_parcel()
    with only(DispatchParcels):
        outcome = services.act(DispatchParcels, parcel, **ASKED)
        again = services.act("dispatch_parcels", parcel, **ASKED)
    assert outcome
    assert (outcome.subject.state, parcel.state) == ("sent", "waiting")
    assert (again.applied, again.reason) == (False, "wrong_status")
    assert trail(parcel) == ["dispatch"]


def test_a_condition_that_is_not_met_is_a_reason() -> None:
    parcel = make_parcel(weight=99)
    with only(DispatchParcels):
        (report,) = tick()
        outcome = services.act(DispatchParcels, parcel, **ASKED)
    assert dict(report.skipped) == {"condition": 1}
    assert outcome.reason == "condition"
    assert trail(parcel) == []


def test_a_rule_that_does_not_hold_stops_the_button_too() -> None:
    parcel = make_parcel()
    Seal.objects.update(broken=True)
    with only(DispatchParcels):
        assert services.act(DispatchParcels, parcel, **ASKED).reason == "not_due"


def test_without_a_rule_no_poll_acts_and_a_button_does() -> None:
    class ByHand(DispatchParcels):
        def due(self, now: Any) -> Any:
            return None

    parcel = make_parcel()
    with only(ByHand):
        (report,) = tick()
        assert report.selected == 0
        assert services.act(ByHand, parcel, **ASKED)
    assert trail(parcel) == ["dispatch"]


def test_a_new_occasion_is_acted_on_anew() -> None:
    parcel = make_parcel()
    with only(DispatchParcels):
        for _ in range(3):
            tick()
            tick()
            fresh = Parcel.objects.get()
            fresh.recall()
            fresh.save()
    keys = Escalation.objects.order_by("id").values_list("key", flat=True)
    assert [key.rpartition(":")[2] for key in keys] == ["trip 1", "trip 2", "trip 3"]
    assert trail(parcel) == ["dispatch"] * 3


def test_a_parcel_stands_on_no_rung_that_could_have_been_seen() -> None:
    parcel = make_parcel()
    with only(DispatchParcels), pytest.raises(InvalidInput, match="seen is the"):
        services.act(DispatchParcels, parcel, seen=(1, ""), **ASKED)
    assert trail(parcel) == []
