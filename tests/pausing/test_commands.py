"""Under a pause the commands and the queue's tasks say so, and all is well."""

from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import call_command

from idempotent_actions import services, tasks
from idempotent_actions.models import Capture, Run
from project.billing.models import Invoice
from tests.invoices import climbed, make_invoice
from tests.ledger.moments import after
from tests.ledger.outside import book, mail
from tests.pausing.standing import (
    ACTION,
    EVERYTHING,
    MAIL,
    Settling,
    at_first,
    elsewhere,
    lift_all,
    pause,
)
from tests.registering import only
from tests.trials.commands import Ran

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _later() -> Iterator[None]:
    with only(Settling), after(days=1):
        yield


@pytest.mark.parametrize("scope", [EVERYTHING, ACTION], ids=["everything", "action"])
@pytest.mark.parametrize("command", ["tick", "escalate_overdue", "mark_overdue"])
def test_a_poll_says_so_in_its_sentence_and_in_its_json(
    command: str, scope: tuple[str, str]
) -> None:
    make_invoice()
    pause(*scope)
    said = Ran(command)
    assert (said.status, said.complaints) == (0, "")
    assert said.out.endswith(":billing.invoice: 0 applied, stopped (paused)\n")
    told = Ran(command, "--json")
    (action,) = told.json["actions"]
    assert (told.status, action["stopped"], action["run"]) == (0, "paused", None)
    assert (Invoice.objects.get().status, Run.objects.count()) == ("open", 0)


def test_one_stopped_mid_run_says_what_it_has_done() -> None:
    for number in range(4):
        make_invoice(number, status="overdue")
    with at_first("escalate", lambda: elsewhere(*ACTION)):
        ran = Ran("escalate_overdue", "--batch-size", "2", "--json")
    (action,) = ran.json["actions"]
    assert (ran.status, action["stopped"], action["applied"]) == (0, "paused", 2)
    assert action["delivery"]["waiting"] == {"paused": 4}, "a mail and a charge for each"
    assert action["delivery"]["performed"] == 0


def test_a_delivery_says_how_many_wait() -> None:
    services.request(mail, key="one")
    services.request(mail, key="two")
    pause(*MAIL)
    said = Ran("deliver_captures")
    assert (said.status, said.out) == (0, "2 waiting (paused)\n")
    told = Ran("deliver_captures", "--json")
    assert (told.status, told.json["waiting"], told.json["not_done"]) == (0, {"paused": 2}, 0)
    assert book() == []
    lift_all()
    assert Ran("deliver_captures").out == "2 succeeded\n"


def test_a_dry_run_says_so() -> None:
    make_invoice()
    pause(*ACTION)
    ran = Ran("tick", "--dry-run", "--json")
    assert (ran.status, ran.json["actions"][0]["stopped"]) == (0, "paused")


def test_a_task_tells_it_in_what_it_returns() -> None:
    invoice = make_invoice()
    pause(*EVERYTHING)
    services.request(mail, key="k")
    slot = "2026-03-03T09:00:00+00:00"
    ticked = tasks.run_plan("tick", slot)
    assert ticked["actions"][0]["stopped"] == "paused"
    delivered = tasks.run_plan("deliver_captures", slot)
    assert delivered["delivery"]["waiting"] == {"paused": 1}
    lift_all()
    assert tasks.run_plan("tick", slot)["actions"][0]["stopped"] == ""
    assert climbed(invoice) == ["reminder"]
    assert Capture.objects.filter(state="succeeded").count() == 3


def test_the_heartbeat_names_it_and_is_well() -> None:
    call_command("tick", stdout=StringIO())
    with after(days=2) as then:
        pause(*EVERYTHING)
        said = Ran("check_heartbeat")
        told = Ran("check_heartbeat", "--json")
    assert (said.status, said.complaints) == (0, "")
    assert said.out == f"everything: paused since {then.isoformat()}\nall is well\n"
    assert (told.status, told.json["ok"]) == (0, True)
    assert told.json["troubles"] == [
        {"kind": "paused", "name": "everything", "since": then.isoformat(), "count": 1}
    ]
