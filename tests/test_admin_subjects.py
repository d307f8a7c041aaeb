"""A subject's timeline, a person's acts on it, and what a host's own page shows of it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from idempotent_actions import services
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.asking import DAY, HELD, ON_REMINDER, WEEK
from tests.invoices import DUE, make_invoice, now_there, trail

pytestmark = pytest.mark.django_db

RTL = "\u05e9\u05dc\u05d5\u05dd \u202egnp.exe"


@pytest.fixture(autouse=True)
def on_the_due_day() -> Iterator[None]:
    with travel(DUE):
        yield


def client_with(*permissions: str) -> Client:
    """A staff member's browser."""
    user = User.objects.create_user(f"clerk{User.objects.count()}", is_staff=True)
    codenames = ["view_overview", *permissions]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def page_of(subject: Any, act: str = "") -> str:
    label = subject._meta.label_lower
    if act:
        return reverse("admin:idempotent_actions_subject_act", args=[label, subject.pk, act])
    return reverse("admin:idempotent_actions_subject", args=[label, subject.pk])


def text_of(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return response.content.decode()


def post(client: Client, subject: Invoice, act: str, **values: Any) -> Any:
    """Confirm an act on the invoice as it was loaded."""
    seen = {"cycle": subject.cycle, "rung": subject.rung}
    return client.post(page_of(subject, act), {"reason": "because", **seen, **values}, follow=True)


ACTS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("escalate", "escalate_subject", {}, ["escalate reminder"]),
    ("skip_rung", "escalate_subject", {}, ["skip_rung reminder"]),
    ("step_back", "escalate_subject", ON_REMINDER, ["step_back"]),
    ("hold", "hold_subject", {}, ["hold"]),
    ("release", "hold_subject", HELD, ["release"]),
    ("resolve", "resolve_subject", {}, ["resolve"]),
    ("cancel", "resolve_subject", {}, ["cancel"]),
    ("reopen", "resolve_subject", {"status": "resolved"}, ["reopen"]),
]
each_act = pytest.mark.parametrize(("act", "permission", "columns", "then"), ACTS)
UNTIL = {"until": (DUE + DAY).strftime("%Y-%m-%dT%H:%M")}


@each_act
def test_an_act_is_confirmed_with_a_reason_and_audited_with_its_actor(
    act: str, permission: str, columns: dict[str, Any], then: list[str]
) -> None:
    client, invoice = client_with(permission), make_invoice(**columns)
    assert page_of(invoice, act) in text_of(client, page_of(invoice))
    text_of(client, page_of(invoice, act))
    assert trail(invoice) == []

    response = post(client, invoice, act, **(UNTIL if act == "hold" else {}))

    assert response.redirect_chain == [(page_of(invoice), 302)]
    assert trail(invoice) == then
    row = Escalation.objects.get()
    assert (row.actor, row.reason) == (User.objects.get().username, "because")


@each_act
def test_without_its_permission_an_act_has_no_button_and_does_nothing(
    act: str, permission: str, columns: dict[str, Any], then: list[str]
) -> None:
    others = {each for _, each, _, _ in ACTS} - {permission}
    client, invoice = client_with(*others), make_invoice(**columns)
    assert page_of(invoice, act) not in text_of(client, page_of(invoice))
    text_of(client, page_of(invoice, act), 403)
    assert post(client, invoice, act, **UNTIL).status_code == 403
    assert trail(invoice) == []


@each_act
def test_a_page_posted_after_the_subject_has_moved_does_nothing_and_says_so(
    act: str, permission: str, columns: dict[str, Any], then: list[str]
) -> None:
    client, invoice = client_with(permission), make_invoice(**columns)
    Invoice.objects.filter(pk=invoice.pk).update(rung="warning", status="overdue")

    answer = post(client, invoice, act, **(UNTIL if act == "hold" else {})).content.decode()

    assert "It has moved since you looked: nothing was done." in answer
    assert trail(invoice) == []


