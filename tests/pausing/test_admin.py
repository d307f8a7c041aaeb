"""The admin's pauses: listed for those who may see them, set and lifted by those who may."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from idempotent_actions.models import Pause
from tests.invoices import LADDER
from tests.ledger.moments import NOW, after
from tests.pausing.standing import ACTION, EVERYTHING, MAIL, Settling, lift, pause
from tests.registering import only

pytestmark = pytest.mark.django_db

LIST = "/admin/idempotent_actions/pause/"
SET = "/admin/idempotent_actions/pause/set/"
RTL = "\u05e9\u05dc\u05d5\u05dd <b>\u202egnp.exe</b>"


@pytest.fixture(autouse=True)
def _now() -> Iterator[None]:
    with only(Settling), after():
        yield


def client_with(*permissions: str) -> Client:
    """A staff member's browser."""
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def client() -> Client:
    return client_with("view_pause", "set_pause")


def lift_page(one: Pause) -> str:
    return reverse("admin:idempotent_actions_pause_lift", args=[one.pk])


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def rows(page: str) -> list[str]:
    """The words of each row of the list."""
    body = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return [row for row in body.split("<tr") if "field-state" in row]


@pytest.mark.parametrize(
    ("what", "then"),
    [
        ("everything", EVERYTHING),
        (f"action:{LADDER}", ACTION),
        ("effect:ledger.mail", MAIL),
    ],
)
def test_it_is_set_with_who_why_and_until_when(
    what: str, then: tuple[str, str], client: Client
) -> None:
    assert SET in text_of(client, LIST)
    assert f'value="{what}"' in text_of(client, SET)
    given = {"what": what, "reason": RTL, "until": "2026-03-02T12:00"}
    response = client.post(SET, given, follow=True)
    assert response.redirect_chain == [(LIST, 302)]
    made = Pause.objects.get()
    assert ((made.scope, made.name), made.reason, made.actor) == (then, RTL, "ada")
    assert made.until is not None
    assert made.until > NOW
    answer = response.content.decode()
    assert f"Paused: {made}." in answer
    assert escape(RTL) in answer
    assert RTL not in answer


BAD: list[tuple[dict[str, str], str]] = [
    ({"reason": ""}, "This field is required."),
    ({"reason": "   "}, "This field is required."),
    ({"reason": "x" * 256}, "at most 255 characters"),
    ({"what": ""}, "This field is required."),
    ({"what": "action:gone"}, "Select a valid choice."),
    ({"what": "all"}, "Select a valid choice."),
    ({"until": "tomorrow"}, "Enter a valid date/time."),
    ({"until": "2026-03-01T12:00"}, "until must lie in the future"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[str(given) for given, _ in BAD])
def test_what_is_wrong_is_said_on_the_form_and_nothing_is_paused(
    given: dict[str, str], message: str, client: Client
) -> None:
    response = client.post(SET, {"what": "everything", "reason": "a wrong rate", **given})
    assert response.status_code == 200
    assert message in response.content.decode()
    assert not Pause.objects.exists()


def test_it_is_lifted_with_who_and_why(client: Client) -> None:
    made = pause(*ACTION)
    assert lift_page(made) in text_of(client, LIST)
    assert LADDER in text_of(client, lift_page(made))
    assert "This field is required." in client.post(lift_page(made)).content.decode()
    assert Pause.objects.get().lifted_at is None

    response = client.post(lift_page(made), {"reason": "mended"}, follow=True)

    assert response.redirect_chain == [(LIST, 302)]
    stored = Pause.objects.get()
    assert (stored.lifted_at, stored.lifted_by, stored.lift_reason) == (NOW, "ada", "mended")
    answer = response.content.decode()
    assert f"No longer paused: {made}." in answer
    assert lift_page(made) not in answer


def test_lifting_it_twice_is_answered(client: Client) -> None:
    made = pause(*ACTION)
    lift(made)
    there = Pause.objects.values().get()
    assert "This pause is over already (lifted)" in text_of(client, lift_page(made))
    response = client.post(lift_page(made), {"reason": "mended"}, follow=True)
    assert "That pause was over already: nothing was done." in response.content.decode()
    assert Pause.objects.values().get() == there


def test_the_list_tells_what_has_become_of_each_newest_first(client: Client) -> None:
    pause(*EVERYTHING)
    pause(*ACTION, until=NOW + timedelta(hours=1))
    pause(*MAIL, until=NOW + timedelta(hours=3))
    lift(pause(*ACTION))
    lift(pause(*MAIL, until=NOW + timedelta(hours=1)))
    with after(hours=1):
        page = text_of(client, LIST)
    states = ["lifted", "lifted", "active", "ended", "active"]
    assert len(rows(page)) == len(states)
    for row, state in zip(rows(page), states, strict=True):
        assert f'<td class="field-state">{state}</td>' in row
        assert (">Lift</a>" in row) == (state == "active")


def test_one_row_is_shown_and_changed_by_nobody(client: Client) -> None:
    made = pause(*ACTION)
    address = f"{LIST}{made.pk}/change/"
    assert "a wrong rate" in text_of(client, address)
    assert client.post(address, {"reason": "another"}).status_code == 403
    assert Pause.objects.get().reason == "a wrong rate"


def test_there_is_no_pause_of_a_number_that_was_never_given(client: Client) -> None:
    assert client.get(f"{LIST}999/lift/").status_code == 404


@pytest.mark.parametrize(
    "permissions",
    [[], ["view_pause"], ["set_pause"], ["view_pause", "view_overview", "decide_capture"]],
    ids=str,
)
def test_without_both_permissions_there_is_no_button_and_nothing_happens(
    permissions: list[str],
) -> None:
    client, made = client_with(*permissions), pause(*ACTION)
    if "view_pause" in permissions:
        page = text_of(client, LIST)
        assert SET not in page
        assert lift_page(made) not in page
    given: dict[str, Any] = {"what": "everything", "reason": "a wrong rate"}
    for address in (SET, lift_page(made)):
        assert client.get(address).status_code == 403
        assert client.post(address, given).status_code == 403
    assert Pause.objects.get().lifted_at is None


def test_who_isnt_logged_in_is_asked_to() -> None:
    made = pause(*ACTION)
    for address in (SET, lift_page(made)):
        for answer in (Client().get(address), Client().post(address, {"reason": "mended"})):
            assert answer.status_code == 302
            assert answer.headers["Location"].startswith("/admin/login/")
    assert Pause.objects.get().lifted_at is None
