"""The preview in the admin: who climbs at the next tick, and why the others don't."""

import csv
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import strip_tags

from idempotent_actions import services
from idempotent_actions.admin import previews
from idempotent_actions.models import Escalation
from idempotent_actions.previews import preview_rows
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.asking import DAY, HELD
from tests.explaining.parcels import TrackedParcels, make_parcel
from tests.invoices import DUE, LADDER, make_invoice
from tests.oddities.models import Parcel
from tests.registering import only
from tests.situations import Picky, one_of_each

pytestmark = pytest.mark.django_db

PARCELS = "dispatch_parcels"

CELL = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with only(Picky, TrackedParcels), travel(DUE):
        yield


def client_with(*permissions: str) -> Client:
    user = User.objects.create_user(f"clerk{User.objects.count()}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def address(page: str, *arguments: str) -> str:
    return reverse(f"admin:idempotent_actions_{page}", args=arguments)


def shown(name: str, *permissions: str) -> str:
    response = client_with("view_overview", *permissions).get(address("preview", name))
    assert response.status_code == 200
    return str(response.content.decode())


def table(page: str) -> list[list[str]]:
    """The cells of the page's table, without their tags."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        [" ".join(strip_tags(cell).split()) for cell in CELL.findall(line)]
        for line in body.split("</tr>")[:-1]
    ]


def exported(name: str) -> list[list[str]]:
    client = client_with("view_overview", "export_preview")
    response: Any = client.get(address("preview_csv", name))
    assert response.status_code == 200
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode()
    return list(csv.reader(text.splitlines()))


def test_each_row_is_listed_with_what_the_tick_does_or_why_it_does_not() -> None:
    make_invoice("first", due_at=DUE - DAY)
    make_invoice("second", customer="disputing")
    make_invoice("third", customer="unreadable")
    assert [line[1:] for line in table(shown(LADDER))] == [
        ["escalate", "reminder", "send_dunning_notice", ""],
        ["", "", "", "disputed"],
        ["", "", "", "ValueError: no such customer"],
    ]


def test_a_subject_is_linked_to_its_timeline() -> None:
    invoice = make_invoice()
    link = address("subject", "billing.invoice", str(invoice.pk))
    page = shown(LADDER)
    assert f'<a href="{link}">billing.invoice:{invoice.pk}</a>' in page
    assert client_with("view_overview").get(link).status_code == 200


def test_looking_changes_nothing() -> None:
    one_of_each()
    before = list(Invoice.objects.order_by("pk").values())
    acts = Escalation.objects.count()
    shown(LADDER)
    exported(LADDER)
    assert list(Invoice.objects.order_by("pk").values()) == before
    assert Escalation.objects.count() == acts


def test_a_page_ends_after_so_many_rows_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "MOST_ROWS", 2)
    for number in range(2):
        make_invoice(number)
    assert "There are more" not in shown(LADDER)
    make_invoice(2)
    page = shown(LADDER, "export_preview")
    assert len(table(page)) == 2
    assert "The first 2 rows. There are more: the CSV has them all." in page
    assert len(exported(LADDER)) == 1 + 3


def test_statements_do_not_grow_with_the_rows() -> None:
    client = client_with("view_overview")
    counts = []
    for number in (1, 30):
        for each in range(number):
            make_invoice(f"{number} {each}")
        with CaptureQueriesContext(connection) as asked:
            client.get(address("preview", LADDER))
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 15


def test_a_pause_is_said_above_what_is_still_listed() -> None:
    make_invoice()
    assert "stands still" not in shown(LADDER)
    services.pause("action", LADDER, reason="the bank is closed", by="clerk")
    page = shown(LADDER)
    assert "The tick stands still." in page
    assert "the bank is closed" in page
    assert len(table(page)) == 1
    assert "stands still" not in shown(PARCELS)


def test_nothing_to_do_is_said() -> None:
    assert "Nothing is due." in shown(LADDER)


def test_rules_that_raise_are_shown_with_their_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def complain(self: Any) -> Any:
        raise LookupError("<b>no such tenant</b>")

    monkeypatch.setattr(TrackedParcels, "get_queryset", complain)
    assert "LookupError: &lt;b&gt;no such tenant&lt;/b&gt;" in shown(PARCELS)


def test_a_rule_that_the_database_refuses_is_shown_with_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def get_queryset(self: Any) -> Any:
        return Parcel.objects.extra(where=["no_such_column = 1"])

    monkeypatch.setattr(TrackedParcels, "get_queryset", get_queryset)
    assert "no_such_column" in shown(PARCELS)
    assert exported(PARCELS)[-1][0].startswith("INCOMPLETE, the rest is missing: ProgrammingError")


def test_an_action_that_is_never_polled_is_said_to_be() -> None:
    class ByHand(TrackedParcels):
        name = "by hand/or so"

        def due(self, now: Any) -> None:  # type: ignore[override]
            return None

    with only(ByHand):
        assert "never polled" in shown("by hand/or so")
        assert exported("by hand/or so") == [list(previews._COLUMNS)]
        index = client_with("view_overview").get(address("preview_index")).content.decode()
        assert address("preview", "by hand/or so") in index


def test_the_index_lists_every_action() -> None:
    index = client_with("view_overview").get(address("preview_index")).content.decode()
    for name in (LADDER, PARCELS):
        assert address("preview", name) in index


@pytest.mark.parametrize("page", ["preview", "preview_csv"])
def test_an_action_that_is_not_registered_is_not_found(page: str) -> None:
    client = client_with("view_overview", "export_preview")
    assert client.get(address(page, "gone")).status_code == 404


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("page", ["preview", "preview_csv"])
def test_without_the_permission_there_is_nothing_to_see(page: str, method: str) -> None:
    given = {"preview": ["export_preview"], "preview_csv": ["view_overview"]}[page]
    client = client_with(*given)
    assert getattr(client, method)(address(page, LADDER)).status_code == 403
    assert "csv" not in shown(LADDER)
    anonymous = getattr(Client(), method)(address(page, LADDER))
    assert (anonymous.status_code, "login" in anonymous["Location"]) == (302, True)


def test_the_file_has_a_line_for_each_row_with_its_effects() -> None:
    invoice, held = make_invoice("first"), make_invoice("second", customer="disputing")
    make_invoice("third", **HELD)
    assert exported(LADDER) == [
        ["subject", "name", "transition", "rung", "effects", "reason", "error"],
        [
            f"billing.invoice:{invoice.pk}", "first", "escalate", "reminder",
            "send_dunning_notice", "", "",
        ],
        [f"billing.invoice:{held.pk}", "second", "", "", "", "disputed", ""],
    ]  # fmt: skip


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_of_the_file_is_a_formula(first: str) -> None:
    make_invoice(f"{first}HYPERLINK(1)")
    client = client_with("view_overview", "export_preview")
    response: Any = client.get(address("preview_csv", LADDER))
    text = b"".join(response.streaming_content).decode()
    ((_, name, *_),) = list(csv.reader(text.split("\r\n")[1:2], strict=True)) or [["", ""]]
    assert f"'{first}HYPERLINK(1)" in text
    assert not name or name.startswith("'")


def test_a_file_that_breaks_off_says_so_in_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    make_parcel()

    def break_off(*arguments: Any) -> Iterator[Any]:
        yield from preview_rows(*arguments)
        raise LookupError("no such tenant")

    monkeypatch.setattr("idempotent_actions.admin.previews.preview_rows", break_off)
    lines = exported(PARCELS)
    assert len(lines) == 3
    assert lines[-1] == ["INCOMPLETE, the rest is missing: LookupError: no such tenant"]


def test_rows_are_read_as_the_file_is_sent(settings: Any) -> None:
    settings.IDEMPOTENT_ACTIONS = {"BATCH_SIZE": 2}
    for number in range(5):
        make_invoice(number)
    client = client_with("view_overview", "export_preview")
    response: Any = client.get(address("preview_csv", LADDER))
    lines = iter(response.streaming_content)
    for _ in range(3):  # the header and a batch
        next(lines)
    Invoice.objects.all().delete()
    assert list(lines) == []
