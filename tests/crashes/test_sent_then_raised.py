"""Trial T13: it was sent, then something raised, and the subject was changed in the middle."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from idempotent_actions import services
from idempotent_actions.testing import tick
from project.billing.models import Invoice
from tests.crashes import notices, provider
from tests.crashes.notices import Notices, capture_of, overdue_invoice
from tests.crashes.recovering import tick_after
from tests.crashes.table import POLICIES
from tests.hosts.moments import elsewhere
from tests.invoices import climbed, now_there


def raise_after_it_was_sent(call: Any) -> None:
    raise ConnectionError("the line broke after the provider had acted")


def change_the_subject(call: Any) -> None:
    """A clerk corrects the bill on another connection, and waits for no lock."""

    def correct() -> None:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1s'")
            Invoice.objects.select_for_update().get()
            Invoice.objects.update(amount=Decimal(7), email="corrected@example.org")

    elsewhere(correct)


@pytest.mark.parametrize("policy", POLICIES)
def test_t13_an_effect_that_was_sent_and_then_raised_is_one_message_in_three_ticks(
    policy: str,
) -> None:
    invoice = overdue_invoice(policy=policy)
    notices.before.append(change_the_subject)
    notices.after.append(raise_after_it_was_sent)

    tick(Notices)
    assert list(provider.done().values()) == [1]
    assert capture_of(invoice).state == ("review" if policy == "Park" else "unknown")
    tick_after([2, 10])

    assert list(provider.done().values()) == [1]
    assert list(provider.calls().values()) == [2 if policy == "Replay" else 1]
    assert climbed(invoice) == ["reminder"]
    there = now_there(invoice)
    assert (there.amount, there.email) == (Decimal(7), "corrected@example.org")
    assert (there.next_at is None) == (policy == "Park")
    assert capture_of(invoice).state == ("review" if policy == "Park" else "succeeded")


def test_t13_a_settled_effect_leaves_what_others_wrote_into_its_subject_meanwhile() -> None:
    invoice = overdue_invoice()
    notices.before.append(change_the_subject)

    tick(Notices)

    there = now_there(invoice)
    assert capture_of(invoice).state == "succeeded"
    assert (there.amount, there.email) == (Decimal(7), "corrected@example.org")
    assert there.next_at is not None


def test_t13_a_hook_that_raises_after_the_settle_began_sends_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def settled(self: Notices, subject: Invoice, capture: Any) -> None:
        subject.amount = Decimal(0)
        raise OperationalError("the host's own table is missing")

    monkeypatch.setattr(Notices, "settled", settled)
    invoice = overdue_invoice()

    tick(Notices)
    tick_after([2, 10, 100])

    capture = capture_of(invoice)
    assert (capture.state, list(provider.calls().values())) == ("succeeded", [1])
    assert "the host's own table is missing" in capture.hook_error
    assert now_there(invoice).amount == Decimal(100)
    assert now_there(invoice).next_at is not None
    monkeypatch.undo()
    assert services.rerun_hook(capture)
    assert capture_of(invoice).hook_error == ""
