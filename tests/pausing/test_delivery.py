"""A pause holds effects back: nothing is sent and nobody asked, and nothing is lost by it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from idempotent_actions import delivering, services
from idempotent_actions.barrier import pass_barrier
from idempotent_actions.exceptions import KeyReused
from idempotent_actions.models import Capture
from idempotent_actions.polling import tick
from tests.invoices import climbed, make_invoice
from tests.ledger.moments import after, now_there, row
from tests.ledger.outside import ask_first, book, charge, done, dropped_after, mail, plan
from tests.pausing.standing import (
    ACTION,
    CHARGE,
    EVERYTHING,
    MAIL,
    Settling,
    elsewhere,
    lift,
    lift_all,
    pause,
)
from tests.registering import only
from tests.threads import somebody_waits_for_me, together
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _later() -> Iterator[None]:
    with only(Settling), after(days=1):
        yield


def sent() -> list[str]:
    """The effects that have succeeded, each as often as it did."""
    succeeded = Capture.objects.filter(state="succeeded")
    return sorted(succeeded.values_list("effect", flat=True))


def deliver(**options: Any) -> dict[str, int]:
    """Deliver in this thread; return how many wait, by reason."""
    return dict(services.deliver(workers=0, **options).waiting)


@pytest.mark.parametrize(
    ("scope", "goes_out", "waits"),
    [
        (EVERYTHING, [], 3),
        (ACTION, ["ledger.charge"], 2),
        (MAIL, ["ledger.charge", "ledger.charge"], 1),
        (CHARGE, ["ledger.mail"], 2),
    ],
)
def test_it_holds_back_what_it_names_and_leaves_it_as_it_is(
    scope: tuple[str, str], goes_out: list[str], waits: int
) -> None:
    make_invoice()
    tick(deliver=False)
    services.request(charge, key="of no action")
    before = {each.pk: row(each) for each in Capture.objects.all()}
    pause(*scope)
    assert deliver() == {"paused": waits}
    assert (sent(), len(book())) == (goes_out, 3 - waits)
    held = Capture.objects.filter(state="pending")
    assert [row(each) for each in held] == [before[each.pk] for each in held]

    lift_all()
    assert deliver() == {}
    assert sent() == ["ledger.charge", "ledger.charge", "ledger.mail"]
    assert deliver() == {}
    assert len(book()) == 3


def test_a_tick_climbs_on_under_a_pause_of_an_effect_and_its_captures_wait() -> None:
    invoice = make_invoice()
    pause(*MAIL)
    reports = tick(workers=0)
    assert (reports[0].stopped, climbed(invoice)) == ("", ["reminder"])
    assert reports[0].delivery.as_dict()["waiting"] == {"paused": 1}
    assert sent() == ["ledger.charge"]


def test_what_waited_is_delivered_when_it_ends_by_itself() -> None:
    services.request(mail, key="k")
    with after(days=1) as now:
        pause(*MAIL, until=now + timedelta(hours=1))
    with after(days=1, minutes=59):
        assert deliver() == {"paused": 1}
    with after(days=1, hours=1):
        assert deliver() == {}
    assert sent() == ["ledger.mail"]


# -- in the middle of a sweep


@pytest.mark.parametrize("scope", [EVERYTHING, MAIL], ids=["everything", "effect"])
@pytest.mark.parametrize("page", [2, 200])
def test_one_set_from_another_connection_mid_sweep_stops_it_at_the_next_effect(
    page: int, scope: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pausing(call: Any) -> Any:
        elsewhere(*scope)
        return done(call)

    monkeypatch.setattr(delivering, "_PAGE", page)
    for number in range(6):
        services.request(mail, key=("k", number))
    plan.append(pausing)
    assert deliver() == {"paused": 5}
    assert (sent(), len(book())) == (["ledger.mail"], 1), "what was being sent is settled"
    lift_all()
    assert deliver() == {}
    assert len({each["key"] for each in book()}) == len(book()) == 6


def test_the_barrier_hears_of_one_that_was_committed_while_it_waited_for_the_subject() -> None:
    invoice = make_invoice()
    tick(deliver=False)
    capture = Capture.objects.get(effect="ledger.mail")

    def hold_the_subject() -> None:
        with transaction.atomic():
            type(invoice).objects.select_for_update().get()
            meet.append("locked")
            until(somebody_waits_for_me, "the barrier to wait for the subject")
            pause(*MAIL)

    def pass_it() -> Any:
        until(lambda: meet, "the subject to be locked")
        return pass_barrier(capture, None, "default", patient=True)

    meet: list[str] = []
    _, answer = together(hold_the_subject, pass_it)
    assert answer == "paused"


# -- what nobody knows


def test_what_may_have_been_sent_is_not_sent_again_under_a_pause() -> None:
    services.request(charge, key="k")
    plan.append(dropped_after)
    deliver()
    unknown = row(Capture.objects.get())
    assert unknown["state"] == "unknown"
    paused = pause(*CHARGE)
    with after(days=1, hours=1):
        assert deliver() == {"paused": 1}
        assert row(Capture.objects.get()) == unknown
        assert len(book()) == 1
        lift(paused)
        deliver()
    assert sent() == ["ledger.charge"]
    assert len({each["provider_key"] for each in book()}) == 1


def test_no_provider_is_asked_under_a_pause() -> None:
    services.request(ask_first, key="k")
    plan.append(dropped_after)
    deliver()
    paused = pause(*EVERYTHING)
    with after(days=1, hours=1):
        assert deliver() == {"paused": 1}
        assert services.perform(ask_first, key="k").state == "unknown"
        lift(paused)
        deliver()
    assert (sent(), len(book())) == (["ledger.ask_first"], 1)
    assert Capture.objects.get().provider_ref == "found in the book"


@pytest.mark.parametrize("of", [mail, charge, ask_first], ids=lambda of: of.name)
def test_one_whose_worker_died_is_recovered_after_it(of: Any) -> None:
    capture = services.request(of, key="k")
    pass_barrier(capture, None, "default")
    sending = row(capture)
    paused = pause("effect", of.name)
    with after(days=1, hours=1):
        assert deliver() == {"paused": 1}
        assert row(capture) == sending
        lift(paused)
        deliver()
    assert now_there(capture).state == ("review" if of is mail else "succeeded")


# -- performing at once


@pytest.mark.parametrize("scope", [EVERYTHING, CHARGE], ids=["everything", "effect"])
def test_what_is_performed_under_a_pause_is_kept_for_delivery(scope: tuple[str, str]) -> None:
    pause(*scope)
    first = services.perform(charge, key="k", params={"amount": 1})
    again = services.perform(charge, key="k", params={"amount": 1})
    assert (first.pk, first.state, first.attempts) == (again.pk, "pending", 0)
    with pytest.raises(KeyReused):
        services.perform(charge, key="k", params={"amount": 2})
    assert book() == []
    lift_all()
    deliver()
    assert services.perform(charge, key="k", params={"amount": 1}).state == "succeeded"
    assert len(book()) == 1


def test_what_another_pause_names_is_performed() -> None:
    pause(*MAIL)
    pause(*ACTION)
    assert services.perform(charge, key="k").state == "succeeded"


# -- a crowd


def test_a_crowd_is_left_alone_in_as_many_statements_as_one() -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            deliver()
        return len(queries)

    pause(*MAIL)
    services.request(mail, key="one")
    one = statements()
    for number in range(500):
        services.request(mail, key=("more", number))
    assert statements() == one


def test_a_crowd_is_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering, "MOST_COUNTED", 3)
    pause(*MAIL)
    for number in range(5):
        services.request(mail, key=("k", number))
    assert deliver() == {"paused": 3}


def test_those_that_are_counted_are_those_the_sweep_is_for() -> None:
    pause(*EVERYTHING)
    services.request(mail, key="mail")
    services.request(charge, key="charge")
    assert deliver(effect=mail.name) == {"paused": 1}
    assert deliver(actions=[ACTION[1]]) == {}
