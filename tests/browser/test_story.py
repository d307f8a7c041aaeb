"""A morning at the ladder: see what happened, hold one, decide what nobody knows."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from idempotent_actions.models import Capture
from idempotent_actions.testing import tick
from project.billing.models import Invoice
from tests.browser.watching import Watched
from tests.invoices import LADDER, climbed, make_invoice, now_there, trail

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

RTL = "\u05dc\u05e7\u05d5\u05d7"


def overdue(number: str = "INV-1", **columns: Any) -> Invoice:
    return make_invoice(number, due_at=timezone.now() - timedelta(days=1), **columns)


def unknown_charge() -> Capture:
    """A notice of which nobody can say whether it went out."""
    done = overdue("INV-0", customer=RTL)
    tick()
    capture = Capture.objects.about(done).get()
    error = {"class": "TimeoutError", "code": "", "message": "x" * 10_000}
    wait = {"state": "review", "finished_at": None, "waiting_for": "lapsed", "in_doubt": True}
    Capture.objects.filter(pk=capture.pk).update(**wait, error=error)
    return capture


def timeline_of(invoice: Invoice) -> str:
    return reverse("admin:idempotent_actions_subject", args=["billing.invoice", invoice.pk])


def confirmation_of(invoice: Invoice, act: str) -> str:
    name = "admin:idempotent_actions_subject_act"
    return reverse(name, args=["billing.invoice", invoice.pk, act])


def test_from_the_overview_to_a_held_invoice_and_a_decided_charge(watched: Watched) -> None:
    capture, invoice, page = unknown_charge(), overdue(), watched.page

    page.goto("/admin/")
    page.click("#content a:has-text('Overview')")
    assert "1 in review" in watched.text()
    watched.photograph("overview")
    assert watched.violations() == []

    page.click(f"tr:has-text('{LADDER}') a:has-text('Preview')")
    assert "reminder" in watched.text()
    watched.photograph("preview")
    assert watched.violations() == []

    page.click(f"a:has-text('billing.invoice:{invoice.pk}')")
    assert "it will escalate to reminder" in watched.text()
    watched.photograph("timeline")
    assert watched.violations() == []

    page.click("a:text-is('Hold')")
    page.fill("[name=reason]", "she promised to pay on Friday")
    until = timezone.now() + timedelta(days=3)
    page.fill("[name=until]", until.strftime("%Y-%m-%dT%H:%M"))
    watched.photograph("hold")
    assert watched.violations() == []
    page.click("input[type=submit]")
    assert "It is held." in page.inner_text("body")
    assert "she promised to pay on Friday" in watched.text()
    assert now_there(invoice).hold_reason == "she promised to pay on Friday"

    page.goto(reverse("admin:idempotent_actions_preview", args=[LADDER]))
    assert f"billing.invoice:{invoice.pk}" not in watched.text()

    page.goto(reverse("admin:idempotent_actions_overview_changelist"))
    page.click("li:has-text('in review') a")
    watched.photograph("captures")
    assert watched.violations() == []
    page.click("#result_list tbody th a")
    watched.photograph("capture")
    assert watched.violations() == []

    page.click("a:text-is('Mark succeeded')")
    page.fill("[name=provider_ref]", "pi_123")
    page.fill("[name=note]", "seen in the provider's list")
    watched.photograph("decide")
    assert watched.violations() == []
    page.click("input[type=submit]")
    capture.refresh_from_db()
    assert (capture.state, capture.provider_ref) == ("succeeded", "pi_123")
    assert capture.decisions.get().actor == "ada"


def test_t5_a_double_clicked_button_climbs_one_rung(watched: Watched) -> None:
    invoice, page = overdue(), watched.page
    page.goto(confirmation_of(invoice, "escalate"))
    page.fill("[name=reason]", "she asked for it")
    with page.expect_navigation(url=f"**{timeline_of(invoice)}"):
        page.dblclick("input[type=submit]")
    page.wait_for_load_state()
    tick()
    assert climbed(invoice) == ["reminder"]
    assert Capture.objects.about(invoice).count() == 1


def test_a_second_window_posted_after_the_first_is_told_so(watched: Watched) -> None:
    invoice = overdue()
    windows = [watched.page, watched.tab()]
    for page in windows:
        page.goto(confirmation_of(invoice, "escalate"))
        page.fill("[name=reason]", "she asked for it")
    for page in windows:
        page.click("input[type=submit]")
    first, second = (page.inner_text(".messagelist") for page in windows)
    assert "It has climbed to reminder." in first
    assert "It has moved since you looked: nothing was done." in second
    assert climbed(invoice) == ["reminder"]


def test_a_confirmation_posted_after_a_tick_has_climbed_is_one_rung(watched: Watched) -> None:
    invoice, page = overdue(), watched.page
    page.goto(confirmation_of(invoice, "escalate"))
    page.fill("[name=reason]", "she asked for it")
    tick()
    page.click("input[type=submit]")
    assert "It has moved since you looked" in page.inner_text(".messagelist")
    assert trail(invoice) == ["escalate reminder"]


def test_a_form_opened_at_one_rung_and_saved_after_a_tick_changes_neither(watched: Watched) -> None:
    invoice, page = overdue(), watched.page
    page.goto(reverse("admin:billing_invoice_change", args=[invoice.pk]))
    watched.photograph("invoice")
    page.fill("[name=customer]", "New Name")
    tick()
    before = now_there(invoice)
    page.click("[name=_save]")
    page.wait_for_selector(".messagelist")
    there = now_there(invoice)
    assert there.customer == "New Name"
    assert (there.status, there.rung, there.next_at) == ("escalated", "reminder", before.next_at)


@pytest.mark.parametrize(
    "name", ["escalation", "run", "pause", "lease", "deferredcall", "capture", "overview"]
)
def test_every_list_can_be_read_by_everybody(watched: Watched, name: str, admin: User) -> None:
    unknown_charge()
    watched.page.goto(reverse(f"admin:idempotent_actions_{name}_changelist"))
    watched.photograph(f"list-{name}")
    assert watched.violations() == []


def test_a_pause_is_set_and_lifted(watched: Watched) -> None:
    invoice, page = overdue(), watched.page
    page.goto(reverse("admin:idempotent_actions_pause_set"))
    page.select_option("[name=what]", f"action:{LADDER}")
    page.fill("[name=reason]", "the provider is down")
    watched.photograph("pause")
    assert watched.violations() == []
    page.click("input[type=submit]")
    tick()
    assert trail(invoice) == []
    page.click("a:has-text('Lift')")
    page.fill("[name=reason]", "it is back")
    watched.photograph("lift")
    assert watched.violations() == []
    page.click("input[type=submit]")
    page.wait_for_selector(".messagelist")
    tick()
    assert trail(invoice) == ["escalate reminder"]
