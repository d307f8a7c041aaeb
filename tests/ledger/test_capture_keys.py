"""Keys of captures: two facts never share one. Trials T26, T27, T29 and T31."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from idempotent_actions import Park, Replay, effects, services
from idempotent_actions.effects import Recovery
from idempotent_actions.exceptions import InvalidKey, KeyReused
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.polling import tick
from project.billing.models import Invoice
from tests.hosts.hooks.models import Parcel as PostedParcel
from tests.hosts.keys.models import Badge, Device, Locker, Parking, Permit
from tests.invoices import make_invoice
from tests.ledger.acting import Dunning, ladder
from tests.ledger.moments import NOW, after, now_there
from tests.ledger.outside import book, charge, dropped_before, mail, plan, post
from tests.oddities.models import DispatchParcels, Parcel, Seal
from tests.registering import only

pytestmark = pytest.mark.django_db

both_ways = pytest.mark.parametrize("ask", [services.perform, services.request])


def keys() -> list[str]:
    return list(Capture.objects.order_by("id").values_list("key", flat=True))


@both_ways
def test_t26_parts_cut_elsewhere_are_two_captures(ask: Callable[..., Capture]) -> None:
    one, other = ask(charge, key=("a:b", "c")), ask(charge, key=("a", "b:c"))
    assert one != other
    services.deliver(workers=0)
    assert len({each["provider_key"] for each in book()}) == len(book()) == 2


class DispatchWithMail(DispatchParcels):
    """Mails about parcels of this app."""

    def effects(self, subject: Parcel, step: Any) -> Any:
        yield mail(to=str(subject))


def test_t27_row_1_of_two_apps_makes_two_captures() -> None:
    one = Parcel.objects.create(pk=1, name="a")
    other = PostedParcel.objects.create(pk=1, due_at=NOW)
    assert type(one).__name__ == type(other).__name__

    with only(DispatchWithMail, ladder(PostedParcel)), after(hours=1):
        Seal.objects.create(parcel=one)
        tick(workers=0)

    assert [key.split(":")[:2] for key in keys()] == [
        ["oddities.parcel", "1"],
        ["host_hooks.parcel", "1"],
    ]
    assert len(book()) == 2


SUBJECTS: list[Callable[[], Any]] = [
    lambda: Badge.objects.create(pk=7, due_at=NOW),
    lambda: Locker.objects.create(number=-7, due_at=NOW),
    lambda: Device.objects.create(uid=uuid.UUID(int=7), due_at=NOW),
    lambda: Permit.objects.create(code="a:b'1%", due_at=NOW),
    lambda: Parking.objects.create(permit=Permit.objects.create(code="7"), due_at=NOW),
]


@pytest.mark.parametrize("make", SUBJECTS)
def test_t27_any_primary_key_is_noticed_once_and_its_row_found_at_the_barrier(
    make: Callable[[], Any],
) -> None:
    subject = make()
    with only(ladder(type(subject))), after(hours=1) as now:
        for _ in range(2):
            tick(workers=0)
        subject.refresh_from_db()
        assert subject.next_at == now + subject.ladder.get("notice").wait_after
    (capture,) = Capture.objects.about(subject)
    assert (capture.state, len(book())) == ("succeeded", 1)


def test_t27_the_text_007_is_not_7() -> None:
    permits = [Permit.objects.create(code=code, due_at=NOW) for code in ("7", "007", "'7")]
    with only(ladder(Permit)), after(hours=1):
        tick(workers=0)
    assert sorted(each["to"] for each in book()) == ["permit '7", "permit 007", "permit 7"]
    assert len({*keys()}) == 3
    for permit in permits:
        assert Capture.objects.about(permit).get().params == {"to": str(permit)}


BAD_KEYS = ["n" * 300, "n" * 3000, "a\0b", "\ud800", "", ["n" * 300], ["n" * 3000], ["a", "\0"],
            ["\udfff"], [], [""], ["a", None], ["a", 1.5], None, 7]  # fmt: skip


@both_ways
@pytest.mark.parametrize("key", BAD_KEYS, ids=lambda key: ascii(key)[:20])
def test_t29_a_bad_key_is_refused_before_anything_is_written(
    ask: Callable[..., Capture], key: Any
) -> None:
    with pytest.raises(InvalidKey):
        ask(charge, key=key)
    assert (book(), keys()) == ([], [])


def test_t29_the_longest_key_is_taken_whatever_its_letters() -> None:
    for letter in "né😀":
        assert services.perform(charge, key=letter * 255).state == "succeeded"
    assert len(book()) == 3


@pytest.mark.parametrize("recipient", ["n" * 300, "n" * 3000, "a\0b", "\ud800", "", 1.5, None])
def test_t29_an_act_whose_effect_has_a_bad_key_is_not_done_at_all(recipient: Any) -> None:
    def yielded(action: Any, subject: Any, step: Any) -> Any:
        yield mail(to="the good one")
        yield post(recipient=recipient)

    invoice = make_invoice(due_at=NOW)
    with only(ladder(Invoice, yielded)), after(hours=1):
        (report,) = tick(workers=0)
    assert report.failed == 1
    assert "Invalid" in report.errors[0]["error"]
    assert (book(), keys(), Escalation.objects.count()) == ([], [], 0)
    assert Invoice.objects.get(pk=invoice.pk).rung == ""


def test_t31_mail_and_charge_of_one_rung_have_different_keys() -> None:
    make_invoice(due_at=NOW)
    with only(Dunning), after(hours=1):
        tick(workers=0)
    assert len({*keys()}) == 2
    assert len({each["provider_key"] for each in book()}) == len(book()) == 2


@both_ways
def test_t31_the_same_key_with_another_amount_is_refused_and_only_the_first_charged(
    ask: Callable[..., Capture],
) -> None:
    first = ask(charge, key="order 1", params={"amount": Decimal(200)})
    with pytest.raises(KeyReused, match="other parameters"):
        ask(charge, key="order 1", params={"amount": Decimal(500)})
    with pytest.raises(KeyReused, match=r"effect ledger\.charge"):
        ask(mail, key="order 1", params={"amount": Decimal(200)})
    assert ask(charge, key="order 1", params={"amount": Decimal("200.00")}) == first
    services.deliver(workers=0)
    assert [each["amount"] for each in book()] == ["200"]


@pytest.mark.parametrize(("hours", "charges", "state"), [(22, 1, "succeeded"), (24, 0, "review")])
def test_t31_an_unknown_charge_is_sent_again_within_its_window_only(
    hours: int, charges: int, state: str
) -> None:
    plan.append(dropped_before)
    with after():
        capture = services.perform(charge, key="k")
    with after(hours=hours):
        services.deliver(workers=0)
        services.deliver(workers=0)
    assert (len(book()), now_there(capture).state) == (charges, state)
    assert now_there(capture).waiting_for == ("" if charges else "window_over")


def test_the_window_is_that_of_the_first_attempt_however_often_it_is_tried() -> None:
    with after():
        plan.append(dropped_before)
        capture = services.perform(charge, key="k")
    for hours in (8, 16, 22):
        with after(hours=hours):
            plan.append(dropped_before)
            services.deliver(workers=0)
    with after(hours=23):
        services.deliver(workers=0)
    assert (now_there(capture).state, now_there(capture).attempts) == ("review", 4)


@pytest.mark.parametrize(
    ("declared", "deployed", "state", "charges"),
    [(Replay(), Park(), "succeeded", 1), (Park(), Replay(), "review", 0)],
)
def test_the_policy_is_that_of_the_request_whatever_is_deployed_since(
    monkeypatch: pytest.MonkeyPatch,
    declared: Recovery,
    deployed: Recovery,
    state: str,
    charges: int,
) -> None:
    known = effects._effects
    with after():
        plan.append(dropped_before)
        monkeypatch.setitem(known, charge.name, replace(charge, recovery=declared))
        capture = services.perform(known[charge.name], key="k")
    monkeypatch.setitem(known, charge.name, replace(charge, recovery=deployed))
    with after(minutes=5):
        services.deliver(workers=0)
    assert (now_there(capture).state, len(book())) == (state, charges)