def test_t5_a_double_clicked_button_is_one_rung_and_the_second_answer_says_so() -> None:
    client, invoice = client_with("escalate_subject"), make_invoice()
    first = post(client, invoice, "escalate").content.decode()
    second = post(client, invoice, "escalate").content.decode()
    assert "It has climbed to reminder." in first
    assert "It has moved since you looked: nothing was done." in second
    tick()
    assert trail(invoice) == ["escalate reminder"]
    assert Capture.objects.count() == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reason": ""}, "This field is required."),
        ({"reason": " "}, "This field is required."),
        ({"reason": "x" * 256}, "at most 255 characters"),
        ({"cycle": ""}, "This field is required."),
        ({"cycle": "one"}, "Enter a whole number."),
        ({"until": ""}, "This field is required."),
        ({"until": "tomorrow"}, "Enter a valid date/time."),
        ({"until": "2026-03-02T07:59"}, "until must lie in the future"),
        ({"reason": "\0"}, "Null characters are not allowed."),
    ],
)
def test_what_cannot_be_taken_is_said_on_the_form_and_nothing_is_written(
    values: dict[str, str], message: str
) -> None:
    client, invoice = client_with("hold_subject"), make_invoice()
    response = post(client, invoice, "hold", **{**UNTIL, **values})
    assert response.status_code == 200
    assert message in response.content.decode()
    assert trail(invoice) == []


def test_the_ladders_end_is_said_on_the_form() -> None:
    client = client_with("escalate_subject")
    invoice = make_invoice(status="overdue", rung="final_notice")
    answer = post(client, invoice, "escalate").content.decode()
    assert "&#x27;final_notice&#x27; is the last rung" in answer


def test_a_hook_that_raises_is_said_on_the_form_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def on_climb(self: Invoice, rung: Any) -> None:
        raise ValueError("no such fee")

    monkeypatch.setattr(Invoice, "on_climb", on_climb)
    client, invoice = client_with("escalate_subject"), make_invoice()
    answer = post(client, invoice, "escalate").content.decode()
    assert "It failed, and nothing was done: ValueError: no such fee" in answer
    assert trail(invoice) == []


def test_the_timeline_tells_the_whole_story_newest_first() -> None:
    invoice = make_invoice()
    tick()
    with travel(DUE + timedelta(hours=1)):
        services.hold(now_there(invoice), DUE + DAY, by="ada", reason="she promised to pay")
    with travel(DUE + timedelta(hours=2)):
        services.release(now_there(invoice), by="bob", reason="she did not")
    text = text_of(client_with("view_capture"), page_of(invoice))
    told = [
        "she did not",
        "she promised to pay",
        "try 1 of",
        "requested",
        "<strong>escalate</strong>",
    ]
    places = [text.index(each) for each in told]
    assert places == sorted(places)


def test_an_old_story_is_told_in_pages() -> None:
    invoice = make_invoice()
    for day in range(450):
        values = {"subject_model": "billing.invoice", "subject_pk": str(invoice.pk)}
        when = {"acted_at": DUE + timedelta(days=day), "reason": f"day {day}."}
        Escalation.objects.create(key=f"k{day}", transition="hold", actor="ada", **values, **when)
    client, address, seen = client_with(), page_of(invoice), set[int]()
    pages = 0
    while address:
        text = text_of(client, address)
        seen |= {day for day in range(450) if f"day {day}." in text}
        _, found, rest = text.partition('<a href="?before=')
        address = f"{page_of(invoice)}?before={rest.partition(chr(34))[0]}" if found else ""
        pages += 1
    assert seen == set(range(450))
    assert pages == 3


@pytest.mark.parametrize("before", ["", "x", "2026-03-02", "2026-03-02T08:00", "0001-01-01T00:00Z"])
def test_a_strange_page_is_no_error(before: str) -> None:
    invoice = make_invoice()
    text_of(client_with(), f"{page_of(invoice)}?before={before}")


