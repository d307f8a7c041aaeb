"""The partner's ledger and the search index: the queue is tidy, and an entry is written once."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import transaction
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ

from idempotent_actions import clock, crashpoints, services
from idempotent_actions.deferring import hand_out
from idempotent_actions.leases import take
from idempotent_actions.models import Capture
from idempotent_actions.models.lease import DeferredCall
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from project.partners import jobs
from project.partners.effects import post_invoice
from project.partners.jobs import ask_for_refresh, ask_for_sync, sync_invoice
from project.partners.ledger import Entry, PartnerLedger, partner_ledger
from project.partners.models import SearchEntry
from tests.invoices import make_invoice
from tests.processes import Children, Meet
from tests.queueing.worker import deliver_again, queued, work
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, settings: Any) -> PartnerLedger:
    settings.PARTNER_LEDGER = str(tmp_path / "partner.sqlite3")
    return partner_ledger()


def amounts(invoice: Invoice) -> list[int]:
    """What the partner was told, in whole units, in the order it came."""
    return [int(entry.amount) for entry in partner_ledger().entries(invoice.number)]


def state() -> str:
    return str(Capture.objects.get().state)


# -- the noise filters


def test_two_requests_for_one_invoice_make_one_task_and_one_entry() -> None:
    invoice = make_invoice(17)
    for _ in range(2):
        ask_for_sync(invoice)
    assert queued() == 1
    work()
    assert amounts(invoice) == [100]
    assert partner_ledger().requests() == 1


def test_each_invoice_has_a_task_of_its_own() -> None:
    first, second = make_invoice(1), make_invoice(2)
    for invoice in (first, second):
        ask_for_sync(invoice)
    work()
    assert amounts(first) == amounts(second) == [100]


def test_a_request_that_is_rolled_back_was_never_made() -> None:
    invoice = make_invoice()
    with transaction.atomic():
        ask_for_sync(invoice)
        transaction.set_rollback(True)
    assert queued() == 0
    ask_for_sync(invoice)
    assert queued() == 1


def test_a_change_after_the_sync_has_begun_is_asked_for_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    invoice = make_invoice()
    post = PartnerLedger.post

    def post_while_the_amount_changes(self: PartnerLedger, key: str, entry: Entry) -> str:
        if Invoice.objects.filter(amount=100).update(amount=120):
            ask_for_sync(invoice)
        return post(self, key, entry)

    monkeypatch.setattr(PartnerLedger, "post", post_while_the_amount_changes)
    ask_for_sync(invoice)
    work()
    assert amounts(invoice) == [100, 120]


def test_a_sync_that_meets_another_is_made_when_that_is_through() -> None:
    invoice = make_invoice()
    busy = take(
        f"no_overlap:{sync_invoice.__module__}.sync_invoice:{invoice.pk}", jobs.SYNCED_AT_MOST
    )
    assert busy is not None
    ask_for_sync(invoice)
    work()
    assert amounts(invoice) == []
    assert busy.release()
    with travel(clock.now() + timedelta(minutes=2)):
        hand_out()
        work()
    assert amounts(invoice) == [100]


# -- the guarantee, which is the capture's


def test_a_task_that_is_delivered_twice_writes_one_entry() -> None:
    invoice = make_invoice()
    ask_for_sync(invoice)
    (row,) = OrmQ.objects.all()
    work()
    OrmQ.objects.create(key=row.key, payload=row.payload, lock=row.lock)
    work()
    assert amounts(invoice) == [100]
    assert partner_ledger().requests() == 1


def test_without_any_filter_there_is_one_entry_all_the_same() -> None:
    """The filters are noise filters: taken away, they are not missed."""
    invoice = make_invoice()
    bare: Callable[[int], dict[str, Any]] = sync_invoice.__wrapped__  # type: ignore[attr-defined]
    for _ in range(5):
        together(*[lambda: bare(invoice.pk)] * 4)
    assert amounts(invoice) == [100]
    assert state() == "succeeded"


def begin_and_be_killed(meet: Meet, file: str) -> None:
    """Runs in a child: a worker that writes the entry and comes no further."""

    def stop(point: str) -> None:
        if point == "after_effect":
            meet()

    crashpoints.install(stop)
    with override_settings(PARTNER_LEDGER=file):
        work()


@pytest.fixture
def killed(settings: Any) -> Invoice:
    """An invoice whose worker was killed between the write and the note of it."""
    invoice = make_invoice()
    ask_for_sync(invoice)
    target = f"{__name__}.{begin_and_be_killed.__name__}"
    with Children(target, [settings.PARTNER_LEDGER]) as children:
        children.gather()  # and at the block's end it is killed
    assert amounts(invoice) == [100]
    assert state() == "sending"
    return invoice


def lease_is_over() -> Any:
    wake_at = Capture.objects.get().wake_at
    assert wake_at is not None
    return travel(wake_at)


def test_a_worker_killed_after_the_write_leaves_one_entry_when_delivery_has_recovered_it(
    killed: Invoice,
) -> None:
    services.deliver(workers=0)
    assert state() == "sending", "the dead one's lease still holds"
    with lease_is_over():
        services.deliver(workers=0)
    assert state() == "succeeded"
    assert amounts(killed) == [100]
    assert partner_ledger().requests() == 2, "it was asked again, by the key that it knows"


def test_a_worker_killed_after_the_write_leaves_one_entry_when_its_task_comes_again(
    killed: Invoice,
) -> None:
    deliver_again()
    (answer,) = work()
    assert answer["skipped"] == "busy", "the dead one's lease still holds"
    with lease_is_over():
        hand_out()
        work()
    assert state() == "succeeded"
    assert amounts(killed) == [100]
    assert partner_ledger().requests() == 2


# -- what is news


def test_an_amount_that_is_changed_and_changed_back_is_news_both_times() -> None:
    invoice = make_invoice()
    for amount in (100, 120, 120, 100, 100):
        Invoice.objects.update(amount=amount)
        for _ in range(2):
            sync_invoice(invoice.pk)
    assert amounts(invoice) == [100, 120, 100]
    assert partner_ledger().standing(invoice.number) == Entry("1", 3, Decimal(100), paid=False)


def test_a_payment_is_news() -> None:
    invoice = make_invoice()
    sync_invoice(invoice.pk)
    Invoice.objects.update(paid_at=timezone.now())
    sync_invoice(invoice.pk)
    assert [entry.paid for entry in partner_ledger().entries("1")] == [False, True]


def test_another_number_is_news() -> None:
    invoice = make_invoice(1)
    sync_invoice(invoice.pk)
    Invoice.objects.update(number="2")
    sync_invoice(invoice.pk)
    assert partner_ledger().standing("2") == Entry("2", 2, Decimal(100), paid=False)


def test_what_the_partner_isnt_told_is_none() -> None:
    invoice = make_invoice()
    sync_invoice(invoice.pk)
    Invoice.objects.update(customer="Another name")
    sync_invoice(invoice.pk)
    assert amounts(invoice) == [100]


def test_an_invoice_that_is_gone_is_left_out() -> None:
    invoice = make_invoice()
    ask_for_sync(invoice)
    pk = invoice.pk
    invoice.delete()
    work()
    assert sync_invoice(pk) == {"skipped": "gone", "invoice": pk}
    assert not Capture.objects.exists()


def test_an_older_version_that_arrives_late_does_not_count(ledger: PartnerLedger) -> None:
    newer, older = (Entry("1", version, Decimal(version), paid=False) for version in (2, 1))
    ledger.post("newer", newer)
    ledger.post("older", older)
    assert ledger.entries("1") == [newer, older]
    assert ledger.standing("1") == newer


def test_the_partner_refuses_a_key_that_stands_for_another_entry(ledger: PartnerLedger) -> None:
    invoice = make_invoice()
    params = {"number": "1", "version": 1, "amount": Decimal(100), "paid": False}
    capture = services.request(post_invoice, key="k", params=params)
    ledger.post(capture.provider_key, Entry("other", 1, Decimal(1), paid=False))
    services.deliver(workers=0)
    assert state() == "failed"
    assert Capture.objects.get().error["code"] == "key_taken"  # type: ignore[index]
    assert amounts(invoice) == []


# -- the search index


def found(words: str) -> list[str]:
    return [entry.number for entry in SearchEntry.objects.matching(words)]


def refresh_when_due() -> int:
    """The deliveries of the next minutes, and a worker behind them; how many refreshes it made."""
    start, made = clock.now(), 0
    for minute in range(1, 7):
        with travel(start + timedelta(minutes=minute)):
            hand_out()
            made += queued()
            work()
    return made


def test_fifty_requests_are_one_refresh() -> None:
    for number in range(50):
        with transaction.atomic():
            make_invoice(number)
            ask_for_refresh()
    assert queued() == 0
    assert found("customer") == [], "the burst isn't over"
    assert refresh_when_due() == 1
    assert len(found("customer")) == 50
    assert not DeferredCall.objects.exists()


def test_a_burst_that_does_not_end_puts_a_refresh_off_for_five_minutes() -> None:
    make_invoice()
    start = clock.now()
    for quarter in range(20):
        with travel(start + quarter * timedelta(seconds=15)):
            ask_for_refresh()
            hand_out()
        assert queued() == 0
    with travel(start + timedelta(minutes=5)):
        ask_for_refresh()
        hand_out()
        work()
    assert found("1") == ["1"]


def test_a_refresh_follows_what_was_changed_and_what_is_gone() -> None:
    make_invoice(1, customer="Ada Lovelace")
    gone = make_invoice(2, customer="Charles Babbage")
    jobs.refresh_search()
    assert (found("LOVE ada"), found("babbage")) == (["1"], ["2"])
    gone.delete()
    Invoice.objects.update(customer="Countess Lovelace")
    assert jobs.refresh_search() == {"entries": 1}
    assert (found("ada"), found("babbage"), found("countess")) == ([], [], ["1"])


# -- the ways in


CHANGELIST = reverse("admin:billing_invoice_changelist")


def click(client: Client, *invoices: Invoice) -> None:
    pks = [invoice.pk for invoice in invoices]
    client.post(CHANGELIST, {"action": "sync_with_partner", "_selected_action": pks})


def test_a_double_click_in_the_admin_is_one_task_for_each_invoice(admin_client: Client) -> None:
    both = make_invoice(1), make_invoice(2)
    click(admin_client, *both)
    click(admin_client, *both)
    assert queued() == 2
    work()
    assert [amounts(invoice) for invoice in both] == [[100], [100]]


@pytest.mark.parametrize(("may", "tasks"), [("view_invoice", 0), ("change_invoice", 1)])
def test_only_who_may_change_invoices_may_sync_them(client: Client, may: str, tasks: int) -> None:
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename=may))
    client.force_login(user)
    click(client, make_invoice())
    assert queued() == tasks


def test_an_invoice_changed_or_deleted_in_the_admin_is_found_anew(admin_client: Client) -> None:
    invoice = make_invoice()
    form = {"number": "1", "customer": "Ada", "email": "ada@example.org", "amount": "1"}
    admin_client.post(reverse("admin:billing_invoice_change", args=[invoice.pk]), form)
    assert refresh_when_due() == 1
    assert found("ada") == ["1"]
    admin_client.post(reverse("admin:billing_invoice_delete", args=[invoice.pk]), {"post": "yes"})
    assert refresh_when_due() == 1
    assert found("ada") == []
