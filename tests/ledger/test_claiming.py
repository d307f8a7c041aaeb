"""The ledger's statements: one on PostgreSQL, steps elsewhere, and both write the same."""

from types import SimpleNamespace
from typing import Any

import pytest

from idempotent_actions import Receipt, ledger, services
from idempotent_actions.effects import Call
from idempotent_actions.intents import subject_columns, wanted
from idempotent_actions.models import Capture, CaptureAttempt
from tests.invoices import make_invoice
from tests.ledger.moments import NOW, after, now_there, row
from tests.ledger.outside import (
    Behaviour,
    book,
    charge,
    declined,
    dropped_before,
    mail,
    not_reached,
    plan,
    returning,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

PARAMS = {"card": "Ünal", "amount": "19.90", "lines": [1, None, {"a": True}]}
OBJECT = object()
OWN = {"id", "key", "capture_id"}


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger takes the database for one that it knows nothing about."""
    monkeypatch.setattr(ledger, "connections", {"default": SimpleNamespace(vendor="another")})


def rows(model: Any) -> list[dict[str, Any]]:
    """Every row, oldest first, without what tells it from all others."""
    found = model.objects.order_by("id").values()
    return [{name: value for name, value in each.items() if name not in OWN} for each in found]


def claim(key: str, **about: str) -> Capture:
    capture, claimed = ledger.claim_new(wanted(charge, key, PARAMS, **about), "default")
    assert claimed
    return capture


def test_a_claimed_row_is_the_same_on_every_database(monkeypatch: pytest.MonkeyPatch) -> None:
    about = subject_columns(make_invoice())
    one = claim("one", **about)
    elsewhere(monkeypatch)
    other = claim("other", **about)
    one_row, other_row = rows(Capture)
    assert one_row == other_row
    one_attempt, other_attempt = rows(CaptureAttempt)
    assert one_attempt == other_attempt
    assert (one.state, one.token, one.first_sent_at) == ("sending", 1, NOW)
    for capture in (one, other):
        assert {name: getattr(capture, name) for name in row(capture)} == row(capture)


@pytest.mark.parametrize("claimed_in_steps", [False, True])
def test_a_key_that_is_there_is_read_not_claimed(
    claimed_in_steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if claimed_in_steps:
        elsewhere(monkeypatch)
    first = services.perform(charge, key="k", params=PARAMS)
    again = services.perform(charge, key="k", params=PARAMS)
    assert (again, again.result, len(book())) == (first, first.result, 1)
    assert rows(CaptureAttempt)[0]["outcome"] == "succeeded"


@pytest.mark.parametrize(
    "does",
    [
        pytest.param(returning(Receipt("ref", {"n": 1})), id="done"),
        pytest.param(returning(OBJECT), id="no JSON"),
        pytest.param(declined, id="refused"),
        pytest.param(dropped_before, id="unknown"),
        pytest.param(not_reached, id="not sent"),
    ],
)
def test_what_became_of_it_is_written_the_same_on_every_database(
    does: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("one", "other"):
        plan.append(does)
        services.perform(mail, key=key, params={"to": "a@example.com"})
        elsewhere(monkeypatch)
    one, other = rows(Capture)
    assert one == other
    one, other = rows(CaptureAttempt)
    assert one == other


def test_a_late_word_is_the_attempts_alone_in_steps_too(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(monkeypatch)

    def overtaken(call: Call) -> Any:
        with after(hours=1):
            services.deliver(workers=0)
        return declined(call)

    plan.append(overtaken)
    capture = services.perform(charge, key="k", params=PARAMS)
    assert (now_there(capture).state, len(book())) == ("succeeded", 1)
    assert [(each["outcome"], each["late"]) for each in rows(CaptureAttempt)] == [
        ("refused", True),
        ("succeeded", False),
    ]
