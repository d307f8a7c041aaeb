"""What a shell or a crontab sees of delivery: real processes, real exit statuses."""

import json

import pytest

from idempotent_actions import services
from idempotent_actions.models import Capture
from tests.hosts import outside
from tests.hosts.report.effects import mail_report
from tests.processes import manage

pytestmark = pytest.mark.django_db(transaction=True)


def mail(to: str) -> Capture:
    params = {"recipient": 1, "to": to, "day": "2026-03-09"}
    return services.request(mail_report, key=("report", to), params=params)


def test_all_well_is_0() -> None:
    mail("a@example.org")
    done = manage("deliver_captures", "--effect", "mail_report", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["succeeded"] == len(outside.deeds("report")) == 1


def test_one_not_done_is_1_and_the_others_are_done() -> None:
    outside.behave("declined", "report", "b@example.org")
    for name in "abc":
        mail(f"{name}@example.org")
    done = manage("deliver_captures", "--workers", "2")
    assert done.returncode == 1
    assert done.stdout == "1 failed, 2 succeeded, 1 in need of a person's decision\n"
    assert done.stderr.startswith("report:b@example.org: failed: Refused: ")
    assert "Traceback" not in done.stderr
    assert len(outside.deeds("report")) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("deliver_captures", "--effect", "mail_rapport"),
        ("deliver_captures", "--limit", "-1"),
        ("deliver_captures", "--workers", "none"),
        ("prune_captures",),
        ("prune_captures", "--older-than", "a year"),
    ],
)
def test_bad_usage_is_2_and_does_nothing(arguments: tuple[str, ...]) -> None:
    mail("a@example.org")
    done = manage(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert outside.called() == 0


def test_an_effect_that_this_code_does_not_know_waits_and_is_1() -> None:
    capture = mail("a@example.org")
    Capture.objects.update(effect="of_a_later_version")
    done = manage("deliver_captures")
    assert (done.returncode, done.stdout) == (1, "1 waiting (unknown_effect)\n")
    assert "The code declares no effect 'of_a_later_version'" in done.stderr
    assert "Traceback" not in done.stderr
    capture.refresh_from_db()
    assert (capture.state, capture.token) == ("pending", 0)
