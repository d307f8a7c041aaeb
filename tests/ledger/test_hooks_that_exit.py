"""Whatever a host's hook does to itself or its subject, what is known of the effect stays known."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from idempotent_actions import services
from idempotent_actions.effects import Intent
from idempotent_actions.exceptions import InsideTransaction
from idempotent_actions.models import Capture
from idempotent_actions.polling import tick
from tests.ledger.outside import book, charge, mail, plan
from tests.oddities.models import Parcel, Seal
from tests.registering import dispatch, only

pytestmark = pytest.mark.django_db(transaction=True)


def charging(action: Any, subject: Parcel, step: Any) -> Iterator[Intent]:
    yield charge(card="a card")


def delete_and_raise(action: Any, subject: Parcel, capture: Capture) -> None:
    subject.delete()
    raise ValueError("after the deletion")


def leave(action: Any, subject: Parcel, capture: Capture) -> None:
    raise SystemExit("a hook that leaves")


HOOKS: dict[str, Callable[..., None]] = {
    "deletes its subject and raises": delete_and_raise,
    "exits": leave,
}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_success_survives_a_hook_that(hook: str) -> None:
    with only(dispatch(effects=charging, settled=HOOKS[hook])):
        subject = Parcel.objects.create(name="p")
        Seal.objects.create(parcel=subject)
        for _tick in range(3):
            (report, *_rest) = tick(workers=1)
        capture = Capture.objects.get()
        assert (capture.state, len(book())) == ("succeeded", 1)
        assert capture.hook_error
        assert report.delivery.for_a_person == 1
    assert Parcel.objects.filter(pk=subject.pk).exists()


def test_a_hook_error_is_an_error_of_the_sweep() -> None:
    with only(dispatch(effects=charging, settled=delete_and_raise)):
        Seal.objects.create(parcel=Parcel.objects.create(name="p"))
        (report, *_rest) = tick(workers=1)
    (error,) = report.delivery.errors
    assert "hook_error: ValueError: after the deletion" in error["error"]
    assert report.delivery.not_done == 1


def test_success_noted_while_its_action_is_gone_is_told_to_the_hook_later() -> None:
    told: list[str] = []

    def settled(action: Any, subject: Parcel, capture: Capture) -> None:
        told.append(capture.state)

    action = dispatch(effects=charging, settled=settled)
    with only(action):
        Seal.objects.create(parcel=Parcel.objects.create(name="p"))
        tick(deliver=False)
    Capture.objects.update(  # as a worker that was killed has left it
        state="unknown", token=1, attempts=1, first_sent_at="2026-03-02T09:00Z", in_doubt=True
    )
    with only():
        capture = Capture.objects.get()
        assert services.mark_succeeded(capture, provider_ref="r", note="seen", by="ann")
    assert "UnknownAction" in Capture.objects.get().hook_error
    with only(action):
        assert services.rerun_hook(Capture.objects.get())
    assert told == ["succeeded"]


def test_without_autocommit_a_caller_is_inside_a_transaction() -> None:
    connection.ensure_connection()
    connection.set_autocommit(False)
    try:
        with pytest.raises(InsideTransaction):
            services.perform(mail, key="k")
    finally:
        connection.rollback()
        connection.set_autocommit(True)
    assert not book()


def test_the_subject_of_a_request_is_told_to_the_effect_however_it_is_delivered() -> None:
    told: list[Any] = []

    def note(call: Any) -> None:
        told.append(call.subject)

    subject = Parcel.objects.create(name="p")
    plan.extend([note, note])
    services.request(mail, key="later", subject=subject)
    services.perform(mail, key="now", subject=subject)
    services.deliver(workers=1)
    assert told == [subject, subject]
