"""The audit trail and the runs as they are listed and shown."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from idempotent_actions.models import Escalation, Run
from project.billing.models import Invoice
from tests.admin_captures.pages import LONG, RTL, address, list_page, list_rows, row_page
from tests.invoices import LADDER, make_invoice
from tests.overview.making import NOW, client_with, make_act, make_run

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def viewer() -> Client:
    return client_with("view_escalation", "view_run", "view_overview")


class TestEscalations:
    """The audit trail."""

    def keys(self, client: Client, query: str = "") -> set[str]:
        return {each.key for each in list_rows(client, Escalation, query)}

    def test_they_are_filtered_by_when_they_were_done(self, viewer: Client) -> None:
        ages = {"now": 0 * DAY, "midnight": timedelta(hours=NOW.hour), "week": 7 * DAY}
        ages |= {"yesterday": timedelta(hours=NOW.hour, seconds=1), "month": 30 * DAY}
        for key, age in {**ages, "long ago": 30 * DAY + HOUR}.items():
            make_act(key, NOW - age)
        assert self.keys(viewer, "when=today") == {"now", "midnight"}
        assert self.keys(viewer, "when=7+days") == {"now", "midnight", "yesterday", "week"}
        assert self.keys(viewer, "when=30+days") == set(ages)
        assert self.keys(viewer) == {*ages, "long ago"}

    def test_they_are_filtered_by_who_and_what(self, viewer: Client) -> None:
        make_act("poll")
        make_act("ann", actor="ann", transition="hold")
        make_act("plain", action="gone", transition="lost")
        assert self.keys(viewer, "by=poll") == {"poll", "plain"}
        assert self.keys(viewer, "by=a+person") == {"ann"}
        assert self.keys(viewer, "by=nobody") == set()
        assert self.keys(viewer, "transition=hold") == {"ann"}
        assert self.keys(viewer, "transition=lost") == {"plain"}
        assert self.keys(viewer, f"action={LADDER}") == {"poll", "ann"}

    def test_choices_are_known_without_reading_the_table(self, viewer: Client) -> None:
        with CaptureQueriesContext(connection) as asked:
            page = list_page(viewer, Escalation)
        for transition in ("escalate", "hold", "step_back", "start_capture"):
            assert f"?transition={transition}" in page
        assert not [each for each in asked.captured_queries if "DISTINCT" in each["sql"]]

    @pytest.mark.parametrize("term", ["a key", "billing.invoice:7", "7"])
    def test_they_are_found_by_key_and_subject(self, viewer: Client, term: str) -> None:
        make_act("a key", subject_pk="7")
        make_act("another key", subject_pk="77")
        assert self.keys(viewer, f"q={quote(term)}") == {"a key"}

    @pytest.mark.parametrize("lookup", ["reason__contains=a", "acted_at__year=2026", "run__id=1"])
    def test_nothing_else_can_be_asked_by_address(self, viewer: Client, lookup: str) -> None:
        response = viewer.get(f"{address(Escalation, 'changelist')}?{lookup}")
        assert response.status_code == 400

    def test_statements_dont_grow_with_the_rows(self, viewer: Client) -> None:
        run = make_run()
        counts = []
        for number in (1, 60):
            for each in range(number):
                make_act(f"{number}-{each}", subject_pk=str(each), run=run)
            with CaptureQueriesContext(connection) as asked:
                list_rows(viewer, Escalation)
            counts.append(len(asked))
        assert counts[0] == counts[1] <= 15

    def test_odd_rows_are_shown(self, viewer: Client) -> None:
        make_act("rtl", actor=RTL, reason=RTL, subject_model="gone.model", subject_pk="a/b_c")
        make_act("bare", action="gone", transition="lost", rung="lost", subject_pk="<b>")
        page = list_page(viewer, Escalation)
        assert f'<span dir="auto">{RTL}</span>' in page
        for row in Escalation.objects.all():
            assert "<b>:" not in row_page(viewer, row)

    def test_an_act_leads_to_its_subject_and_its_run(self, viewer: Client) -> None:
        invoice = make_invoice()
        act = make_act("k", subject_pk=invoice.pk, run=make_run())
        page = row_page(viewer, act)
        assert f"subject/billing.invoice/{invoice.pk}/" in page
        assert address(Run, "change", Run.objects.get().pk) in page


class TestRuns:
    """The polls."""

    def slots(self, client: Client, query: str = "") -> set[str]:
        return {each.worker for each in list_rows(client, Run, query)}

    def test_they_are_filtered_by_how_they_ended(self, viewer: Client) -> None:
        made = {
            "unfinished": make_run(finished_at=None, worker="unfinished", failed=1, stopped="x"),
            "stopped": make_run(stopped="out_of_time", failed=1, worker="stopped"),
            "failed": make_run(failed=1, worker="failed"),
            "succeeded": make_run(worker="succeeded"),
        }
        for outcome, run in made.items():
            assert run.outcome == outcome
            assert self.slots(viewer, f"outcome={outcome}") == {outcome}
        make_run("other", worker="other")
        assert self.slots(viewer, "action=other") == {"other"}
        assert self.slots(viewer, "outcome=nonsense") == set()
        assert len(self.slots(viewer, "q=nothing+is+searched")) == 5

    def test_statements_dont_grow_with_the_rows(self, viewer: Client) -> None:
        counts = []
        for number in (1, 40):
            for _ in range(number):
                first = make_run(skipped={"held": 2, "locked": 1})
                make_run(resumes=first)
            with CaptureQueriesContext(connection) as asked:
                page = list_page(viewer, Run)
            counts.append(len(asked))
        assert counts[0] == counts[1] <= 15
        assert "held: 2, locked: 1" in page
        assert "30.0 s" in page

    def test_its_page_shows_errors_with_their_subjects_and_reasons_with_counts(
        self, viewer: Client
    ) -> None:
        invoice = make_invoice()
        errors = [
            {"subject": f"billing.invoice:{invoice.pk}", "error": "ValueError: no rate"},
            {"subject": "billing.invoice:(a new one)", "error": "not stored"},
        ]
        run = make_run(errors=errors, failed=2, skipped={"held": 71})
        page = row_page(viewer, run)
        assert f"subject/billing.invoice/{invoice.pk}/" in page
        assert "ValueError: no rate" in page
        assert '<th scope="row">held</th><td class="ia-number">71</td>' in page
        assert "subject/billing.invoice/(" not in page
        assert "billing.invoice:(a new one)" in page

    def test_it_links_to_the_run_it_resumes_and_to_the_one_that_resumed_it(
        self, viewer: Client
    ) -> None:
        first = make_run(finished_at=None)
        second = make_run(resumes=first)
        assert f'href="{address(Run, "change", first.pk)}"' in row_page(viewer, second)
        assert f'href="{address(Run, "change", second.pk)}"' in row_page(viewer, first)

    ODD: tuple[dict[str, Any], ...] = (
        {"errors": [{"subject": "gone.model:a/b_c", "error": LONG}]},
        {"errors": [{"subject": RTL, "error": RTL}, "text", {}, None], "action": RTL},
        {"errors": {"no": "list"}, "skipped": ["no", "mapping"], "worker": "<b>"},
        {"errors": [{"subject": "billing.invoice:", "error": "<script>"}], "stopped": "<b>"},
        {"finished_at": None, "beat_at": None, "stopped": "gone"},
    )

    @pytest.mark.parametrize("columns", ODD)
    def test_odd_rows_are_shown(self, columns: dict[str, Any], viewer: Client) -> None:
        run = make_run(**columns)
        pages = row_page(viewer, run) + list_page(viewer, Run)
        assert "<b>" not in pages
        assert "<script>" not in pages.replace("<script>\n", "")
        if columns.get("errors") == self.ODD[0]["errors"]:
            assert "&lt;the end&gt;" in pages
            assert "subject/gone.model/a_2Fb_5Fc/" in pages


@pytest.mark.parametrize("make", [lambda: make_act("k"), make_run])
def test_not_even_a_superuser_changes_them(make: Any, viewer: Client) -> None:
    row = make()
    viewer.force_login(User.objects.create_superuser("root"))
    before = list(type(row).objects.values())
    for page in ("add", "change", "delete"):
        where = address(type(row), page, *([] if page == "add" else [row.pk]))
        assert viewer.post(where, {"actor": "me", "action": "x", "post": "yes"}).status_code == 403
    assert list(type(row).objects.values()) == before
    assert not Invoice.objects.exists()
