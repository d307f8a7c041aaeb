"""The database itself refuses a capture that contradicts itself, and nobody assigns its state."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django_fsm import TransitionNotAllowed

from idempotent_actions import Receipt, services
from idempotent_actions.models import Capture, CaptureAttempt
from tests.ledger.moments import NOW, now_there, row
from tests.ledger.outside import Behaviour, charge, declined, dropped_before, mail, plan

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]


def in_state(state: str) -> Capture:
    """A capture that has come to `state` as captures do."""
    if state == "pending":
        return services.request(mail, key="k")
    if state == "void":
        capture = services.request(mail, key="k")
        assert services.void(capture, note="not wanted", by="clerk")
        return now_there(capture)
    if state == "sending":
        capture = services.request(mail, key="k")
        capture.claim(NOW, mail.lease)
        capture.save()
        return capture
    plan.extend(BEFORE.get(state, []))
    return services.perform(charge if state == "unknown" else mail, key="k")


BEFORE: dict[str, list[Behaviour]] = {
    "unknown": [dropped_before],
    "review": [dropped_before],
    "failed": [declined],
}


STATES = ["pending", "sending", "unknown", "review", "succeeded", "failed", "void"]

WRONG = [
    *[(state, {"wake_at": None}, "times") for state in STATES[:3]],
    *[(state, {"wake_at": NOW}, "times") for state in STATES[3:]],
    *[(state, {"finished_at": NOW}, "times") for state in STATES[:4]],
    *[(state, {"finished_at": None}, "times") for state in STATES[4:]],
    *[(state, {"token": 0}, "was_sent") for state in STATES[1:4]],
    *[(state, {"attempts": 0}, "was_sent") for state in STATES[1:3]],
    *[(state, {"first_sent_at": None}, "was_sent") for state in STATES[1:4]],
    ("pending", {"generation": 0}, "counts"),
    ("pending", {"state": "sending"}, "was_sent"),
    ("pending", {"state": "succeeded", "wake_at": None}, "times"),
    ("pending", {"state": "done"}, "times|was_sent"),
    ("pending", {"state": "done", "wake_at": None, "finished_at": NOW}, "times|was_sent"),
    ("pending", {"token": -1}, "counts"),
    ("pending", {"attempts": -1}, "counts"),
]


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_reached_and_is_a_row_the_database_takes(state: str) -> None:
    assert in_state(state).state == state


@pytest.mark.parametrize(("state", "wrong", "constraint"), WRONG)
def test_a_row_that_contradicts_itself_is_refused(
    state: str, wrong: dict[str, Any], constraint: str
) -> None:
    capture = in_state(state)
    before = row(capture)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Capture.objects.filter(pk=capture.pk).update(**wrong)
    assert row(capture) == before


def test_raw_sql_is_refused_as_well() -> None:
    in_state("succeeded")
    with (
        pytest.raises(IntegrityError, match="idempotent_capture_times"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(f"UPDATE {Capture._meta.db_table} SET state = 'pending'")  # noqa: S608


def test_a_key_is_there_once_whoever_writes_it() -> None:
    capture = in_state("pending")
    copy = now_there(capture)
    copy.pk = None
    copy._state.adding = True
    with pytest.raises(IntegrityError, match="idempotent_capture_key"), transaction.atomic():
        copy.save()


def test_a_token_has_one_attempt() -> None:
    capture = in_state("succeeded")
    again = {"capture": capture, "token": 1, "worker": "another", "started_at": NOW}
    with (
        pytest.raises(IntegrityError, match="idempotent_attempt_capture_token"),
        transaction.atomic(),
    ):
        CaptureAttempt.objects.create(**again)


@pytest.mark.parametrize("state", STATES)
def test_the_state_is_assigned_by_nobody(state: str) -> None:
    capture = in_state("failed" if state != "failed" else "succeeded")
    with pytest.raises(AttributeError, match="changed by transitions"):
        capture.state = state
    capture = now_there(capture)
    with pytest.raises(AttributeError, match="changed by transitions"):
        capture.state = state


def test_an_instance_refreshes_to_what_happened_meanwhile_and_is_protected_still() -> None:
    capture = in_state("pending")
    services.deliver(workers=0)
    assert capture.state == "pending"
    capture.refresh_from_db()
    assert capture.state == "succeeded"
    with pytest.raises(AttributeError):
        capture.state = "pending"

    partly = Capture.objects.defer("state").get()
    partly.refresh_from_db(fields=["state"])
    assert partly.state == "succeeded"


SOURCES: dict[str, tuple[list[Any], list[str]]] = {
    "claim": ([NOW, mail.lease], ["pending", "unknown"]),
    "succeed": ([NOW, Receipt("ref")], ["pending", "sending", "unknown", "review"]),
    "refuse": ([NOW, {}], ["sending", "unknown", "review"]),
    "put_off": ([NOW, {}], ["sending", "unknown", "review"]),
    "lose_track": ([NOW, {}], ["sending"]),
    "park": (["unknown"], ["unknown"]),
    "find_absent": ([NOW], ["unknown"]),
    "void": ([NOW, "decided"], ["pending", "review", "failed"]),
    "mark_succeeded": ([NOW, "ref"], ["unknown", "review", "failed"]),
    "mark_failed": ([NOW], ["unknown", "review"]),
    "retry": ([NOW], ["review", "failed"]),
}


@pytest.mark.parametrize("transition", SOURCES)
@pytest.mark.parametrize("state", STATES)
def test_a_transition_starts_from_its_sources_alone(state: str, transition: str) -> None:
    arguments, sources = SOURCES[transition]
    capture = in_state(state)
    fire = getattr(capture, transition)
    if state not in sources:
        with pytest.raises(TransitionNotAllowed):
            fire(*arguments)
        return
    fire(*arguments)
    capture.save()  # and what it leaves is a row that the database takes
    assert now_there(capture).state == capture.state
