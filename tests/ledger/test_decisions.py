"""A person's decisions: about what was seen, with a note, once, and written down."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from idempotent_actions import services
from idempotent_actions.asking import Outcome
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models import Capture, CaptureDecision
from tests.ledger.moments import NOW, after, now_there, row
from tests.ledger.outside import book, charge, declined, dropped_before, mail, plan
from tests.threads import together

pytestmark = pytest.mark.django_db

Decide = Callable[..., Outcome]

mark_succeeded = partial(services.mark_succeeded, provider_ref="ref 1")

DECISIONS: dict[str, Decide] = {
    "mark_succeeded": mark_succeeded,
    "mark_failed": services.mark_failed,
    "retry": services.retry_same_key,
    "retry_new_key": services.retry_new_key,
    "void": services.void,
}
each_decision = pytest.mark.parametrize("name", DECISIONS)

STATES = ["pending", "sending", "unknown", "review", "succeeded", "failed", "void"]
APPLIES: dict[str, dict[str, str]] = {
    "mark_succeeded": dict.fromkeys(["unknown", "review", "failed"], "succeeded"),
    "mark_failed": dict.fromkeys(["unknown", "review"], "failed"),
    "retry": dict.fromkeys(["review", "failed"], "pending"),
    "retry_new_key": dict.fromkeys(["review", "failed"], "pending"),
    "void": dict.fromkeys(["pending", "review", "failed"], "void"),
}


def capture_in(state: str, key: str = "k") -> Capture:
    with after():
        if state in ("pending", "sending", "void"):
            capture = services.request(mail, key=key)
            if state == "sending":
                capture.claim(NOW, mail.lease)
                capture.save()
            if state == "void":
                services.void(capture, note="not wanted", by="clerk")
                CaptureDecision.objects.all().delete()
            return now_there(capture)
        planned = {"unknown": dropped_before, "review": dropped_before, "failed": declined}
        if state in planned:
            plan.append(planned[state])
        return services.perform(charge if state == "unknown" else mail, key=key)


def decide(name: str, capture: Any, **request: Any) -> Outcome:
    with after(minutes=1):
        return DECISIONS[name](capture, **{"note": "because", "by": "clerk", **request})


@pytest.mark.parametrize("state", STATES)
@each_decision
def test_a_decision_applies_from_some_states_and_leaves_one_record(name: str, state: str) -> None:
    capture = capture_in(state)
    before = row(capture)

    outcome = decide(name, capture)

    assert bool(outcome) == (state in APPLIES[name])
    if not outcome:
        assert outcome.reason == "wrong_status"
        assert row(capture) == before
        assert not CaptureDecision.objects.exists()
        return
    fresh = now_there(capture)
    assert outcome.capture == fresh
    assert fresh.state == APPLIES[name][state]
    made = CaptureDecision.objects.get()
    assert (made.capture, made.decision) == (capture, name)
    assert (made.from_state, made.to_state) == (state, fresh.state)
    assert (made.token, made.generation) == (fresh.token, fresh.generation)
    assert (made.actor, made.note) == ("clerk", "because")
    assert made.decided_at == NOW + timedelta(minutes=1)
    assert made.provider_ref == ("ref 1" if name == "mark_succeeded" else "")
    assert fresh.token == before["token"]  # only the barrier counts it up


BAD_TEXTS: list[Any] = ["", "  ", "\n", None, 7, "a\0b", "\ud800", b"because"]


@each_decision
@pytest.mark.parametrize("note", [*BAD_TEXTS, "n" * 256], ids=lambda note: ascii(note)[:12])
def test_a_decision_needs_a_note(name: str, note: Any) -> None:
    capture = capture_in("review")
    before = row(capture)
    with pytest.raises(InvalidInput, match="note must be a text of 1 to 255"):
        decide(name, capture, note=note)
    assert row(capture) == before
    assert not CaptureDecision.objects.exists()


@each_decision
@pytest.mark.parametrize("by", [*BAD_TEXTS, "n" * 151], ids=lambda by: ascii(by)[:12])
def test_a_decision_needs_a_person(name: str, by: Any) -> None:
    capture = capture_in("review")
    with pytest.raises(InvalidInput, match="by must be a text of 1 to 150"):
        decide(name, capture, by=by)
    assert not CaptureDecision.objects.exists()


@each_decision
def test_note_and_person_cant_be_left_out(name: str) -> None:
    capture = capture_in("review")
    for given in ({"note": "because"}, {"by": "clerk"}, {}):
        with pytest.raises(TypeError, match="required keyword-only"):
            DECISIONS[name](capture, **given)


@pytest.mark.parametrize("ref", [*BAD_TEXTS, "n" * 256], ids=lambda ref: ascii(ref)[:12])
def test_what_is_said_to_be_done_needs_the_providers_name_of_it(ref: Any) -> None:
    capture = capture_in("review")
    with pytest.raises(InvalidInput, match="provider_ref must be a text"):
        services.mark_succeeded(capture, provider_ref=ref, note="because", by="clerk")
    assert now_there(capture).state == "review"


@each_decision
@pytest.mark.parametrize("wrong", [None, 1, "k", Capture()], ids=repr)
def test_a_decision_is_about_a_stored_capture(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="a stored Capture"):
        decide(name, wrong)


def test_a_user_is_named_by_the_name_it_logs_in_with() -> None:
    decide("void", capture_in("review"), by=User.objects.create(username="ann"))
    assert CaptureDecision.objects.get().actor == "ann"


MOVES: dict[str, dict[str, Any]] = {
    "token": {"token": 2},
    "generation": {"generation": 2},
    "state": {"state": "failed", "finished_at": NOW},
}


@each_decision
@pytest.mark.parametrize("moved", MOVES)
def test_a_decision_about_an_old_view_changes_nothing(name: str, moved: str) -> None:
    seen = capture_in("review")
    Capture.objects.filter(pk=seen.pk).update(**MOVES[moved])
    before = row(seen)

    outcome = decide(name, seen)

    assert (bool(outcome), outcome.reason) == (False, "stale_view")
    assert outcome.capture == seen
    assert row(seen) == before
    assert not CaptureDecision.objects.exists()


@each_decision
def test_a_decision_about_what_is_gone_says_so(name: str) -> None:
    seen = capture_in("review")
    gone = now_there(seen)
    Capture.objects.all().delete()
    assert decide(name, gone).reason == "gone"


@each_decision
def test_the_instance_handed_in_is_left_as_it_is(name: str) -> None:
    seen = capture_in("review")
    assert decide(name, seen)
    assert seen.state == "review"


@each_decision
def test_a_decision_joins_the_callers_transaction(name: str) -> None:
    capture = capture_in("review")
    before = row(capture)
    with transaction.atomic():
        assert decide(name, capture)
        transaction.set_rollback(True)
    assert row(capture) == before
    assert not CaptureDecision.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("other", DECISIONS)
@each_decision
def test_of_two_people_at_once_one_decides_and_the_other_is_told(name: str, other: str) -> None:
    capture = capture_in("review")
    seen = [now_there(capture), now_there(capture)]

    def decision(which: int, name: str) -> Callable[[], Outcome]:
        def work() -> Outcome:
            return DECISIONS[name](seen[which], note="because", by=f"person {which}")

        return work

    outcomes = together(decision(0, name), decision(1, other))

    assert sorted((bool(each), each.reason) for each in outcomes) == [
        (False, "stale_view"),
        (True, ""),
    ]
    first = 0 if outcomes[0] else 1
    made = CaptureDecision.objects.get()
    assert (made.actor, made.decision) == (f"person {first}", [name, other][first])
    assert now_there(capture).state == made.to_state


def test_what_a_person_has_called_failed_is_not_sent_by_itself() -> None:
    capture = capture_in("review")
    assert decide("mark_failed", capture)
    with after(days=1):
        services.deliver(workers=0)
        assert services.perform(mail, key="k").state == "failed"
    assert not book()


@pytest.mark.parametrize("state", ["succeeded", "void"])
@each_decision
def test_what_is_done_or_given_up_stays_so_whoever_decides(name: str, state: str) -> None:
    capture = capture_in(state)
    before = row(capture)
    assert not decide(name, capture)
    assert row(capture) == before
