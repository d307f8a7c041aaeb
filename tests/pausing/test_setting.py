"""A pause is set and lifted by a person, with a reason, and kept."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django_q.models import OrmQ

from idempotent_actions import services
from idempotent_actions.exceptions import InvalidInput
from idempotent_actions.models import Pause
from idempotent_actions.pausing import paused_by
from tests.invoices import LADDER
from tests.ledger.moments import NOW, after
from tests.pausing.standing import ACTION, EVERYTHING, MAIL, Settling, lift, pause
from tests.registering import only
from tests.threads import together

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _now() -> Iterator[None]:
    with only(Settling), after():
        yield


@pytest.mark.parametrize("until", [None, NOW + HOUR])
@pytest.mark.parametrize("scope", [EVERYTHING, ACTION, MAIL], ids=str)
def test_it_is_kept_with_who_why_and_until_when(
    scope: tuple[str, str], until: datetime | None
) -> None:
    user = User(username="ada")
    made = services.pause(*scope, reason="a wrong rate", by=user, until=until)
    stored = Pause.objects.values().get()
    assert stored == {
        "id": made.pk,
        "scope": scope[0],
        "name": scope[1],
        "reason": "a wrong rate",
        "actor": "ada",
        "paused_at": NOW,
        "until": until,
        "lifted_at": None,
        "lifted_by": "",
        "lift_reason": "",
    }


BAD: list[tuple[dict[str, Any], str]] = [
    ({"scope": "all"}, "scope must be one of everything, action, effect, not 'all'"),
    ({"scope": None}, "scope must be one of"),
    ({"name": LADDER}, "a pause of everything takes no name"),
    ({"scope": "action"}, "name must say which action to pause"),
    ({"scope": "effect"}, "name must say which effect to pause"),
    ({"scope": "action", "name": 7}, "name must be a text"),
    ({"scope": "action", "name": "gone"}, f"no action 'gone'. Registered: {LADDER}."),
    ({"scope": "action", "name": "ledger.mail"}, "no action 'ledger.mail'"),
    ({"scope": "effect", "name": "gone"}, "no effect 'gone'. Declared: .*ledger.mail"),
    ({"scope": "effect", "name": LADDER}, "no effect"),
    ({"reason": ""}, "reason must be a text"),
    ({"reason": "  "}, "reason must be a text"),
    ({"reason": "x" * 256}, "reason must be a text"),
    ({"reason": "a\0b"}, "reason must be a text"),
    ({"by": ""}, "by must be a text"),
    ({"by": None}, "by must be a text"),
    ({"until": "tomorrow"}, "until must be a datetime"),
    ({"until": datetime(2027, 1, 1)}, "until must carry a time zone"),  # noqa: DTZ001
    ({"until": NOW}, "until must lie in the future"),
    ({"until": NOW - HOUR}, "until must lie in the future"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[str(given) for given, _ in BAD])
def test_what_it_cant_take_is_told_and_nothing_is_paused(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        services.pause(**{"scope": "everything", "reason": "because", "by": "ada", **given})
    assert not Pause.objects.exists()


def test_lifted_it_is_kept_with_who_and_why() -> None:
    made = pause(*ACTION)
    with after(hours=1) as later:
        assert services.lift(made, reason="mended", by=User(username="bob"))
    stored = Pause.objects.get()
    assert (stored.lifted_at, stored.lifted_by, stored.lift_reason) == (later, "bob", "mended")
    assert made.lifted_at is None, "the instance handed in is left alone"


def test_lifting_it_again_changes_nothing() -> None:
    made = pause(*ACTION)
    assert lift(made)
    there = Pause.objects.values().get()
    with after(hours=1):
        assert not lift(made)
    assert Pause.objects.values().get() == there


def test_one_that_has_ended_by_itself_is_not_lifted() -> None:
    made = pause(*ACTION, until=NOW + HOUR)
    with after(hours=1):
        assert not lift(made)
    assert Pause.objects.get().lifted_at is None
    with after(minutes=59):
        assert lift(made)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_lift_it_at_once_one_does() -> None:
    for _ in range(5):
        made = pause(*ACTION)
        answers = together(*[partial(lift, made)] * 2)
        assert sorted(answers) == [False, True]


@pytest.mark.parametrize("given", [{"reason": ""}, {"by": ""}], ids=str)
def test_lifting_needs_a_reason_and_an_actor(given: dict[str, Any]) -> None:
    made = pause(*ACTION)
    with pytest.raises(InvalidInput):
        services.lift(made, **{"reason": "mended", "by": "ada", **given})
    assert Pause.objects.get().lifted_at is None


@pytest.mark.parametrize("what", [None, 7, Pause()], ids=["none", "number", "unsaved"])
def test_only_a_stored_pause_is_lifted(what: Any) -> None:
    with pytest.raises(InvalidInput, match="must be a stored Pause"):
        services.lift(what, reason="mended", by="ada")


@pytest.mark.django_db(transaction=True)
def test_the_queue_is_asked_to_deliver_once_it_is_lifted() -> None:
    made = pause(*EVERYTHING)
    assert not OrmQ.objects.exists()
    with transaction.atomic():
        lift(made)
        assert not OrmQ.objects.exists()
    assert OrmQ.objects.get().task["func"] == "idempotent_actions.tasks.deliver_now"


@pytest.mark.parametrize("now", [NOW, None], ids=["given", "read"])
@pytest.mark.parametrize(
    ("scope", "stops"),
    [
        (EVERYTHING, [True, True, True, True]),
        (ACTION, [False, True, False, True]),
        (MAIL, [False, False, True, True]),
    ],
)
def test_it_stops_what_it_names(
    scope: tuple[str, str], stops: list[bool], now: datetime | None
) -> None:
    asked: list[dict[str, str]] = [
        {},
        {"action": LADDER},
        {"effect": "ledger.mail"},
        {"action": LADDER, "effect": "ledger.mail"},
    ]
    assert [paused_by("default", now, **each) for each in asked] == [None] * 4
    made = pause(*scope, until=NOW + HOUR)
    found = [paused_by("default", now, **each) for each in asked]
    assert found == [made if each else None for each in stops]
    assert paused_by("default", NOW, action=MAIL[1], effect=ACTION[1]) == (
        made if scope == EVERYTHING else None
    )
    with after(hours=1) as later:
        assert [paused_by("default", now and later, **each) for each in asked] == [None] * 4


def test_nothing_paused_costs_one_statement(django_assert_num_queries: Any) -> None:
    for now in (NOW, None):
        with django_assert_num_queries(1, connection=connection):
            assert paused_by("default", now, action=LADDER, effect="ledger.mail") is None
