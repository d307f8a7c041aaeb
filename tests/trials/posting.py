"""The notices of an invoice as the trials count them: at the post, outside of everything."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from idempotent_actions import Receipt, effect, testing
from idempotent_actions.actions import Step
from idempotent_actions.effects import Call, Intent
from idempotent_actions.models import Capture
from project.billing.actions import EscalateInvoices
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import LADDER

__all__ = ["DAY", "HOUR", "WEEK", "PostNotices", "capture_of", "notices", "post", "tick_at"]

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)


@effect(name="trials.post", timeout=timedelta(seconds=10))
def post(call: Call) -> Receipt:
    """Post the notice of a rung. The post knows no keys: asked twice, it carries two."""
    params = call.params
    with outside.reached():
        ref = outside.do(
            "notice", params["number"], call.idempotency_key, rung=params["rung"],
            amount=params["amount"],
        )  # fmt: skip
    return Receipt(ref)


class PostNotices(EscalateInvoices):
    """The ladder of invoices, with a notice at each rung."""

    def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
        if step.rung:
            yield post(number=invoice.number, rung=step.rung.name, amount=invoice.amount)


def tick_at(now: datetime, *, deliver: bool = True) -> None:
    """One tick of the invoices' ladder; a failed row fails the test."""
    with testing.travel(now):
        testing.tick(LADDER, deliver=deliver)


def notices(invoice: Invoice) -> list[str]:
    """The rungs whose notice the post has really carried, in order."""
    return [each.details["rung"] for each in outside.deeds("notice", invoice.number)]


def capture_of(invoice: Invoice) -> Capture:
    """The newest capture of an invoice."""
    return Capture.objects.about(invoice).latest("id")
