"""A capture's page: what helps to decide, no secret, and no text that breaks it."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from idempotent_actions import services
from idempotent_actions.effects import find_effect
from idempotent_actions.models import Capture, CaptureAttempt, CaptureDecision
from idempotent_actions.parameters import freeze
from idempotent_actions.policies import Park, Reconcile, Replay
from project.billing.models import Order
from tests.admin_captures.pages import (
    DECIDING,
    LONG,
    RTL,
    address,
    decide_address,
    list_page,
    row_page,
    text,
    top_up,
)
from tests.overview.making import NOW, client_with, make_capture

pytestmark = pytest.mark.django_db

SECRETS = {"card": "pm_sesame", "owner": {"name": 'Ada "the" First', "born": NOW.date()}}
QUOTED = ["pm_sesame", "the&quot; First", 'the" First', NOW.date().isoformat()]
ALLOWED = {
    "pending": {"void"},
    "sending": set(),
    "unknown": {"mark_succeeded", "mark_failed"},
    "review": {"mark_succeeded", "mark_failed", "retry_same_key", "retry_new_key", "void"},
    "succeeded": set(),
    "failed": {"mark_succeeded", "retry_same_key", "retry_new_key", "void"},
    "void": set(),
}
EVERY = {*ALLOWED["review"], "rerun_hook"}


@pytest.fixture
def viewer() -> Client:
    return client_with("view_capture")


def offered(client: Client, capture: Capture) -> set[str]:
    page = row_page(client, capture)
    return {name for name in EVERY if decide_address(name, capture) in page}


@pytest.mark.parametrize("state", ALLOWED)
def test_there_are_buttons_for_what_the_state_allows(state: str) -> None:
    assert offered(client_with(*DECIDING), make_capture("k", state)) == ALLOWED[state]


def test_a_failed_hook_can_be_run_again_and_what_was_pruned_not_be_sent_as_it_was() -> None:
    client = client_with(*DECIDING)
    assert offered(client, make_capture("hook", "succeeded", hook_error="no")) == {"rerun_hook"}
    pruned = make_capture("pruned", "failed", pruned_at=NOW)
    assert offered(client, pruned) == ALLOWED["failed"] - {"retry_same_key"}


def test_there_are_no_buttons_without_the_permission() -> None:
    capture = make_capture("k", "review", hook_error="no")
    only_renew = client_with("view_capture", "renew_capture")
    only_decide = client_with("view_capture", "decide_capture", "view_run")
    assert offered(client_with("view_capture"), capture) == set()
    assert offered(only_renew, capture) == {"retry_new_key"}
    assert offered(only_decide, capture) == EVERY - {"retry_new_key"}


def test_it_shows_what_was_tried_and_what_was_decided(viewer: Client) -> None:
    capture = make_capture("k", "review", token=2)
    columns: dict[str, Any] = {"capture": capture, "started_at": NOW, "finished_at": NOW}
    error = {"class": "Timeout", "code": "slow", "message": "no answer"}
    CaptureAttempt.objects.create(
        token=1, worker="host:7", outcome="unknown", error=error, **columns
    )
    CaptureAttempt.objects.create(
        token=2, worker="host:8", outcome="succeeded", late=True, provider_ref="ref 9", **columns
    )
    services.mark_failed(capture, note=RTL, by="ann")
    page = row_page(viewer, capture)
    for shown in ("host:7", "Timeout", "slow", "no answer", "host:8", "late", "ref 9", RTL, "ann"):
        assert shown in page
    assert capture.provider_key in page


def test_a_pause_that_holds_it_back_is_told(viewer: Client) -> None:
    capture = make_capture("k", "pending", effect=top_up.name)
    services.pause("effect", top_up.name, reason="a wrong price", by="ann")
    assert "a wrong price" in row_page(viewer, capture)


class TestMeanings:
    """What a decision would come to, now."""

    def meaning(self, name: str, **columns: Any) -> str:
        client = client_with("view_capture", "decide_capture", "renew_capture")
        capture = make_capture("k", "review", **columns)
        shown = client.get(decide_address(name, capture)).context["shown"]
        assert shown[0]["means"] in unescape(row_page(client, capture))
        return str(shown[0]["means"])

    def test_within_its_window_a_provider_still_knows_the_key(self) -> None:
        policy = {"recovery": Replay(timedelta(hours=23)).as_dict()}
        doubt = {"policy": policy, "in_doubt": True}
        assert "still knows that key" in self.meaning("retry_same_key", **doubt)
        long_ago = {"first_sent_at": NOW - timedelta(hours=24)}
        Capture.objects.all().delete()
        User.objects.all().delete()
        assert "it happens twice" in self.meaning("retry_same_key", **doubt, **long_ago)

    @pytest.mark.parametrize("recovery", [Park(), Reconcile(lambda call: None)])
    def test_elsewhere_one_in_doubt_may_happen_twice(self, recovery: Any) -> None:
        policy = {"recovery": recovery.as_dict()}
        assert "twice" in self.meaning("retry_same_key", policy=policy, in_doubt=True)

    @pytest.mark.parametrize("name", ["retry_same_key", "retry_new_key"])
    def test_what_is_in_no_doubt_has_not_happened(self, name: str) -> None:
        assert "known not to have happened" in self.meaning(name)

    def test_a_new_key_for_one_in_doubt_may_happen_twice(self) -> None:
        assert "it happens twice" in self.meaning("retry_new_key", in_doubt=True)

    @pytest.mark.parametrize(("on_failed", "then"), [("wait", "waits"), ("proceed", "goes on")])
    def test_a_failure_stops_its_subject_or_not(self, on_failed: str, then: str) -> None:
        policy = {"on_failed": on_failed}
        assert then in self.meaning("mark_failed", policy=policy, action="charge_orders")


class TestSecrets:
    """What is declared secret is shown nowhere."""

    def captured(self, **columns: Any) -> Capture:
        params = {"customer": "plainly", "amount": 1250, **SECRETS}
        told = f'declined: pm_sesame of Ada "the" First, born {NOW.date()}'
        error = {"class": "Declined", "code": "pm_sesame", "message": told}
        values = {"effect": top_up.name, "params": freeze(params), "error": error}
        values |= {"result": {"card": ["pm_sesame"], 'Ada "the" First': "x"}, "hook_error": told}
        capture = make_capture("k", "review", **values | columns)
        CaptureAttempt.objects.create(
            capture=capture, token=1, worker="w", started_at=NOW, error=error
        )
        return capture

    def pages(self, capture: Capture) -> str:
        client = client_with(*DECIDING)
        asked = [decide_address(name, capture) for name in EVERY]
        shown = [text(client, each) for each in asked]
        return "".join([*shown, row_page(client, capture), list_page(client, Capture)])

    def test_secret_parameters_are_hidden_in_every_text(self) -> None:
        pages = self.pages(self.captured())
        for secret in QUOTED:
            assert secret not in pages
        assert "plainly" in pages
        assert "1250" in pages
        assert "Declined" in pages

    def test_of_an_effect_no_longer_declared_all_of_them_are(self) -> None:
        assert find_effect("lost") is None
        pages = self.pages(self.captured(effect="lost", provider_ref="ref 7"))
        for secret in [*QUOTED, "plainly", "1250"]:
            assert secret not in pages
        assert "ref 7" in pages

    def test_an_error_of_the_hosts_own_is_blotted_as_well(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*args: Any, **kwargs: Any) -> Any:
            raise ValueError("no such card: pm_sesame")

        capture = self.captured()
        monkeypatch.setattr("idempotent_actions.decisions._retry", fails)
        client = client_with(*DECIDING)
        where = decide_address("retry_same_key", capture)
        seen = {f"state_{capture.pk}": "review", f"token_{capture.pk}": 1}
        seen |= {f"generation_{capture.pk}": 1, "id": capture.pk, "note": "because"}
        page = client.post(where, seen).content.decode()
        assert "no such card: •••" in page
        assert "pm_sesame" not in page


class TestOddRows:
    """No page raises, whatever is in a row."""

    ODD: tuple[dict[str, Any], ...] = (
        {"subject_model": "billing.order", "subject_pk": "999", "action": "charge_orders"},
        {"subject_model": "billing.order", "subject_pk": "not a number"},
        {"subject_model": "uninstalled.thing", "subject_pk": "a/b_c d", "action": "gone"},
        {"subject_model": "oddities.parcel", "subject_pk": "1"},
        {"subject_model": "", "subject_pk": ""},
        {"effect": "lost", "params": {"a": 1}},
        {"effect": RTL, "key": RTL, "waiting_for": RTL, "hook_error": RTL},
        {"error": {"class": "E", "code": "", "message": LONG}, "hook_error": LONG},
        {"error": {}, "result": [], "params": {"when": {"$date": "no date"}}},
        {"error": ["not", "ours"], "policy": {}, "result": "<Thing object>"},
        {"result": "<b>bold</b>", "result_is_repr": True, "key": "</title><script>"},
        {"params": {"nested": [{"deep": [None, True, "\u2028"]}]}, "waiting_since": NOW},
    )

    @pytest.mark.parametrize("columns", ODD)
    @pytest.mark.parametrize("state", ["review", "unknown", "succeeded"])
    def test_every_page_of_it_opens(self, columns: dict[str, Any], state: str) -> None:
        client = client_with(*DECIDING, "view_overview")
        capture = make_capture(columns.get("key", "k"), state)
        Capture.objects.filter(pk=capture.pk).update(**columns)
        capture = Capture.objects.get()
        pages = [row_page(client, capture), list_page(client, Capture, "needs=all")]
        pages += [text(client, decide_address(name, capture)) for name in EVERY]
        for page in pages:
            assert "<script>" not in page.replace("<script>\n", "")
            assert "<b>bold" not in page
        if "message" in (columns.get("error") or {}):
            assert pages[0].count("&lt;the end&gt;") == 2

    def test_a_deleted_subject_is_still_linked_and_its_timeline_opens(self) -> None:
        order = Order.objects.create(number="1", amount=1, payment_method="pm", capture_at=NOW)
        about = {"subject_model": "billing.order", "subject_pk": order.pk}
        capture = make_capture("k", "review", **about)
        order.delete()
        client = client_with("view_capture", "view_overview")
        link = f"/admin/idempotent_actions/overview/subject/billing.order/{about['subject_pk']}/"
        assert link in row_page(client, capture)
        assert client.get(link).status_code == 200

    def test_a_long_story_costs_no_more_statements_and_shows_its_end(self, viewer: Client) -> None:
        counts = []
        for number in (2, 120):
            capture = make_capture(number, "review")
            CaptureAttempt.objects.bulk_create(
                CaptureAttempt(capture=capture, token=each, worker=f"w-{each}.", started_at=NOW)
                for each in range(number)
            )
            with CaptureQueriesContext(connection) as asked:
                page = row_page(viewer, capture)
            assert f"w-{number - 1}." in page
            counts.append(len(asked))
        assert counts[0] == counts[1] <= 15
        assert page.count("w-") <= 60


def test_the_page_of_a_capture_takes_no_form(viewer: Client) -> None:
    superuser = User.objects.create_superuser("root")
    viewer.force_login(superuser)
    capture = make_capture("k", "review")
    before = list(Capture.objects.values())
    for page in ("add", "change", "delete"):
        where = address(Capture, page, *([] if page == "add" else [capture.pk]))
        assert viewer.post(where, {"state": "void", "post": "yes"}).status_code == 403
    assert list(Capture.objects.values()) == before
    assert not CaptureDecision.objects.exists()
