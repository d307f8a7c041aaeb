"""The admin of the example, and of the app in it: what a superuser sees, and may not do."""

from typing import Any

import pytest
from django.db import models
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from idempotent_actions import captures, testing
from idempotent_actions.admin import subject_page
from idempotent_actions.models import Capture, Escalation, Run
from idempotent_actions.models.ladder import OWN_COLUMNS
from project.billing.effects import charge_order, send_dunning_notice
from project.billing.factories import InvoiceFactory
from project.billing.models import Invoice, Order
from project.school.factories import InterventionFactory
from project.school.models import Intervention

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def two_subjects_have_climbed() -> None:
    InvoiceFactory.create(number="2026-17")
    InterventionFactory.create(student="Ada")
    Order.objects.create(number="1", amount=1, payment_method="pm", capture_at=timezone.now())
    testing.tick("escalate_overdue:billing.invoice", "escalate_overdue:school.intervention")


def url(model: type[models.Model], page: str, *arguments: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=arguments)


def text(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("model", [Invoice, Intervention, Order, Capture, Escalation, Run])
def test_the_list_and_each_row_open(admin_client: Client, model: type[models.Model]) -> None:
    text(admin_client, url(model, "changelist"))
    rows = model._default_manager.all()
    assert rows
    for row in rows:
        text(admin_client, url(model, "change", row.pk))


@pytest.mark.parametrize("model", [Invoice, Intervention])
def test_an_audit_row_links_to_its_subject_and_the_link_opens(
    admin_client: Client, model: type[models.Model]
) -> None:
    subject = model._default_manager.get()
    page = subject_page("admin", subject._meta.label_lower, str(subject.pk))
    link = f'href="{page}"'
    audit = Escalation.objects.about(subject).get()
    assert link in text(admin_client, url(Escalation, "changelist"))
    assert link in text(admin_client, url(Escalation, "change", audit.pk))
    assert url(model, "change", subject.pk) in text(admin_client, page)


@pytest.mark.parametrize(
    ("model", "found", "not_found"),
    [
        (Invoice, "rung=reminder&q=2026", "rung=warning"),
        (Invoice, "status__exact=escalated", "status__exact=open"),
        (Intervention, "rung=parent_notice&q=Ada", "rung=counselor_referral"),
        (Intervention, "status__exact=escalated", "q=Grace"),
    ],
)
def test_subjects_are_found_by_status_rung_and_name(
    admin_client: Client, model: type[models.Model], found: str, not_found: str
) -> None:
    link = url(model, "change", model._default_manager.get().pk)
    changelist = url(model, "changelist")
    assert link in text(admin_client, f"{changelist}?{found}")
    assert link not in text(admin_client, f"{changelist}?{not_found}")


@pytest.mark.parametrize(
    ("model", "rung"), [(Invoice, "reminder"), (Intervention, "parent_notice")]
)
def test_the_ladder_is_shown_as_text_and_offered_as_filters(
    admin_client: Client, model: type[models.Model], rung: str
) -> None:
    page = text(admin_client, url(model, "change", model._default_manager.get().pk))
    for name in OWN_COLUMNS:
        assert f"field-{name}" in page
        assert f'name="{name}' not in page
    assert f'<div class="readonly">{rung}</div>' in page
    changelist = text(admin_client, url(model, "changelist"))
    assert f'href="?rung={rung}"' in changelist
    assert 'href="?status__exact=escalated"' in changelist


def test_the_form_changes_a_subjects_own_facts_and_not_its_place_on_the_ladder(
    admin_client: Client,
) -> None:
    invoice = Invoice.objects.get()
    form = {
        "number": invoice.number,
        "customer": "A new name",
        "email": invoice.email,
        "amount": "12.50",
        "status": "exhausted",
        "rung": "final_notice",
        "cycle": "9",
        "hold_reason": "forged",
    }
    response = admin_client.post(url(Invoice, "change", invoice.pk), form)
    assert response.status_code == 302
    after = Invoice.objects.get()
    assert (after.customer, after.due_at) == ("A new name", None)
    ladder = (after.status, after.rung, after.cycle, after.hold_reason, after.next_at)
    assert ladder == ("escalated", "reminder", 1, "", invoice.next_at)


@pytest.mark.parametrize("model", [Capture, Escalation, Run])
@pytest.mark.parametrize("page", ["add", "change", "delete"])
def test_not_even_a_superuser_writes_what_was_recorded(
    admin_client: Client, model: type[models.Model], page: str
) -> None:
    before = list(model._default_manager.order_by("pk").values())
    address = url(model, page) if page == "add" else url(model, page, before[0]["id"])
    response = admin_client.post(address, {"post": "yes", "action": "forged", "reason": "forged"})
    assert response.status_code == 403
    assert list(model._default_manager.order_by("pk").values()) == before


@pytest.mark.parametrize("model", [Capture, Escalation, Run])
def test_the_lists_bulk_deletion_is_not_offered_and_does_nothing(
    admin_client: Client, model: type[models.Model]
) -> None:
    pks = list(model._default_manager.values_list("pk", flat=True))
    form = {"action": "delete_selected", "_selected_action": pks, "post": "yes"}
    assert "delete_selected" not in text(admin_client, url(model, "changelist"))
    admin_client.post(url(model, "changelist"), form)
    assert model._default_manager.count() == len(pks)


def test_a_capture_shows_its_parameters_but_for_the_secret_ones(admin_client: Client) -> None:
    params = {"order": "order-4711", "payment_method": "pm_sesame", "amount": 1, "currency": "eur"}
    capture = captures.request(charge_order, key="shown", params=params)
    page = text(admin_client, url(Capture, "change", capture.pk))
    assert "order-4711" in page
    assert capture.provider_key in page
    assert "pm_sesame" not in page
    assert "pm_sesame" not in text(admin_client, url(Capture, "changelist"))


def test_of_an_effect_that_is_gone_no_parameter_is_shown(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = captures.request(send_dunning_notice, key="shown", params={"to": "ann@example.org"})
    address = url(Capture, "change", capture.pk)
    assert "ann@example.org" in text(admin_client, address)
    monkeypatch.setattr("idempotent_actions.admin.captures.find_effect", lambda name: None)
    assert "ann@example.org" not in text(admin_client, address)
