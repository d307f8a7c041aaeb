"""What follows an unknown outcome, by policy; and whose word is taken when several have tried."""

from typing import Any

import pytest

from idempotent_actions import services
from idempotent_actions.barrier import Claim, pass_barrier
from idempotent_actions.models import Capture, CaptureAttempt
from idempotent_actions.running import Verdict
from idempotent_actions.settling import settle
from tests.ledger.moments import NOW, after, now_there, row
from tests.ledger.outside import ask_first, book, charge, dropped_after, dropped_before, mail, plan

pytestmark = pytest.mark.django_db

USING = "default"
REASON: dict[str, Any] = {"note": "because", "by": "clerk"}


def claimed(capture: Capture) -> Claim:
    claim = pass_barrier(now_there(capture), None, USING)
    assert isinstance(claim, Claim), claim
    return claim


# -- the policies, in a nutshell


@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize(("of", "minutes"), [(charge, 2), (ask_first, 7)], ids=repr)
def test_what_can_be_found_out_is_done_once(of: Any, minutes: int, dies: bool) -> None:
    with after():
        capture = services.request(of, key="k")
        if dies:
            claimed(capture)
        else:
            plan.append(dropped_before)
            services.deliver(workers=0)
    with after(minutes=minutes):
        services.deliver(workers=0)
        services.deliver(workers=0)
    assert (now_there(capture).state, len(book())) == ("succeeded", 1)


@pytest.mark.parametrize("dies", [True, False])
def test_what_can_not_be_found_out_is_a_persons(dies: bool) -> None:
    with after():
        capture = services.request(mail, key="k")
        if dies:
            claimed(capture)
        else:
            plan.append(dropped_after)
            services.deliver(workers=0)
    for day in range(1, 31):
        with after(days=day):
            services.deliver(workers=0)
    assert (now_there(capture).state, len(book())) == ("review", 0 if dies else 1)


@pytest.mark.parametrize("dies", [True, False])
def test_absence_is_asked_for_once_the_settle_time_is_over(dies: bool) -> None:
    with after():
        capture = services.request(ask_first, key="k")
        if dies:
            claimed(capture)  # its lease is a minute
        else:
            plan.append(dropped_before)
            services.deliver(workers=0)
    with after(minutes=5 + dies, seconds=-1):
        services.deliver(workers=0)
        assert (now_there(capture).state, book()) == ("unknown", [])
    with after(minutes=5 + dies):
        services.deliver(workers=0)
    assert (now_there(capture).state, len(book())) == ("succeeded", 1)


# -- whose word is taken


LATE = [
    Verdict("succeeded"),
    Verdict("not_sent", error={}),
    Verdict("refused", error={}),
    Verdict("unknown", error={}),
]


@pytest.mark.parametrize("says", LATE, ids=lambda each: each.outcome)
def test_a_worker_whose_token_is_old_changes_nothing_but_its_attempt(says: Verdict) -> None:
    with after():
        first = claimed(services.request(charge, key="k"))
    with after(minutes=2):
        services.deliver(limit=0, workers=0)
        Capture.objects.all().update(state="unknown", wake_at=NOW)
        second = claimed(first.capture)
        before = row(first.capture)
        assert settle(first, says, USING) == "late"
        assert row(first.capture) == before
        assert settle(second, Verdict("succeeded"), USING) == "succeeded"
    tries = CaptureAttempt.objects.values_list("token", "outcome", "late")
    assert list(tries) == [(1, says.outcome, True), (2, "succeeded", False)]


@pytest.mark.parametrize("says", LATE, ids=lambda each: each.outcome)
def test_a_worker_of_an_old_generation_changes_nothing_but_its_attempt(says: Verdict) -> None:
    with after():
        worker = claimed(services.request(mail, key="k"))
    with after(minutes=2):
        services.deliver(workers=0)
        assert services.retry_new_key(now_there(worker.capture), **REASON)
        before = row(worker.capture)
        assert settle(worker, says, USING) == "late"
        assert row(worker.capture) == before
    assert CaptureAttempt.objects.get().late
