"""The mail sandbox, driven by the standard library's SMTP client: what it keeps, and its faults."""

import os
import signal
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from project.sandbox.mail_book import MailFault
from project.sandbox.running import MailSandbox, Message, mail_sandbox
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent

HANG = 0.5
"""Seconds that a client waits for an answer where it is to wait in vain."""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[MailSandbox]:
    with mail_sandbox(tmp_path) as sandbox:
        yield sandbox


def send(
    sandbox: MailSandbox, *recipients: str, subject: str = "Reminder", timeout: float = 30
) -> None:
    """Send one message from the shop, to Ann unless `recipients` say otherwise."""
    message = EmailMessage()
    message["From"] = "shop@example.com"
    message["To"] = ", ".join(recipients or ["ann@example.com"])
    message["Subject"] = subject
    message["Message-ID"] = "<invoice-42.reminder@example.com>"
    message.set_content("Please pay.\n.\nThank you — the shop\n")
    with smtplib.SMTP("127.0.0.1", sandbox.port, timeout=timeout) as smtp:
        smtp.send_message(message)


def test_an_accepted_message_is_kept_as_it_came(sandbox: MailSandbox) -> None:
    send(sandbox, "ann@example.com", "bob@example.com", subject="Überfällig: 42")
    assert sandbox.messages() == [
        Message(
            sender="shop@example.com",
            recipients=["ann@example.com", "bob@example.com"],
            subject="Überfällig: 42",
            message_id="<invoice-42.reminder@example.com>",
            body="Please pay.\n.\nThank you — the shop\n",
        )
    ]


def test_a_message_sent_twice_is_kept_twice(sandbox: MailSandbox) -> None:
    send(sandbox)
    send(sandbox)
    assert len(sandbox.messages()) == 2


def test_a_message_may_have_next_to_nothing_in_it(sandbox: MailSandbox) -> None:
    with smtplib.SMTP("127.0.0.1", sandbox.port) as smtp:
        smtp.sendmail("", ["ann@example.com"], "")
    [message] = sandbox.messages()
    assert (message.sender, message.subject, message.message_id) == ("<>", "", "")


def test_many_at_once_are_all_kept(sandbox: MailSandbox) -> None:
    subjects = [str(number) for number in range(40)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda subject: send(sandbox, subject=subject), subjects))
    assert sorted(each.subject for each in sandbox.messages()) == sorted(subjects)


def test_a_connection_may_be_refused(sandbox: MailSandbox) -> None:
    sandbox.fault("refuse_connection", times=1)
    with pytest.raises(smtplib.SMTPConnectError) as caught:
        send(sandbox)
    assert caught.value.smtp_code == 421
    assert sandbox.messages() == []
    send(sandbox)
    assert len(sandbox.messages()) == 1


@pytest.mark.parametrize(("fault", "code"), [("refuse_recipient", 550), ("defer_recipient", 450)])
def test_one_recipient_may_be_refused(sandbox: MailSandbox, fault: MailFault, code: int) -> None:
    sandbox.fault(fault, recipient="ann@")
    with pytest.raises(smtplib.SMTPRecipientsRefused) as caught:
        send(sandbox)
    assert caught.value.recipients["ann@example.com"][0] == code
    assert sandbox.messages() == []
    send(sandbox, "ann@example.com", "bob@example.com")
    assert [each.recipients for each in sandbox.messages()] == [["bob@example.com"]]


def test_all_recipients_may_be_deferred_for_a_while(sandbox: MailSandbox) -> None:
    sandbox.fault("defer_recipient", times=2)
    for _ in range(2):
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            send(sandbox)
    send(sandbox)
    assert len(sandbox.messages()) == 1


@pytest.mark.parametrize(
    ("fault", "accepted"),
    [("hang_before", 0), ("hang_after", 1), ("drop_before", 0), ("drop_after", 1)],
)
def test_a_lost_answer_says_nothing(sandbox: MailSandbox, fault: MailFault, accepted: int) -> None:
    sandbox.fault(fault, times=1)
    with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected)):
        send(sandbox, timeout=HANG)
    until(lambda: len(sandbox.messages()) == accepted, "what it accepted")
    send(sandbox)
    assert len(sandbox.messages()) == accepted + 1


def test_a_client_that_gave_up_while_it_hung_has_sent_nothing(sandbox: MailSandbox) -> None:
    sandbox.fault("hang_before", times=1, seconds=2 * HANG)
    with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected)):
        send(sandbox, timeout=HANG)
    sandbox.fault("hang_before", times=1, seconds=4 * HANG)
    send(sandbox, subject="later")
    assert [each.subject for each in sandbox.messages()] == ["later"]


@pytest.mark.parametrize("fault", ["hang_before", "hang_after"])
def test_a_client_that_waits_long_enough_is_told(sandbox: MailSandbox, fault: MailFault) -> None:
    sandbox.fault(fault, seconds=HANG)
    send(sandbox)
    assert len(sandbox.messages()) == 1


def test_a_kill_between_accepting_and_saying_so_keeps_the_message(sandbox: MailSandbox) -> None:
    sandbox.fault("hang_after", times=1)
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(send, sandbox)
        until(sandbox.messages, "the message")
        port = sandbox.port
        sandbox.kill()
        assert isinstance(sending.exception(timeout=30), OSError)
    assert len(sandbox.messages()) == 1
    sandbox.start()
    assert sandbox.port == port
    send(sandbox)
    assert len(sandbox.messages()) == 2


def test_an_unknown_fault_is_refused(sandbox: MailSandbox) -> None:
    wrong: Any = "explode"
    with pytest.raises(ValueError, match="refuse_connection"):
        sandbox.fault(wrong)


def test_a_reset_forgets_everything_and_the_fault(sandbox: MailSandbox) -> None:
    send(sandbox)
    sandbox.fault("refuse_connection")
    sandbox.reset()
    assert sandbox.messages() == []
    send(sandbox)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["payment_sandbox", "mail_sandbox"])
def test_a_command_needs_no_database_and_runs_until_it_is_told_to_stop(
    tmp_path: Path, name: str, ending: signal.Signals
) -> None:
    where = ["--port", "0", "--file", str(tmp_path / "file.sqlite3")]
    with subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), name, *where],
        env={**os.environ, "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing"},
        stdin=subprocess.DEVNULL,  # as of a service: no parent to end with
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("listening on ")
        process.send_signal(ending)
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == ""