def test_a_deleted_subject_keeps_its_timeline_and_has_no_buttons() -> None:
    invoice = make_invoice()
    tick()
    address, act = page_of(invoice), page_of(invoice, "hold")
    invoice.delete()
    client = client_with("hold_subject")
    text = text_of(client, address)
    assert "is gone" in text
    assert "escalate" in text
    assert act not in text
    text_of(client, act, 404)


@pytest.mark.parametrize(
    "address",
    [
        ["billing.invoice", "999"],
        ["billing.invoice", "not a number"],
        ["gone.model", "1"],
        ["nonsense", "1"],
        ["auth.user", "1"],
    ],
)
def test_of_what_nothing_is_known_there_is_no_page(address: list[str]) -> None:
    text_of(client_with(), reverse("admin:idempotent_actions_subject", args=address), 404)


def test_a_trail_of_a_model_that_was_removed_is_still_told() -> None:
    values = {"subject_model": "gone.model", "subject_pk": "a/b_c", "acted_at": DUE}
    Escalation.objects.create(key="k", transition="left", actor=RTL, reason=RTL, **values)
    from idempotent_actions.admin.base import subject_page

    text = text_of(client_with(), subject_page("admin", "gone.model", "a/b_c"))
    assert "left" in text
    assert RTL in text


def test_an_act_that_is_none_or_on_no_ladder_is_not_found() -> None:
    invoice = make_invoice()
    client = client_with("hold_subject")
    text_of(client, page_of(invoice, "explode"), 404)
    user = User.objects.get()
    text_of(client, page_of(user, "hold"), 404)


class TestTheHostsOwnPage:
    """The example's invoices show it."""

    def page(self, invoice: Invoice) -> str:
        return reverse("admin:billing_invoice_change", args=[invoice.pk])

    def test_it_links_to_the_timeline_and_to_the_acts_a_person_may_do(self) -> None:
        invoice = make_invoice()
        client = client_with("hold_subject", "view_invoice")
        text = text_of(client, self.page(invoice))
        assert page_of(invoice) in text
        assert page_of(invoice, "hold") in text
        assert page_of(invoice, "escalate") not in text
        assert page_of(invoice, "release") not in text

    def test_without_the_permission_to_see_there_is_no_link(self) -> None:
        invoice = make_invoice()
        user = User.objects.create_user("clerk", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename="view_invoice"))
        client = Client()
        client.force_login(user)
        assert page_of(invoice) not in text_of(client, self.page(invoice))

    def test_a_form_opened_at_one_rung_and_saved_after_a_tick_changes_neither(self) -> None:
        invoice = make_invoice()
        client = client_with("change_invoice", "view_invoice")
        form = client.get(self.page(invoice)).context["adminform"].form
        tick()
        climbed = now_there(invoice)

        values = {name: form.get_initial_for_field(f, name) for name, f in form.fields.items()}
        values |= {"status": "open", "rung": "", "cycle": "1", "revision": "0", "next_at": ""}
        values |= {"customer": "New Name", "due_at_0": "2026-03-02", "due_at_1": "08:00:00"}
        posted = {name: value for name, value in values.items() if value is not None}
        response = client.post(self.page(invoice), posted)

        assert response.status_code == 302
        there = now_there(invoice)
        assert there.customer == "New Name"
        for column in ("status", "rung", "cycle", "revision", "next_at", "escalated_at"):
            assert getattr(there, column) == getattr(climbed, column)
        assert (there.status, there.rung, there.next_at) == ("escalated", "reminder", DUE + WEEK)

    def test_a_new_row_has_no_ladder_yet(self) -> None:
        client = client_with("add_invoice", "view_invoice")
        assert "Ladder</h2>" not in text_of(client, reverse("admin:billing_invoice_add"))
