"""Dunning and no-show notices over a real SMTP dialogue, by the mail server's own count."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.mail import EmailMessage
from django.test import override_settings

from idempotent_actions import NotSent, mail, services
from idempotent_actions.effects import Call
from idempotent_actions.models import Capture
from idempotent_actions.testing import tick, travel
from project import mail_settings
from project.billing.models import Invoice
from project.sandbox.mail_book import MailFault
from project.sandbox.running import MailSandbox, mail_sandbox
from project.school.models import Intervention
from tests.asking import DAY, WEEK
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailSandbox]:
    monkeypatch.setattr(mail_settings, "SOCKET_TIMEOUT", 0.5)  # seconds
    with (
        mail_sandbox(tmp_path) as sandbox,
        override_settings(**mail_settings.mail_settings("127.0.0.1", sandbox.port)),
    ):
        yield sandbox


def tick_at(weeks: float) -> None:
    with travel(DUE + weeks * WEEK):
        tick(LADDER)


def test_each_rung_sends_its_own_text_once_and_the_end_sends_none(server: MailSandbox) -> None:
    invoice = make_invoice("2026-17", customer="Smith & Sons")
    for day in range(60):
        tick_at(day / 7)
    subjects = [message.subject for message in server.messages()]
    assert subjects == [
        "Reminder: invoice 2026-17",
        "Second reminder: invoice 2026-17",
        "Final notice: invoice 2026-17",
    ]
    first = server.messages()[0]
    assert first.recipients == ["customer@example.org"]
    assert "Dear Smith & Sons," in first.body  # a text, not escaped as if it were HTML
    assert "100.00 EUR was due on March 2, 2026" in first.body
    assert now_there(invoice).status == "exhausted"


def test_the_message_id_is_made_of_the_provider_key(server: MailSandbox) -> None:
    make_invoice()
    tick_at(0)
    (message,) = server.messages()
    capture = Capture.objects.get()
    assert message.message_id == f"<{capture.provider_key}@example.com>" == capture.provider_ref


def test_a_no_show_is_written_home_about(server: MailSandbox) -> None:
    Intervention.objects.create(
        student="Kim", programme="Reading", guardian_email="home@example.org", due_at=DUE
    )
    for day in range(30):
        with travel(DUE + day * DAY):
            tick("escalate_overdue:school.intervention")
    assert [message.subject for message in server.messages()] == [
        "Kim missed a session",
        "Kim is referred to the counselor",
        "Review: Kim",
    ]


# What the server does, and: mails taken by it, the capture's state, the state after it is well.
FAULTS: dict[MailFault, tuple[int, str, str]] = {
    "refuse_connection": (0, "pending", "succeeded"),
    "defer_recipient": (0, "pending", "succeeded"),
    "refuse_recipient": (0, "failed", "failed"),
    "hang_before": (0, "review", "review"),
    "drop_before": (0, "review", "review"),
    "hang_after": (1, "review", "review"),
    "drop_after": (1, "review", "review"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_way_to_fail_leaves_what_is_certain(fault: MailFault, server: MailSandbox) -> None:
    invoice = make_invoice()
    taken, state, state_later = FAULTS[fault]
    server.fault(fault)
    tick_at(0)
    assert (len(server.messages()), Capture.objects.get().state) == (taken, state)
    assert now_there(invoice).next_at is None

    server.fault("")
    for day in range(1, 5):
        tick_at(day / 7)
    assert Capture.objects.get().state == state_later
    assert len(server.messages()) == (1 if state_later == "succeeded" else taken)
    for day in range(5, 40):
        tick_at(day / 7)
    # No rung is climbed while a person has yet to decide about the one below.
    assert climbed(invoice)[1:2] == (["warning"] if state_later == "succeeded" else [])


def test_a_person_who_finds_the_mail_in_the_log_lets_the_ladder_go_on(server: MailSandbox) -> None:
    invoice = make_invoice()
    server.fault("drop_after", times=1)
    tick_at(0)
    capture = Capture.objects.get()
    (message,) = server.messages()
    with travel(DUE + DAY):
        decided = services.mark_succeeded(
            capture, provider_ref=message.message_id, note="seen in the log", by="ann"
        )
    assert decided
    assert now_there(invoice).next_at == DUE + DAY + WEEK
    tick_at(2)
    assert climbed(invoice) == ["reminder", "warning"]


def test_an_address_that_is_none_fails_for_good_before_anything_is_sent(
    server: MailSandbox,
) -> None:
    make_invoice(email="somebody\nBcc: everybody@example.org")
    tick_at(0)
    capture = Capture.objects.get()
    assert capture.state == "failed"
    assert server.messages() == []


def test_a_mail_server_that_is_down_for_a_month_gets_one_notice_when_it_is_back(
    server: MailSandbox,
) -> None:
    invoice = make_invoice()
    server.kill()
    for day in range(30):
        tick_at(day / 7)
    assert climbed(invoice) == ["reminder"]
    assert Invoice.objects.get().next_at is None
    server.start()
    tick_at(30 / 7)
    assert [message.subject for message in server.messages()] == ["Reminder: invoice 1"]
    sent_at = DUE + timedelta(days=30)
    assert now_there(invoice).next_at == sent_at + WEEK
    tick_at(36.9 / 7)
    assert len(server.messages()) == 1
    tick_at(37 / 7)
    assert len(server.messages()) == 2


@pytest.mark.parametrize("email", ["", " "])
def test_a_notice_without_an_address_is_refused(email: str, server: MailSandbox) -> None:
    make_invoice(email=email)
    tick_at(0)
    capture = Capture.objects.get()
    assert capture.state == "failed"
    assert capture.error is not None
    assert capture.error["code"] == "no_recipient"


def test_a_server_that_takes_connections_and_never_speaks_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(mail_settings, "SOCKET_TIMEOUT", None)  # as Django is without settings
        port = silent.getsockname()[1]
        with (
            override_settings(**mail_settings.mail_settings("127.0.0.1", port)),
            pytest.raises(NotSent),
        ):
            mail.send(_call(timeout=0.2), EmailMessage("s", "t", None, ["a@example.org"]))


def _call(timeout: float) -> Call:
    return Call(params={}, idempotency_key="k", timeout=timeout, key="k")
