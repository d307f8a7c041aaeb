"""The list of captures: what needs a person comes first, and nothing reads the whole table."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from idempotent_actions.models import Capture, CaptureState
from tests.admin_captures.pages import address, decide_address, list_page, list_rows
from tests.invoices import make_invoice
from tests.overview.making import NOW, client_with, make_capture

pytestmark = pytest.mark.django_db

STATES = CaptureState.values
INVOICE = {"subject_model": "billing.invoice", "action": "escalate_overdue:billing.invoice"}


@pytest.fixture
def viewer() -> Client:
    return client_with("view_capture")


def keys(client: Client, query: str = "") -> set[str]:
    return {each.key for each in list_rows(client, Capture, query)}


@pytest.fixture
def one_of_each() -> None:
    for state in STATES:
        make_capture(state, state)
    make_capture("hook", "succeeded", hook_error="ValueError: no")
    make_capture("stuck", wake_at=NOW - timedelta(hours=1))


@pytest.mark.usefixtures("one_of_each")
class TestFilters:
    """What is listed."""

    def test_unless_asked_it_lists_what_needs_a_person(self, viewer: Client) -> None:
        assert keys(viewer) == {"unknown", "review", "failed", "hook"}

    def test_everything_and_what_is_stuck_are_listed_when_asked_for(self, viewer: Client) -> None:
        assert keys(viewer, "needs=all") == {*STATES, "hook", "stuck"}
        assert keys(viewer, "needs=stuck") == {"stuck"}
        assert keys(viewer, "needs=nonsense") == set()

    @pytest.mark.parametrize("state", STATES)
    def test_a_state_that_is_asked_for_is_listed_whole(self, viewer: Client, state: str) -> None:
        found = list_rows(viewer, Capture, f"state={state}")
        assert {each.key for each in found} == set(
            Capture.objects.filter(state=state).values_list("key", flat=True)
        )

    def test_effects_and_actions_are_filters_also_those_the_code_has_lost(
        self, viewer: Client
    ) -> None:
        make_capture("other", "review", effect="lost", action="gone")
        assert keys(viewer, "effect=lost") == {"other"}
        assert keys(viewer, "action=gone") == {"other"}
        assert keys(viewer, "effect=billing.charge&needs=all&state=void") == {"void"}
        assert keys(viewer, "effect=%00") == set()

    @pytest.mark.parametrize(
        "lookup", ["params__card__startswith=4", "hook_error__contains=a", "escalation__key=k"]
    )
    def test_nothing_else_can_be_asked_by_address(self, viewer: Client, lookup: str) -> None:
        response = viewer.get(f"{address(Capture, 'changelist')}?{lookup}")
        assert response.status_code == 400

    def test_no_column_sorts_not_even_by_address(self, viewer: Client) -> None:
        Capture.objects.filter(key__in=["review", "void"]).update(attempts=9, in_doubt=True)
        newest_first = [each.key for each in list_rows(viewer, Capture, "needs=all")]
        for column in range(1, 9):
            found = list_rows(viewer, Capture, f"needs=all&o={column}")
            assert [each.key for each in found] == newest_first

    def test_states_that_need_a_person_are_loud_and_a_failed_hook_is(self, viewer: Client) -> None:
        page = list_page(viewer, Capture)
        assert '<span class="ia-state ia-unknown">unknown</span>' in page
        assert page.count("hook failed") == 1

    def test_what_may_have_happened_is_said_in_words(self, viewer: Client) -> None:
        Capture.objects.filter(key="unknown").update(in_doubt=True)
        assert list_page(viewer, Capture).count("may have happened") == 1


class TestSearch:
    """It finds by what an index serves."""

    @pytest.mark.parametrize(
        "term", ["a key:7", " a key:7 ", "ref 1", "billing.invoice:42", "billing.Invoice:42", "42"]
    )
    def test_it_finds_finished_ones_by_key_reference_and_subject(
        self, viewer: Client, term: str
    ) -> None:
        wanted = {"subject_pk": "42", "provider_ref": "ref 1", **INVOICE}
        make_capture("a key:7", "succeeded", **wanted)
        make_capture("another", "review", **{**INVOICE, "subject_pk": "421"})
        assert keys(viewer, f"q={quote(term)}") == {"a key:7"}

    @pytest.mark.parametrize("term", ["a", "a key", "invoice:42", "ref", "%", "no:", ":", "'\"--"])
    def test_it_finds_nothing_by_a_part(self, viewer: Client, term: str) -> None:
        make_capture("a key:7", "review", subject_pk="42", provider_ref="ref 1", **INVOICE)
        assert keys(viewer, f"q={quote(term)}") == set()

    def test_a_subject_whose_model_no_action_has_is_found_by_its_whole_name(
        self, viewer: Client
    ) -> None:
        make_capture("k", "void", subject_model="gone.model", subject_pk="a:b")
        assert keys(viewer, "q=gone.model:a:b") == {"k"}
        assert keys(viewer, "q=a:b") == set()

    def test_on_a_large_table_each_search_is_answered_by_indexes(self, viewer: Client) -> None:
        fill(5_000)
        for query in ("q=billing.invoice:42", "q=42", "q=key+42", "q=ref+42", "", "needs=stuck"):
            with CaptureQueriesContext(
                connection,
            ) as asked:
                list_rows(viewer, Capture, query)
            for each in asked.captured_queries:
                if 'FROM "idempotent_actions_capture"' in each["sql"]:
                    plan = explained(each["sql"])
                    assert "Seq Scan" not in plan, (query, plan)
                    assert "capture_pkey" not in plan, (query, plan)


def fill(number: int) -> None:
    """Finished captures, as nearly all are."""
    Capture.objects.bulk_create(
        Capture(
            key=f"key {each}",
            effect="billing.charge",
            state="succeeded",
            fingerprint="f",
            created_at=NOW,
            finished_at=NOW,
            provider_ref=f"ref {each}",
            subject_pk=str(each),
            **INVOICE,
        )
        for each in range(number)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE idempotent_actions_capture")


def explained(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


class TestRows:
    """What the list costs, and where it leads."""

    def test_it_takes_few_statements_and_not_one_more_for_more_rows(self, viewer: Client) -> None:
        counts = []
        for number in (1, 60):
            for each in range(number):
                make_capture(f"{number}-{each}", "review", **INVOICE, subject_pk=str(each))
            with CaptureQueriesContext(connection) as asked:
                list_rows(viewer, Capture)
            counts.append(len(asked))
        assert counts[0] == counts[1]
        assert counts[0] <= 15

    def test_each_row_leads_to_its_subjects_timeline(self) -> None:
        invoice = make_invoice()
        make_capture("k", "review", **INVOICE, subject_pk=invoice.pk)
        client = client_with("view_capture", "view_overview")
        link = f"/admin/idempotent_actions/overview/subject/billing.invoice/{invoice.pk}/"
        assert f'href="{link}"' in list_page(client, Capture)
        assert client.get(link).status_code == 200


class TestManyAtOnce:
    """The list's actions lead to the page that confirms."""

    def choose(self, client: Client, action: str, *captures: Capture) -> Any:
        chosen = {"action": action, "_selected_action": [each.pk for each in captures]}
        return client.post(f"{address(Capture, 'changelist')}?needs=all", chosen)

    @pytest.mark.parametrize("decision", ["retry_same_key", "mark_failed", "void"])
    def test_it_leads_to_the_page_that_confirms_and_changes_nothing(self, decision: str) -> None:
        client = client_with("view_capture", "decide_capture")
        rows = [make_capture(each, "review") for each in "ba"]
        before = list(Capture.objects.order_by("id").values())
        response = self.choose(client, decision, *rows)
        assert response.status_code == 302
        assert response["Location"] == decide_address(decision, *reversed(rows))
        assert client.get(response["Location"]).status_code == 200
        assert list(Capture.objects.order_by("id").values()) == before

    def test_more_than_a_hundred_are_refused(self) -> None:
        client = client_with("view_capture", "decide_capture")
        rows = [make_capture(each, "review") for each in range(101)]
        response = self.choose(client, "void", *rows)
        assert response["Location"] == f"{address(Capture, 'changelist')}?needs=all"
        assert "Choose at most 100" in list_page(client, Capture)
        assert "decide" in self.choose(client, "void", *rows[:100])["Location"]

    def test_without_the_permission_none_is_offered_and_a_crafted_one_does_nothing(self) -> None:
        client = client_with("view_capture", "renew_capture")
        row = make_capture("k", "review")
        assert 'name="action"' not in list_page(client, Capture)
        for decision in ("retry_same_key", "mark_failed", "void"):
            response = self.choose(client, decision, row)
            assert "decide" not in response.get("Location", "")
        row.refresh_from_db()
        assert row.state == "review"

    def test_who_may_not_see_captures_gets_nothing(self) -> None:
        user = User.objects.create_user("clerk", is_staff=True)
        others = Permission.objects.exclude(codename__in=["view_capture", "change_capture"])
        user.user_permissions.set(others)
        client = Client()
        client.force_login(user)
        row = make_capture("k", "review")
        for each in (address(Capture, "changelist"), address(Capture, "change", row.pk)):
            assert client.get(each).status_code == 403
