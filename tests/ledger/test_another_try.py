"""What is certainly not done is tried again, or refused and done with a new key. Trial T22."""

from datetime import timedelta
from typing import Any

import pytest

from idempotent_actions import NotSent, services
from idempotent_actions.exceptions import InvalidInput, KeyReused
from idempotent_actions.models import Capture, CaptureAttempt, CaptureDecision
from idempotent_actions.polling import tick
from tests.ledger.acting import parcel
from tests.ledger.moments import NOW, after, now_there, row
from tests.ledger.outside import (
    ask_first,
    book,
    charge,
    declined,
    done,
    mail,
    not_reached,
    plan,
    send_twice_at_most,
)
from tests.oddities.models import Parcel, Seal

pytestmark = pytest.mark.django_db

REASON: dict[str, Any] = {"note": "the customer called", "by": "clerk"}

each_policy = pytest.mark.parametrize("effect", [charge, ask_first, mail], ids=repr)


@each_policy
def test_t22_a_refused_connection_is_tried_again_and_charges_once(effect: Any) -> None:
    plan.append(not_reached)
    with after():
        capture = services.perform(effect, key="k")
        assert (capture.state, capture.wake_at) == ("pending", NOW + timedelta(minutes=1))
        assert capture.error == {"class": "NotSent", "code": "", "message": "connection refused"}
        services.deliver(workers=0)  # not yet
    with after(seconds=59):
        services.deliver(workers=0)
        assert not book()
    with after(seconds=60):
        services.deliver(workers=0)
        services.deliver(workers=0)
    capture = now_there(capture)
    assert (capture.state, capture.error, capture.attempts) == ("succeeded", None, 2)
    outcomes = CaptureAttempt.objects.values_list("outcome", "generation", "late")
    assert list(outcomes) == [("not_sent", 1, False), ("succeeded", 1, False)]
    assert len(book()) == 1


def test_the_pause_doubles_up_to_an_hour_unless_the_provider_says_when() -> None:
    plan.extend([not_reached] * 9)

    def busy(call: Any) -> None:
        raise NotSent("busy", retry_after=timedelta(hours=5))

    with after() as now:
        capture = services.perform(mail, key="k")
    pauses = []
    for _ in range(8):
        assert capture.wake_at is not None
        pauses.append((capture.wake_at - now) / timedelta(minutes=1))
        with after(seconds=(capture.wake_at - NOW).total_seconds()) as now:
            services.deliver(workers=0)
        capture = now_there(capture)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    plan[:] = [busy]
    assert capture.wake_at is not None
    with after(seconds=(capture.wake_at - NOW).total_seconds()) as now:
        services.deliver(workers=0)
    assert now_there(capture).wake_at == now + timedelta(hours=5)


def test_an_effect_with_a_bound_is_refused_after_its_last_try_and_not_before() -> None:
    plan.extend([not_reached, not_reached])
    with after():
        capture = services.perform(send_twice_at_most, key="k")
        assert capture.state == "pending"
    with after(minutes=1):
        services.deliver(workers=0)
    with after(days=9):
        services.deliver(workers=0)
    assert (now_there(capture).state, book()) == ("failed", [])


@each_policy
def test_t22_a_declined_card_has_failed_for_good(effect: Any) -> None:
    plan.append(declined)
    with after():
        capture = services.perform(effect, key="k")
    with after(days=30):
        services.deliver(workers=0)
        again = services.perform(effect, key="k")
    assert again == capture
    assert (again.state, again.error) == (
        "failed",
        {"class": "Refused", "code": "card_declined", "message": "Your card was declined."},
    )
    assert not book()


def test_t22_a_new_key_after_a_decline_is_one_charge_with_another_provider_key() -> None:
    plan.append(declined)
    with after():
        capture = services.perform(charge, key="k", params={"card": 1})
        first_key = capture.provider_key
        outcome = services.retry_new_key(capture, **REASON)
        assert outcome
        assert outcome.capture is not None
        waits = outcome.capture
        assert (waits.state, waits.generation, waits.attempts) == ("pending", 2, 0)
        assert (waits.first_sent_at, waits.error, waits.finished_at) == (None, None, None)
    with after(minutes=1):
        services.deliver(workers=0)
        services.deliver(workers=0)
    (charged,) = book()
    assert now_there(capture).state == "succeeded"
    assert charged["provider_key"] == now_there(capture).provider_key != first_key
    assert charged["card"] == 1
    assert CaptureDecision.objects.get().decision == "retry_new_key"
    assert list(CaptureAttempt.objects.values_list("generation", "token")) == [(1, 1), (2, 2)]


def test_the_same_key_after_a_decline_keeps_the_provider_key() -> None:
    plan.extend([declined, done])
    with after():
        capture = services.perform(charge, key="k")
        assert services.retry_same_key(capture, **REASON)
        services.deliver(workers=0)
    assert book()[0]["provider_key"] == capture.provider_key
    assert now_there(capture).generation == 1


def dispatched(card: str) -> Capture:
    """The charge of a parcel that was dispatched, and declined."""
    plan.append(declined)
    Seal.objects.create(parcel=Parcel.objects.get(name=card))
    tick(workers=0)
    return Capture.objects.get()


def test_t22_refresh_takes_the_new_card_and_no_one_elses() -> None:
    with after(), parcel() as subject:
        capture = dispatched("old card")
        assert (capture.state, Parcel.objects.get().weight) == ("failed", 3)
        Parcel.objects.filter(pk=subject.pk).update(name="new card")
        outcome = services.retry_new_key(capture, refresh=True, **REASON)
        assert outcome
        fresh = now_there(capture)
        assert (fresh.params, fresh.generation) == ({"card": "new card"}, 2)
        assert fresh.fingerprint != capture.fingerprint
        assert (fresh.key, fresh.escalation) == (capture.key, capture.escalation)
        tick(workers=0)
        assert [each["card"] for each in book()] == ["new card"]
        assert Parcel.objects.get().weight == 2


def test_without_refresh_the_old_card_is_charged_anew() -> None:
    with after(), parcel() as subject:
        capture = dispatched("old card")
        Parcel.objects.filter(pk=subject.pk).update(name="new card")
        assert services.retry_new_key(capture, **REASON)
        tick(workers=0)
        assert [each["card"] for each in book()] == ["old card"]
        assert now_there(capture).fingerprint == capture.fingerprint


def test_a_refreshed_key_stands_for_its_new_parameters() -> None:
    with after(), parcel() as subject:
        capture = dispatched("old card")
        Parcel.objects.filter(pk=subject.pk).update(name="new card")
        services.retry_new_key(capture, refresh=True, **REASON)
        assert services.request(charge, key=capture.key, params={"card": "new card"}) == capture
        with pytest.raises(KeyReused):
            services.request(charge, key=capture.key, params={"card": "old card"})


def test_refresh_needs_an_act_to_ask_again() -> None:
    plan.append(declined)
    with after():
        capture = services.perform(charge, key="k")
        before = row(capture)
        with pytest.raises(InvalidInput, match="belongs to no act"):
            services.retry_new_key(capture, refresh=True, **REASON)
    assert row(capture) == before
    assert not CaptureDecision.objects.exists()
