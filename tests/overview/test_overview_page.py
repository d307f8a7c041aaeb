"""The page: who sees it, what is loud on it and where it leads, and that nothing breaks it."""

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from idempotent_actions.models import DeferredCall, Pause
from idempotent_actions.testing import registered
from tests.hosts.keys.models import Device, Parking, Permit
from tests.invoices import LADDER, make_invoice
from tests.overview.making import NO_SHOWS, NOW, client_with, make_act, make_capture, make_run, page
from tests.registering import ladder_of, only

pytestmark = pytest.mark.django_db

URL = reverse("admin:idempotent_actions_overview_changelist")
MOST_QUERIES = 15
CALM = "Nothing needs a person right now."
ARABIC = "تذكير أول"


def needs(text: str) -> list[str]:
    """The texts of what needs a person, in order."""
    section = text.split('id="ia-needs"')[1].split("</section>")[0]
    items = re.findall(r"<li.*?</li>", section, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", "", each)).split()) for each in items]


def svgs(text: str) -> Iterator[ElementTree.Element]:
    for each in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        if "role=" in each:  # the admin's own icons aside
            yield ElementTree.fromstring(each)  # noqa: S314 - our own


# -- who


def test_whoever_may_view_it_sees_it() -> None:
    assert CALM in page(client_with("view_overview"))


@pytest.mark.parametrize("method", ["get", "post"])
def test_others_of_the_staff_are_refused(method: str) -> None:
    client = client_with("view_run", "view_capture", "view_escalation", "export_preview")
    assert getattr(client, method)(URL).status_code == 403


@pytest.mark.parametrize("method", ["get", "post"])
def test_everyone_else_is_asked_to_log_in(client: Client, method: str) -> None:
    assert getattr(client, method)(URL).status_code == 302
    client.force_login(User.objects.create_user("a customer"))
    assert getattr(client, method)(URL).status_code == 302


@pytest.mark.parametrize("action", ["change", "delete", "history"])
def test_a_runs_row_is_not_shown_under_the_overview(action: str) -> None:
    run = make_run()
    address = reverse(f"admin:idempotent_actions_overview_{action}", args=[run.pk])
    assert client_with("view_overview").get(address).status_code == 403


def test_links_lead_only_where_the_person_may_go(admin_client: Client) -> None:
    run = make_run()
    make_capture(1, "review")
    places = [
        reverse("admin:idempotent_actions_run_change", args=[run.pk]),
        f"{reverse('admin:idempotent_actions_capture_changelist')}?needs=all&amp;state=review",
    ]
    theirs, all_of_it = page(client_with("view_overview")), page(admin_client)
    for place in places:
        assert place not in theirs
        assert f'href="{place}"' in all_of_it


# -- what is loud


def test_what_needs_a_person_is_named_with_its_number(admin_client: Client) -> None:
    assert needs(page(admin_client)) == []
    for number, state in enumerate(["unknown", "unknown", "review", "failed"]):
        make_capture(number, state, wake_at=NOW if state == "unknown" else None)
    make_capture("hook", "succeeded", hook_error="ValueError: x")
    text = page(admin_client)
    assert CALM not in text
    beginnings = [each.partition(":")[0] for each in needs(text)]
    assert beginnings == ["2 unknown", "1 in review", "1 failed", "1 hook error"]


def test_what_is_stuck_is_named_with_its_effect(admin_client: Client) -> None:
    make_capture(1, wake_at=NOW - timedelta(minutes=15))
    make_capture(2, "sending", wake_at=NOW - timedelta(minutes=20), effect="school.notice")
    told = needs(page(admin_client))
    assert [each.partition(" that")[0] for each in told] == [
        "1 stuck: captures of billing.charge",
        "1 stuck: captures of school.notice",
    ]


def test_calls_that_nobody_makes_are_named(admin_client: Client) -> None:
    late = {"asked_at": NOW, "latest_at": NOW, "due_at": NOW - timedelta(hours=1), "tries": 3}
    DeferredCall.objects.create(name="x", function="a.b", **late)
    not_called, failing = needs(page(admin_client))
    assert not_called.startswith("1 not called: calls of a.b")
    assert failing.startswith("1 failing: calls of a.b")


def test_an_action_without_a_good_run_is_named(admin_client: Client) -> None:
    plan = {"SCHEDULES": {"tick": {"every": timedelta(minutes=10), "actions": [LADDER]}}}
    with override_settings(IDEMPOTENT_ACTIONS=plan):
        (never,) = needs(page(admin_client))
        make_run(finished_at=NOW - timedelta(hours=3))
        (late,) = needs(page(admin_client))
    assert f"{LADDER} has never had one" in never
    assert f"{LADDER} had its last one 3 hours ago" in late


def test_a_pause_is_told_with_who_and_why(admin_client: Client) -> None:
    given: dict[str, Any] = {"scope": "action", "name": LADDER, "paused_at": NOW}
    Pause.objects.create(**given, actor="clerk", reason="a strike", until=NOW + timedelta(days=1))
    (told,) = needs(page(admin_client))
    assert told.startswith(f"Paused: the action {LADDER}, by clerk")
    assert "a strike" in told


# -- the tables


def test_a_last_run_is_told_with_its_counts_and_how_long_ago_the_good_one_was(
    admin_client: Client,
) -> None:
    make_run(finished_at=NOW - timedelta(minutes=12), started_at=NOW - timedelta(minutes=13))
    counts: dict[str, Any] = {
        "applied": 17,
        "exhausted": 2,
        "marked": 11,
        "resolved": 5,
        "failed": 3,
    }
    make_run(**counts, skipped={"held": 4, "disputed": 1}, stopped="lease_lost")
    text = page(admin_client)
    row = text.split('id="ia-runs"')[1].split(f">{LADDER}</th>")[1].split("</tr>")[0]
    told = " ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split())
    assert "stopped : lease_lost" in told
    assert f"30.0 s 12 minutes ago Preview of {LADDER} 17 2" in told
    assert told.endswith("17 2 11 5 3 disputed : 1, held : 4")
    assert text.count("has never run") == 2


def test_the_preview_of_each_action_is_linked(admin_client: Client) -> None:
    text = page(admin_client)
    for name in (LADDER, NO_SHOWS, "charge_orders"):
        address = reverse("admin:idempotent_actions_preview", args=[name])
        assert f'href="{address}"' in text
        assert admin_client.get(address).status_code == 200


def test_the_funnel_and_the_days_are_pictures_with_words(admin_client: Client) -> None:
    make_invoice(status="escalated", rung="warning", escalated_at=NOW - timedelta(days=3))
    make_act(1, transition="resolve", actor="clerk", rung="final_notice")
    text = page(admin_client)
    pictures = list(svgs(text))
    assert len(pictures) == 2, "an empty ladder has none"
    for each in pictures:
        title, words = each[0], each[1]
        assert each.get("role") == "img"
        assert (title.tag, words.tag) == ("title", "desc")
        assert each.get("aria-labelledby") == f"{title.get('id')} {words.get('id')}"
    told = str(pictures[0][1].text)
    assert "warning: 1 there, 0 cleared" in told
    assert "final_notice: 0 there, 1 cleared" in told
    row = text.split("<bdi>warning</bdi>")[1].split("</tr>")[0]
    assert "3\xa0days" in row


def test_nothing_is_inline_and_nothing_comes_from_elsewhere(admin_client: Client) -> None:
    make_run()
    make_invoice(status="escalated", rung="warning")
    content = page(admin_client).split('id="content-main"')[1].split('id="footer"')[0]
    assert not re.search(r"<script|<style|style=|\son\w+=|https?://", content)


@pytest.mark.parametrize("locale", ["de", "fr"])
def test_the_pictures_numbers_are_svgs_whatever_the_language(
    admin_client: Client, locale: str
) -> None:
    for number in range(3):
        make_act(number)
        make_invoice(number, status="escalated", rung="warning")
    make_invoice("x", status="escalated", rung="reminder")
    with override_settings(LANGUAGE_CODE=locale, USE_THOUSAND_SEPARATOR=True):
        pictures = list(svgs(page(admin_client)))
    numbers = [
        value
        for picture in pictures
        for each in picture.iter()
        for name, value in each.items()
        if name in {"x", "y", "width", "height", "x1", "x2", "y1", "y2"}
    ]
    assert numbers
    assert [each for each in numbers if not re.fullmatch(r"\d+(\.\d+)?", each)] == []


@pytest.mark.parametrize(
    "address",
    [
        reverse("admin:index"),
        reverse("admin:app_list", kwargs={"app_label": "idempotent_actions"}),
        reverse("admin:idempotent_actions_run_changelist"),  # it has the list at its side
    ],
)
def test_the_overview_is_the_first_thing_of_the_app(admin_client: Client, address: str) -> None:
    text = admin_client.get(address).content.decode()
    models = re.findall(r'href="(/admin/idempotent_actions/\w+/)"', text)
    assert models[0] == URL


# -- nothing breaks it


def test_names_in_any_script_and_long_errors_are_shown_and_escaped(admin_client: Client) -> None:
    long = "<b>" + "x" * 10_000
    make_invoice(status="escalated", rung=ARABIC, escalated_at=NOW)
    make_capture(1, "review", effect="<i>gone</i>", error={"class": "E", "message": long})
    make_run(
        errors=[{"subject": "billing.invoice:1", "error": long}], skipped={ARABIC: 1}, failed=1
    )
    make_act(1, rung=ARABIC, transition="resolve", subject_model="gone.model", action="gone")
    make_act(2, rung=ARABIC, transition="resolve")
    make_act(3, rung="r" * 50, transition="resolve")
    Pause.objects.create(scope="effect", name="<u>", reason="<s>", actor=ARABIC, paused_at=NOW)
    text = page(admin_client)
    assert f"<bdi>{ARABIC}</bdi> (not declared)" in text
    assert f"<bdi>{'r' * 50}</bdi>" in text
    for markup in ["<b>", "<i>", "<u>", "<s>"]:
        assert markup not in text.split('id="content-main"')[1]


def test_odd_runs_are_shown(admin_client: Client) -> None:
    make_run("gone")
    make_run(finished_at=None, started_at=NOW + timedelta(hours=1), skipped=["no", "dict"])
    make_run("charge_orders", stopped="error", beat_at=None, finished_at=NOW + timedelta(days=2))
    text = page(admin_client)
    assert "unfinished" in text
    assert "48 h" in text


def test_it_opens_where_nothing_is_registered_and_nothing_there(admin_client: Client) -> None:
    with only():
        assert "No action is registered." in page(admin_client)


# -- what it costs


@pytest.mark.parametrize("permissions", [["view_overview"], ["view_overview", "view_capture"]])
@override_settings(IDEMPOTENT_ACTIONS={})  # the plans that there are by default
def test_it_asks_few_questions_and_no_more_with_more_rows(permissions: list[str]) -> None:
    client = client_with(*permissions)
    fill(1)
    with CaptureQueriesContext(connection) as asked:
        page(client)
    fill(7)
    with CaptureQueriesContext(connection) as asked_again:
        page(client)
    assert len(asked) <= MOST_QUERIES, [each["sql"] for each in asked]
    assert len(asked_again) == len(asked)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="asks for each ladder elsewhere")
def test_more_ladders_cost_no_more_questions(admin_client: Client) -> None:
    with CaptureQueriesContext(connection) as asked:
        page(admin_client)
    more = [ladder_of(model) for model in (Device, Permit, Parking)]
    with registered(*more), CaptureQueriesContext(connection) as asked_again:
        page(admin_client)
    assert len(asked_again) == len(asked)


def fill(rows: int) -> None:
    """Make so many rows of everything that the page tells of."""
    for number in range(rows):
        make_capture(f"review {rows} {number}", "review")
        late = NOW - timedelta(hours=number + 1)
        make_capture(f"stuck {rows} {number}", wake_at=late, effect=str(number))
        numbered = f"{rows} {number}"
        make_invoice(numbered, status="escalated", rung="warning", escalated_at=NOW)
        make_act(f"{rows} {number}")
        make_run(finished_at=None, beat_at=late)
        call = {"asked_at": NOW, "latest_at": NOW, "due_at": late, "tries": 3}
        DeferredCall.objects.create(name=numbered, function=f"a.b{number}", **call)
        pause: dict[str, Any] = {"scope": "everything", "reason": "r", "actor": "a"}
        Pause.objects.create(paused_at=NOW, **pause)
