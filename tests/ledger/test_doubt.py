"""What one try knows says nothing of an earlier one whose outcome nobody knows."""

from typing import Any

import pytest

from idempotent_actions import NotSent, services
from idempotent_actions.barrier import Claim, pass_barrier
from idempotent_actions.deliveries import deliver_one
from idempotent_actions.models import Capture
from idempotent_actions.polling import tick
from idempotent_actions.running import call_of
from tests.ledger.acting import parcel
from tests.ledger.moments import after, now_there
from tests.ledger.outside import (
    ask_first,
    ask_later,
    book,
    charge,
    done,
    dropped_after,
    dropped_before,
    mail,
    not_reached,
    plan,
)
from tests.oddities.models import Parcel, Seal

pytestmark = pytest.mark.django_db


def test_a_try_that_was_not_sent_says_nothing_of_an_earlier_one_and_the_window_holds() -> None:
    """Charged, but the answer was lost; then the provider is down for longer than it remembers."""
    plan.extend([dropped_after, not_reached])
    with after():
        capture = services.perform(charge, key="k")
    with after(minutes=5):
        services.deliver(workers=0)
    with after(days=3):
        services.deliver(workers=0)
    assert len(book()) == 1
    assert now_there(capture).state == "review"


def test_a_charge_in_doubt_is_never_void_by_itself() -> None:
    plan.append(dropped_after)
    with parcel() as subject:
        with after():
            Seal.objects.create(parcel=subject)
            tick(workers=0)
        with after(minutes=5):
            plan.append(not_reached)
            tick(workers=0)
        Parcel.objects.filter(pk=subject.pk).update(state="lost")
        with after(minutes=30):
            services.deliver(workers=0)
    assert len(book()) == 1
    assert Capture.objects.get().state in ("unknown", "review", "succeeded")


def test_of_two_sweeps_that_found_a_lapsed_one_the_second_waits_for_the_settle_time_as_well() -> (
    None
):
    """Both have read their lists; the first notes that it has lapsed, the second comes to it then.

    The request of the dead worker may still be on its way: absence says nothing yet.
    """
    with after():
        capture = services.request(ask_first, key="k")
        assert isinstance(pass_barrier(capture, None, "default"), Claim)  # and is killed
    with after(minutes=2):
        for _sweep in range(2):
            deliver_one(capture.pk, None, "default")
        assert (now_there(capture).state, book()) == ("unknown", [])


def test_a_provider_that_is_asked_past_the_window_has_its_settle_time() -> None:
    """The last try within the window may still be on its way when the window is over."""
    with after():
        plan.append(dropped_before)
        capture = services.perform(ask_later, key="k")
    with after(hours=22, minutes=59):
        plan.append(dropped_before)
        services.deliver(workers=0)
    with after(hours=23, minutes=2):
        services.deliver(workers=0)
        assert now_there(capture).state == "unknown"
        assert not book()


def test_a_provider_that_is_asked_past_the_window_has_its_settle_time_after_a_lapse() -> None:
    with after():
        plan.append(dropped_before)
        capture = services.perform(ask_later, key="k")
    with after(hours=22, minutes=59):
        capture = now_there(capture)
        assert isinstance(pass_barrier(capture, None, "default"), Claim)  # and is killed
    with after(hours=23, minutes=2):
        services.deliver(workers=0)
        assert now_there(capture).state == "unknown"
        assert not book()


@pytest.mark.parametrize("pause", [60, 1.5, "soon"])
def test_a_pause_that_is_no_timedelta_doesnt_lose_what_is_known(pause: Any) -> None:
    def busy(call: Any) -> None:
        raise NotSent("busy", retry_after=pause)

    plan.append(busy)
    with after():
        assert services.perform(mail, key="k").state == "pending"


@pytest.mark.parametrize("subject_goes", ["moves on", "is deleted"])
def test_what_a_person_sends_again_and_is_no_longer_wanted_is_a_persons_again(
    subject_goes: str,
) -> None:
    """Whether the first try has done it is as open as it was before."""
    with parcel() as subject:
        with after():
            plan.append(dropped_after)
            Seal.objects.create(parcel=subject)
            tick(workers=0)
        with after(days=1):
            services.deliver(workers=0)  # past its window
            capture = Capture.objects.get()
            assert capture.state == "review"
            assert services.retry_same_key(capture, note="because", by="clerk")
            if subject_goes == "moves on":
                Parcel.objects.filter(pk=subject.pk).update(state="lost")
            else:
                Seal.objects.all().delete()
                Parcel.objects.all().delete()
            report = services.deliver(workers=0)
    assert report.by_state["error"] == 0, report.errors
    assert (now_there(capture).state, len(book())) == ("review", 1)


def test_a_worker_that_was_killed_leaves_a_doubt_that_a_later_try_doesnt_take_back() -> None:
    """Charged, and killed; then the provider is down for longer than it remembers."""
    with after():
        capture = services.request(charge, key="k")
        claim = pass_barrier(capture, None, "default")
        assert isinstance(claim, Claim)
        done(call_of(claim.capture, charge, None))  # and is killed
    plan.append(not_reached)
    with after(minutes=5):
        services.deliver(workers=0)
        assert now_there(capture).in_doubt
    with after(days=3):
        services.deliver(workers=0)
    assert len(book()) == 1
    assert now_there(capture).state == "review"


def test_the_providers_word_that_it_is_absent_takes_the_doubt_back() -> None:
    with after():
        plan.append(dropped_before)
        capture = services.perform(ask_first, key="k")
        assert now_there(capture).in_doubt
    with after(minutes=6):
        plan.append(not_reached)
        services.deliver(workers=0)
        assert (now_there(capture).state, now_there(capture).in_doubt) == ("pending", False)
