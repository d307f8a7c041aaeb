"""`manage.py demo`: real processes on the test database, and what a newcomer is told of them."""

import json
import os
from collections import Counter
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from idempotent_actions.models import Escalation, LadderModel, Run
from project.billing.factories import InvoiceFactory
from project.billing.models import Invoice
from project.demo import samples
from project.demo.management.commands import demo
from project.demo.processes import PollerError, tick_in_processes
from project.demo.story import tell
from project.school.models import Intervention
from tests.processes import manage

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def children_use_the_test_database(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    path = f"/{connection.settings_dict['NAME']}"
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=path).geturl()
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "project.settings")  # as a newcomer runs it


def run_demo() -> tuple[str, dict[str, int]]:
    """Run the command; return the story and the counts."""
    stdout = StringIO()
    call_command("demo", "--json", stdout=stdout)
    story, _, last_line = stdout.getvalue().strip().rpartition("\n")
    counts: dict[str, int] = json.loads(last_line)
    return story, counts


def climbs_by_subject() -> Counter[tuple[str, str]]:
    climbs = Escalation.objects.filter(transition__in=("escalate", "exhaust"))
    return Counter(climbs.values_list("subject_model", "subject_pk"))


def sample_of(model: type[LadderModel]) -> list[Any]:
    return list(model._default_manager.all())


def test_the_command_says_in_its_last_line_that_all_who_were_due_climbed_once() -> None:
    done = manage("demo", "--json", settings="project.settings")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["due"] >= 200
    assert counts == {
        "due": counts["due"],
        "climbed": counts["due"],
        "climbed_twice": 0,
        "second_run_applied": 0,
        "mails": counts["mails"],
        "mailed_twice": 0,
        "charges": 10,
        "charged_twice": 0,
        "declined": 2,
    }
    assert 100 < counts["mails"] < counts["due"]  # the ladder's end sends none
    assert done.stderr == ""


def test_three_processes_polled_and_their_climbs_are_in_the_audit_trail() -> None:
    _, counts = run_demo()
    climbs = climbs_by_subject()
    assert len(climbs) == counts["due"]
    assert counts["mails"] == Escalation.objects.filter(transition="escalate").count()
    assert set(climbs.values()) == {1}
    assert Run.objects.filter(action="escalate_overdue:billing.invoice").count() == 3
    ladders = Run.objects.filter(action__startswith="escalate_overdue:")
    assert sum(run.applied for run in ladders) == counts["due"]


@pytest.mark.slow
def test_those_who_were_paid_held_or_not_yet_due_did_not_climb() -> None:
    run_demo()
    climbed = set(climbs_by_subject())
    now = timezone.now()
    for subject in sample_of(Invoice) + sample_of(Intervention):
        name = subject._meta.label_lower, str(subject.pk)
        settled = getattr(subject, "paid_at", None) or getattr(subject, "attended", False)
        acts = Escalation.objects.about(subject)
        adopted_until = [act.next_at for act in acts if act.transition == "adopt"]
        waits = any(until and until > now for until in adopted_until)
        left_alone = settled or subject.hold_until or subject.due_at > now or waits
        assert (name in climbed) is not bool(left_alone)
        assert (subject.status == "resolved") is bool(settled)


@pytest.mark.slow
def test_the_story_names_each_rung_of_both_domains_and_the_way_into_the_admin() -> None:
    story, _ = run_demo()
    for rung in [*Invoice.ladder, *Intervention.ladder]:
        taken = Escalation.objects.filter(transition="escalate", rung=rung.name).count()
        [line] = [line for line in story.splitlines() if f" {rung.name} " in line]
        assert line.split()[2] == str(taken)
    assert "Applied by one more run: 0" in story
    assert "10 orders charged by the payment provider, 0 twice; 2 cards declined" in story
    assert "1 answer of the provider was lost on purpose." in story
    assert "manage.py runserver" in story
    assert "as demo, password demo" in story
    client = Client()
    assert client.login(username="demo", password="demo")  # noqa: S106 - known to everybody
    assert client.get("/admin/billing/invoice/").status_code == 200


@pytest.mark.slow
def test_a_second_demo_tells_the_same_story_on_a_sample_of_the_same_size() -> None:
    story, counts = run_demo()
    before = Invoice.objects.count(), Intervention.objects.count(), Escalation.objects.count()
    again, counts_again = run_demo()
    after = Invoice.objects.count(), Intervention.objects.count(), Escalation.objects.count()
    assert counts_again == counts
    assert after == before

    def without_processes(text: str) -> list[str]:
        return [line for line in text.splitlines() if "  process " not in line]

    assert without_processes(again) == without_processes(story)


@pytest.mark.slow
def test_rows_that_are_not_the_demos_own_stay() -> None:
    own = InvoiceFactory.create(number="2026-17", due_at=None)
    run_demo()
    assert Invoice.objects.get(pk=own.pk).status == "open"


@pytest.mark.slow
def test_the_demo_fails_when_somebody_who_was_due_did_not_climb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def one_pays_meanwhile() -> samples.Sample:
        sample = samples.make_sample()
        due = next(name for name in sample.due if name.startswith("billing.invoice:"))
        Invoice.objects.filter(pk=due.partition(":")[2]).update(paid_at=timezone.now())
        return sample

    monkeypatch.setattr(demo, "make_sample", one_pays_meanwhile)
    with pytest.raises(CommandError, match=r"due or climbed, not both: billing\.invoice:\d+$") as e:
        run_demo()
    assert e.value.returncode == 1


def test_a_subject_with_two_climbs_in_the_audit_trail_is_counted() -> None:
    run = Run.objects.create(action="a", now=timezone.now(), started_at=timezone.now())
    for key, pk in [("first", "1"), ("second", "1"), ("other", "2")]:
        Escalation.objects.create(
            key=key,
            transition="escalate",
            subject_model="billing.invoice",
            subject_pk=pk,
            acted_at=timezone.now(),
            run=run,
        )
    story = tell([run.pk], about={"billing.invoice:1", "billing.invoice:2"})
    assert story.climbed == {"billing.invoice:1", "billing.invoice:2"}
    assert story.climbed_twice == 1


def test_a_poller_that_can_not_work_is_reported_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path="/no_such_database").geturl()
    monkeypatch.setenv("DATABASE_URL", url)
    with pytest.raises(PollerError, match=r"rows failed:[^$]*no_such_database"):
        tick_in_processes(1)
