"""A hook that fails never undoes a known truth; it is kept, and run again when somebody asks."""

from typing import Any

import pytest

from idempotent_actions import services
from idempotent_actions.models import Capture, CaptureDecision
from idempotent_actions.polling import tick
from tests.ledger.acting import parcel
from tests.ledger.moments import after, now_there
from tests.ledger.outside import book, declined, dropped_before, plan
from tests.oddities.models import Parcel, Seal

pytestmark = pytest.mark.django_db

REASON: dict[str, Any] = {"note": "because", "by": "clerk"}


def dispatched(subject: Parcel) -> Capture:
    Seal.objects.create(parcel=subject)
    tick(workers=0)
    return Capture.objects.get()


def mend(subject: Parcel) -> None:
    Parcel.objects.filter(pk=subject.pk).update(name="mended")


def test_a_hook_that_fails_leaves_the_charge_succeeded_and_runs_again_when_asked() -> None:
    with after(), parcel("fails") as subject:
        capture = dispatched(subject)
        assert (capture.state, capture.hook_error) == ("succeeded", "ValueError: the hook fails")
        assert Parcel.objects.get().weight == 1  # what it did before it failed is undone

        again = services.rerun_hook(capture)
        assert (bool(again), again.reason) == (False, "hook_error")
        assert now_there(capture).hook_error == "ValueError: the hook fails"

        mend(subject)
        assert services.rerun_hook(capture)
        assert now_there(capture).hook_error == ""
        assert Parcel.objects.get().weight == 2
        assert len(book()) == 1


def test_a_hook_without_an_error_is_not_run_again() -> None:
    with after(), parcel() as subject:
        capture = dispatched(subject)
        Parcel.objects.update(weight=17)
        outcome = services.rerun_hook(capture)
        assert (bool(outcome), outcome.reason) == (False, "no_hook_error")
        assert Parcel.objects.get().weight == 17
        capture_pk = capture.pk
        Capture.objects.filter(pk=capture_pk).delete()
        capture.pk = capture_pk
        assert services.rerun_hook(capture).reason == "no_hook_error"


@pytest.mark.parametrize(("decision", "weight"), [("mark_succeeded", 2), ("mark_failed", 3)])
def test_a_persons_word_runs_the_hook_as_a_workers_does(decision: str, weight: int) -> None:
    plan.append(dropped_before)
    with after(), parcel() as subject:
        capture = dispatched(subject)
        assert (capture.state, Parcel.objects.get().weight) == ("unknown", 1)
        given = {"provider_ref": "ref"} if decision == "mark_succeeded" else {}
        assert getattr(services, decision)(capture, **given, **REASON)
        assert Parcel.objects.get().weight == weight


def test_a_hook_that_fails_doesnt_undo_a_persons_word() -> None:
    plan.append(declined)
    with after(), parcel("fails") as subject:
        capture = dispatched(subject)
        assert (capture.state, capture.hook_error) == ("failed", "ValueError: the hook fails")
        assert services.mark_succeeded(capture, provider_ref="ref", **REASON)
        fresh = now_there(capture)
        assert (fresh.state, fresh.hook_error) == ("succeeded", "ValueError: the hook fails")
        assert CaptureDecision.objects.count() == 1


def test_what_is_given_up_runs_no_hook() -> None:
    plan.append(declined)
    with after(), parcel() as subject:
        capture = dispatched(subject)
        Parcel.objects.update(weight=17)
        assert services.void(capture, **REASON)
        assert Parcel.objects.get().weight == 17
