"""What a ladder's notice means for its subject: the next deadline, and the host's own hook."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db.models.signals import post_save

from idempotent_actions import Rung, services
from idempotent_actions.models import Capture
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import DUE, make_invoice, now_there
from tests.registering import only
from tests.trials.posting import DAY, WEEK, PostNotices, capture_of, notices, tick_at

pytestmark = pytest.mark.django_db(transaction=True)


class NoteCustomer(PostNotices):
    """Notes on the invoice what has become of its notice."""

    def settled(self, invoice: Invoice, capture: Capture) -> None:
        invoice.customer = f"{capture.params['rung']} {capture.state}"
        if broken:
            raise LookupError(broken)


broken = ""


@pytest.fixture(autouse=True)
def _hook() -> Iterator[None]:
    with only(NoteCustomer):
        yield


@pytest.fixture
def _hook_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.broken", "no such customer")


@pytest.mark.parametrize(("how", "state"), [("well", "succeeded"), ("declined", "failed")])
def test_the_hook_is_told_of_a_success_and_of_a_failure(how: str, state: str) -> None:
    invoice = make_invoice()
    outside.behave(how)
    tick_at(DUE)
    assert now_there(invoice).customer == f"reminder {state}"


@pytest.mark.parametrize("how", ["down", "lost"])
def test_it_is_not_told_while_nothing_is_settled(how: str) -> None:
    invoice = make_invoice(customer="A.")
    outside.behave(how)
    tick_at(DUE)
    assert now_there(invoice).customer == "A."


@pytest.mark.usefixtures("_hook_is_broken")
def test_a_hook_that_raises_holds_up_neither_the_truth_nor_the_ladder() -> None:
    invoice = make_invoice(customer="A.")
    tick_at(DUE)
    assert capture_of(invoice).hook_error == "LookupError: no such customer"
    assert (capture_of(invoice).state, notices(invoice)) == ("succeeded", ["reminder"])
    fresh = now_there(invoice)
    assert (fresh.customer, fresh.next_at) == ("A.", DUE + WEEK)


def test_run_again_later_it_does_not_move_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    invoice = make_invoice(customer="A.")
    with monkeypatch.context() as deployed:
        deployed.setattr(f"{__name__}.broken", "no such customer")
        tick_at(DUE)
    with travel(DUE + 3 * DAY):
        assert services.rerun_hook(capture_of(invoice))
    fresh = now_there(invoice)
    assert (fresh.customer, fresh.next_at) == ("reminder succeeded", DUE + WEEK)
    assert capture_of(invoice).hook_error == ""


def test_run_again_when_the_ladder_has_gone_on_it_touches_no_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    invoice = make_invoice()
    with monkeypatch.context() as deployed:
        deployed.setattr(f"{__name__}.broken", "no such customer")
        tick_at(DUE)
    first = capture_of(invoice)
    tick_at(DUE + WEEK)
    with travel(DUE + WEEK + DAY):
        assert services.rerun_hook(first)
    fresh = now_there(invoice)
    assert (fresh.rung, fresh.next_at) == ("warning", DUE + 2 * WEEK)


@pytest.fixture(params=[True, False], ids=["saved row by row", "updated"])
def _save_receiver(request: pytest.FixtureRequest) -> Iterator[None]:
    """A receiver of save signals has every column of a row written, not the changed ones."""

    def listen(**kwargs: Any) -> None:
        """Nothing."""

    if request.param:
        post_save.connect(listen, sender=Invoice)
    yield
    post_save.disconnect(listen, sender=Invoice)


@pytest.mark.usefixtures("_save_receiver")
def test_a_deadline_that_can_not_be_told_keeps_the_notice_and_the_hooks_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    invoice = make_invoice()
    tick_at(DUE, deliver=False)

    def no_calendar(invoice: Invoice, rung: Rung, sent_at: datetime) -> datetime:
        invoice.email = "changed@example.org"  # and then it fails: not to be saved
        raise LookupError("no calendar")

    with monkeypatch.context() as deployed:
        deployed.setattr(Invoice, "deadline_after", no_calendar)
        tick_at(DUE + DAY)
    assert capture_of(invoice).hook_error == "LookupError: no calendar"
    fresh = now_there(invoice)
    assert (fresh.next_at, fresh.customer) == (None, "reminder succeeded")
    assert fresh.email == "customer@example.org"

    with travel(DUE + 3 * DAY):
        assert services.rerun_hook(capture_of(invoice))
    assert now_there(invoice).next_at == DUE + DAY + WEEK
    for days in range(4, 8):
        tick_at(DUE + days * DAY)
    assert notices(invoice) == ["reminder"]
    tick_at(DUE + 8 * DAY)
    assert notices(invoice) == ["reminder", "warning"]
