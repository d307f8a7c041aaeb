"""Everything that stands against an act is named, not only what a tick meets first."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, models, transaction
from django.db.models import Q
from django.test.utils import CaptureQueriesContext, isolate_apps
from django.utils import timezone

from idempotent_actions import services
from idempotent_actions.effects import Intent
from idempotent_actions.exceptions import InvalidInput, UnknownAction
from idempotent_actions.explaining import explain
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.running import HIDDEN
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice, Order
from tests.asking import DAY, HELD, ON_REMINDER, WEEK
from tests.explaining.asked import codes, part, sentences
from tests.explaining.parcels import TrackedParcels, make_parcel
from tests.invoices import DUE, LADDER, make_invoice
from tests.oddities.models import Parcel
from tests.registering import only
from tests.situations import Picky

pytestmark = pytest.mark.django_db

TOMORROW = "2026-03-03 08:00:00+00:00"


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with only(Picky, TrackedParcels), travel(DUE), timezone.override("UTC"):
        yield


def test_what_climbs_is_told_with_its_rung_and_its_effects() -> None:
    told = part(make_invoice(number=7))
    assert (told.action, told.climbs, told.transition, told.rung) == (
        LADDER, True, "escalate", "reminder",
    )  # fmt: skip
    assert (told.reasons, told.due_from) == ((), None)
    (effect,) = told.effects
    assert effect.name == "send_dunning_notice"
    assert (effect.params["number"], effect.params["rung"]) == ("7", "reminder")


def test_a_parameter_that_its_effect_declares_secret_is_hidden() -> None:
    (effect,) = part(make_parcel()).effects
    assert effect.params == {"parcel": "books", "state": "sent", "token": HIDDEN}


def test_the_end_of_the_ladder_is_an_act_too() -> None:
    told = part(make_invoice(status="overdue", rung="final_notice"))
    assert (told.climbs, told.transition, told.rung, told.effects) == (True, "exhaust", "", ())


@pytest.mark.parametrize(
    ("columns", "reasons"),
    [
        ({"due_at": None}, ["not_due: It has no due date."]),
        ({"due_at": DUE + DAY}, [f"not_due: It is due at {TOMORROW}."]),
        (
            {"next_at": DUE + DAY},
            [f"not_due: The wait before the first rung lasts until {TOMORROW}."],
        ),
        (
            {**ON_REMINDER, "next_at": DUE + DAY},
            [f"not_due: The wait after reminder lasts until {TOMORROW}."],
        ),
        (
            {"status": "overdue", "rung": "reminder", "next_at": DUE + DAY},
            [f"waiting: The wait after reminder lasts until {TOMORROW}."],
        ),
        (
            {**ON_REMINDER, "next_at": None},
            ["waiting: No next deadline is set: see what followed its effects."],
        ),
        (HELD, [f"held: It is held until {TOMORROW}: a promise"]),
        ({"paid_at": DUE}, ["resolved: The host's own data say that it is settled."]),
        ({"customer": "disputing"}, ["disputed: The host's own veto: disputed."]),
        ({"customer": "on vacation"}, ["not_due: The action's own rule doesn't find it due."]),
        ({"customer": "unreadable"}, ["error: ValueError: no such customer"]),
        (
            {"status": "overdue", "rung": "gone"},
            ["unknown_rung: It stands on a rung that the ladder no longer declares."],
        ),
        ({"status": "exhausted"}, ["exhausted: The ladder has ended: no rung is left."]),
        (
            {"status": "resolved"},
            ["resolved: This cycle is resolved. Reopening begins the next one."],
        ),
        (
            {"status": "cancelled"},
            ["cancelled: This cycle is cancelled. Reopening begins the next one."],
        ),
    ],
)
def test_one_thing_that_stands_against_it_is_the_only_one_named(
    columns: dict[str, Any], reasons: list[str]
) -> None:
    told = part(make_invoice(**columns))
    assert not told.climbs
    assert [f"{code}: {sentence}" for code, sentence in told.reasons] == reasons


def test_everything_that_stands_against_it_is_named_at_once() -> None:
    invoice = make_invoice(
        **HELD,
        status="escalated",
        rung="gone",
        next_at=DUE + WEEK,
        due_at=DUE + 2 * DAY,
        paid_at=DUE,
        customer="disputing",
    )
    said = codes(invoice)
    assert said == ["resolved", "held", "not_due", "not_due", "disputed", "unknown_rung"]
    assert part(invoice).due_from is None


def test_the_last_of_several_instants_is_the_one_to_wait_for() -> None:
    invoice = make_invoice(**HELD, due_at=DUE + 3 * DAY, next_at=DUE + 2 * DAY)
    assert codes(invoice) == ["held", "not_due", "not_due"]
    assert part(invoice).due_from == DUE + 3 * DAY
    assert part(invoice, DUE + 3 * DAY).climbs


def test_the_effects_that_a_rung_waits_for_are_named_with_their_states() -> None:
    invoice = make_invoice()
    tick(LADDER, deliver=False)
    Capture.objects.update(waiting_for="held")
    assert sentences(invoice) == [
        "It waits for the effect send_dunning_notice, which is pending (held)."
    ]
    assert part(invoice).due_from is None

    services.void(Capture.objects.get(), note="never mind", by="clerk")
    assert codes(invoice) == ["not_due"]
    assert part(invoice).due_from == DUE + WEEK


def test_the_effects_of_another_round_are_not_what_it_waits_for() -> None:
    invoice = make_invoice()
    tick(LADDER, deliver=False)
    services.resolve(invoice, by="clerk", reason="paid")
    services.reopen(invoice, by="clerk", reason="bounced")
    assert part(invoice).climbs
    tick(LADDER, deliver=False)
    assert codes(invoice) == ["waiting"]


@pytest.mark.parametrize("columns", [{}, {"due_at": DUE + DAY}], ids=["due", "not due"])
def test_a_row_behind_its_trail_is_told_to_be_healed(columns: dict[str, Any]) -> None:
    invoice = make_invoice()
    tick(LADDER, deliver=False)
    Invoice.objects.filter(pk=invoice.pk).update(status="open", rung="", **columns)
    assert codes(invoice) == [*(["not_due"] if columns else []), "healed"]
    assert part(invoice).due_from is None


def test_a_row_that_is_not_there_is_gone() -> None:
    assert codes(Invoice(pk=404)) == ["gone"]


def test_the_row_counts_and_not_the_instance() -> None:
    invoice = make_invoice()
    Invoice.objects.filter(pk=invoice.pk).update(paid_at=DUE)
    assert codes(invoice) == ["resolved"]


def test_a_plain_action_names_what_stands_against_it() -> None:
    assert codes(make_parcel("heavy", weight=99)) == ["condition"]
    assert sentences(make_parcel("sent", state="sent")) == ["dispatch can't start from 'sent'."]
    assert sentences(make_parcel("unsealed", seals=0)) == [
        "The action's own rule doesn't find it due."
    ]
    assert codes(make_parcel("both", seals=0, weight=99)) == ["not_due", "condition"]
    assert codes(make_parcel("dropped")) == ["error"]
    assert sentences(make_parcel("unreadable")) == ["LookupError: no such carrier"]


class Broken(TrackedParcels):
    """Rules that raise, one of them always."""

    name = "broken"
    raising: Any = ""

    def get_queryset(self) -> models.QuerySet[Parcel]:
        self.complain("get_queryset")
        return Parcel.objects.exclude(name="hidden")

    def due(self, now: datetime) -> Q:
        self.complain("due")
        return super().due(now)

    def why_not(self, subject: Parcel, now: datetime) -> str:
        self.complain("why_not")
        return "" if subject.name != "vetoed" else "vetoed"

    def occurrence(self, subject: Parcel) -> str:
        self.complain("occurrence")
        return super().occurrence(subject)

    def effects(self, subject: Parcel, step: Any) -> Iterable[Intent]:
        self.complain("effects")
        return super().effects(subject, step)

    def why_not_due(self, subjects: Any, now: datetime, using: str) -> dict[Any, str]:
        self.complain("why_not_due")
        return {each.pk: "embargo" for each in subjects if each.name == "hidden"}

    def complain(self, member: str) -> None:
        if self.raising == member:
            raise LookupError(f"no {member}")


@pytest.mark.parametrize("member", ["get_queryset", "due", "why_not", "occurrence", "effects"])
def test_a_member_that_raises_is_named_beside_the_other_reasons(
    member: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with only(Broken):
        fine, heavy = make_parcel(), make_parcel("heavy", weight=99, seals=0)
        assert part(fine).climbs
        monkeypatch.setattr(Broken, "raising", member)
        assert sentences(fine) == [f"LookupError: no {member}"]
        assert "condition" in codes(heavy)
        assert not part(heavy).climbs


def test_a_row_that_the_actions_queryset_leaves_out_is_excluded() -> None:
    with only(Broken):
        assert codes(make_parcel("hidden")) == ["excluded", "embargo"]


def test_an_error_of_the_database_in_a_rule_is_named_too() -> None:
    class Divides(TrackedParcels):
        name = "divides"

        def why_not(self, subject: Parcel, now: datetime) -> str:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM no_such_table")
            return ""

    with only(Divides), transaction.atomic():
        (sentence,) = sentences(make_parcel())
    assert "no_such_table" in sentence


def test_an_action_that_is_never_polled_is_said_to_be_started_by_hand() -> None:
    class ByHand(TrackedParcels):
        name = "by_hand"

        def due(self, now: datetime) -> None:  # type: ignore[override]
            return None

    with only(ByHand):
        assert codes(make_parcel()) == ["not_polled"]


def test_each_action_on_a_model_has_a_part_of_its_own() -> None:
    class Vetoed(TrackedParcels):
        name = "vetoed"

        def why_not(self, subject: Parcel, now: datetime) -> str:
            return "embargo"

    with only(TrackedParcels, Vetoed):
        explanation = explain(make_parcel())
    assert [(each.action, each.climbs) for each in explanation.parts] == [
        ("dispatch_parcels", True),
        ("vetoed", False),
    ]
    assert explanation.climbs


@pytest.mark.parametrize(
    ("scope", "name", "stops"),
    [("everything", "", True), ("action", LADDER, True), ("action", "dispatch_parcels", False)],
)
def test_a_pause_stands_against_it_and_is_named_with_its_end(
    scope: str, name: str, stops: bool
) -> None:
    until = DUE + DAY
    services.pause(scope, name, reason="the bank is closed", by="clerk", until=until)
    told = part(make_invoice())
    assert told.climbs is not stops
    if stops:
        ((code, sentence),) = told.reasons
        assert code == "paused"
        assert f"until {TOMORROW}" in sentence
        assert "by clerk: the bank is closed" in sentence
        assert told.due_from == until
    both = make_invoice(2, due_at=DUE + 2 * DAY)
    assert codes(both) == [*(["paused"] if stops else []), "not_due"]
    assert part(both).due_from == DUE + 2 * DAY


def test_a_paused_effect_holds_no_rung_back_but_is_marked() -> None:
    name = "send_dunning_notice"
    services.pause("effect", name, reason="a wrong letterhead", by="clerk")
    told = part(make_invoice())
    assert told.climbs
    assert [(each.name, each.paused) for each in told.effects] == [(name, "a wrong letterhead")]


def test_a_model_without_an_action_and_a_row_without_a_key_are_refused() -> None:
    with pytest.raises(UnknownAction, match=r"No action is registered for billing\.Order"):
        explain(Order(pk=1))
    with pytest.raises(InvalidInput, match="save it first"):
        explain(Invoice())
    with pytest.raises(InvalidInput, match="now"):
        explain(make_invoice(), datetime(2026, 3, 2))  # noqa: DTZ001


def test_it_writes_nothing_locks_nothing_and_asks_little() -> None:
    invoice = make_invoice()
    with CaptureQueriesContext(connection) as climbing:
        assert part(invoice).climbs
    tick(LADDER, deliver=False)
    acts = Escalation.objects.count()
    with CaptureQueriesContext(connection) as waiting:
        assert codes(invoice) == ["waiting"]
    for each in [*climbing, *waiting]:
        assert each["sql"].startswith("SELECT"), each
        assert " FOR UPDATE" not in each["sql"]
    assert len(climbing) <= 6
    assert len(waiting) <= 6
    assert Escalation.objects.count() == acts


def test_it_is_answered_from_another_instant() -> None:
    invoice = make_invoice()
    assert codes(invoice, DUE - timedelta(seconds=1)) == ["not_due"]
    assert part(invoice, DUE).climbs


def test_it_becomes_plain_values() -> None:
    invoice = make_invoice(due_at=DUE + DAY)
    assert explain(invoice).as_dict() == {
        "subject": f"billing.invoice:{invoice.pk}",
        "at": DUE.isoformat(),
        "climbs": False,
        "actions": [
            {
                "action": LADDER,
                "climbs": False,
                "transition": "",
                "rung": "",
                "effects": [],
                "reasons": [{"code": "not_due", "sentence": f"It is due at {TOMORROW}."}],
                "due_from": (DUE + DAY).isoformat(),
            }
        ],
    }


def test_a_proxy_is_the_same_row() -> None:
    invoice = make_invoice()
    with isolate_apps("tests.oddities"):

        class PaidLater(Invoice):
            class Meta:
                app_label = "oddities"
                proxy = True

        (only_one,) = explain(PaidLater(pk=invoice.pk)).parts
    assert (only_one.action, only_one.climbs) == (LADDER, True)
