"""`manage.py explain`: an answer is exit status 0, whatever it is; 2 is for what can't be asked."""

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from idempotent_actions.testing import travel
from tests.asking import DAY, HELD
from tests.explaining.parcels import TrackedParcels, make_parcel
from tests.invoices import DUE, LADDER, make_invoice
from tests.processes import manage
from tests.registering import only
from tests.situations import Picky


@pytest.fixture
def on_the_due_day() -> Iterator[None]:
    with only(Picky, TrackedParcels), travel(DUE), timezone.override("UTC"):
        yield


def run(*arguments: Any) -> list[str]:
    out = StringIO()
    call_command("explain", *map(str, arguments), stdout=out)
    return out.getvalue().splitlines()


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
def test_it_says_what_the_next_tick_does_and_hides_what_is_secret() -> None:
    parcel = make_parcel()
    assert run("oddities.Parcel", parcel.pk) == [
        f"oddities.parcel:{parcel.pk} at 2026-03-02T08:00:00+00:00",
        "dispatch_parcels: the next tick will dispatch it",
        '  explaining.track {"parcel": "books", "state": "sent", "token": "•••"}',
    ]
    invoice = make_invoice()
    assert run("billing.invoice", invoice.pk)[1] == (
        f"{LADDER}: the next tick will escalate it to reminder"
    )


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
def test_it_says_everything_that_stands_against_it_and_until_when() -> None:
    invoice = make_invoice(**HELD, due_at=DUE + 2 * DAY)
    assert run("billing.Invoice", invoice.pk)[1:] == [
        f"{LADDER}: the next tick does nothing with it",
        "  held: It is held until 2026-03-03 08:00:00+00:00: a promise",
        "  not_due: It is due at 2026-03-04 08:00:00+00:00.",
        "  nothing stands against it from 2026-03-04T08:00:00+00:00",
    ]
    assert "will escalate" in run("billing.Invoice", invoice.pk, "--at", "2026-03-04T08:00Z")[1]


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
def test_json_is_one_object_on_the_last_line() -> None:
    answer = json.loads(run("billing.Invoice", make_invoice().pk, "--json")[-1])
    assert answer["climbs"] is True
    (action,) = answer["actions"]
    assert (action["transition"], action["rung"]) == ("escalate", "reminder")
    assert action["effects"][0]["name"] == "send_dunning_notice"
    assert action["reasons"] == []


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
@pytest.mark.parametrize("pk", ["404", str(10**30), "-1"])
def test_a_row_that_is_gone_is_an_answer_too(pk: str) -> None:
    assert run("billing.Invoice", "--", pk)[2:] == ["  gone: There is no such row."]


@pytest.mark.django_db
@pytest.mark.usefixtures("on_the_due_day")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["billing.Invoyce", "1"], "there is no model 'billing.Invoyce'"),
        (["billing.Order", "1"], r"No action is registered for billing\.Order"),
        (["billing.Invoice", "x1"], r"'x1' is no primary key of billing\.Invoice"),
        (["billing.Invoice", "1", "--at", "2026-03-02T08:00"], "has no time zone"),
        (["billing.Invoice"], "PK"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message) as caught:
        run(*arguments)
    assert caught.value.returncode in (1, 2)  # argparse's own exits with 2 in a shell


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("billing.Invoice", "404"), 0),
        (("billing.Invoice", "x1"), 2),
        (("billing.Invoyce", "1"), 2),
        (("auth.User", "1"), 2),
    ],
)
def test_a_shell_sees_the_exit_status_and_no_traceback(
    arguments: tuple[str, ...], status: int
) -> None:
    done = manage("explain", *arguments, "--json")
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == bool(status)
