"""A person's decision in the admin: about what was seen, once, by a service, and written down."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from idempotent_actions import services
from idempotent_actions.models import Capture, CaptureDecision
from tests.admin_captures.pages import (
    DECIDING,
    RTL,
    address,
    confirm,
    decide_address,
    decide_page,
    messages,
    row_page,
)
from tests.overview.making import client_with, make_capture

pytestmark = pytest.mark.django_db

NEEDS = {
    "retry_same_key": "decide_capture",
    "mark_succeeded": "decide_capture",
    "mark_failed": "decide_capture",
    "retry_new_key": "renew_capture",
    "void": "decide_capture",
    "rerun_hook": "decide_capture",
}
EXTRA: dict[str, dict[str, Any]] = {"mark_succeeded": {"provider_ref": "ref 1"}}
COMES_TO = {
    "retry_same_key": "pending",
    "mark_succeeded": "succeeded",
    "mark_failed": "failed",
    "retry_new_key": "pending",
    "void": "void",
}
each_decision = pytest.mark.parametrize("name", NEEDS)
each_recorded = pytest.mark.parametrize("name", COMES_TO)


def in_review(key: object = "k", **columns: Any) -> Capture:
    return make_capture(key, "review", **{"hook_error": "ValueError: no", **columns})


def rows() -> list[Any]:
    return [*Capture.objects.order_by("id").values(), *CaptureDecision.objects.values()]


@each_recorded
def test_a_decision_is_what_the_service_does_and_bears_the_persons_name(
    name: str, client: Client
) -> None:
    capture = in_review()
    response = confirm(client, name, capture, **EXTRA.get(name, {}))
    assert response.redirect_chain == [(address(Capture, "change", capture.pk), 302)]
    capture.refresh_from_db()
    assert capture.state == COMES_TO[name]
    assert capture.generation == (2 if name == "retry_new_key" else 1)
    made = CaptureDecision.objects.get()
    assert made.actor == User.objects.get().username
    assert (made.note, made.provider_ref) == ("because", capture.provider_ref)
    assert capture.provider_ref == ("ref 1" if name == "mark_succeeded" else "")
    assert "nothing was done" not in messages(response)
    assert "because" in LogEntry.objects.get().change_message


@each_decision
def test_looking_changes_nothing(name: str, client: Client) -> None:
    capture = in_review()
    before = rows()
    client.get(decide_address(name, capture))
    client.head(decide_address(name, capture))
    assert rows() == before


@each_decision
def test_it_needs_a_note(name: str, client: Client) -> None:
    capture = in_review()
    before = rows()
    for note in ("", "   ", "n" * 256, "a\0b"):
        response = confirm(client, name, capture, **{**EXTRA.get(name, {}), "note": note})
        assert response.status_code == 200
        assert response.context["form"].errors["note"]
        assert rows() == before


def test_what_is_said_to_be_done_needs_the_providers_reference(client: Client) -> None:
    capture = in_review()
    before = rows()
    for given in ({}, {"provider_ref": " "}, {"provider_ref": "n" * 256}):
        response = confirm(client, "mark_succeeded", capture, **given)
        assert response.context["form"].errors["provider_ref"]
        assert rows() == before


def test_what_a_service_refuses_is_said_in_the_form_and_nothing_is_written(
    client: Client,
) -> None:
    capture = in_review()
    before = rows()
    response = confirm(client, "retry_new_key", capture, refresh="on")
    assert response.status_code == 200
    assert "belongs to no act" in response.content.decode()
    assert rows() == before


def test_a_name_too_long_for_the_record_is_said_once_for_all(client: Client) -> None:
    User.objects.update(username="u" * 150)
    captures = [in_review("a"), in_review("b")]
    sent = decide_page(client, "void", *captures)
    User.objects.filter(pk=User.objects.get().pk).update(username="   ")
    before = rows()
    response = client.post(decide_address("void", *captures), {**sent, "note": "because"})
    assert "by must be a text" in response.content.decode()
    assert rows() == before


MOVES: dict[str, Callable[[Capture], object]] = {
    "state": lambda capture: services.mark_failed(capture, note="meanwhile", by="ann"),
    "token": lambda capture: Capture.objects.filter(pk=capture.pk).update(token=2),
    "generation": lambda capture: Capture.objects.filter(pk=capture.pk).update(generation=2),
}


@pytest.mark.parametrize("move", MOVES)
@each_decision
def test_one_that_has_moved_since_the_page_was_opened_is_left_alone(
    name: str, move: str, client: Client
) -> None:
    capture = in_review()
    sent = {**decide_page(client, name, capture), "note": "because", **EXTRA.get(name, {})}
    MOVES[move](capture)
    before = rows()
    response = client.post(decide_address(name, capture), sent, follow=True)
    assert "It has moved since you looked: nothing was done." in messages(response)
    assert rows() == before
    assert not LogEntry.objects.exists()


@each_recorded
def test_a_page_posted_twice_is_one_decision_and_the_second_answer_says_so(
    name: str, client: Client
) -> None:
    capture = in_review()
    sent = {**decide_page(client, name, capture), "note": "because", **EXTRA.get(name, {})}
    client.post(decide_address(name, capture), sent, follow=True)
    after_one = rows()
    response = client.post(decide_address(name, capture), sent, follow=True)
    assert "nothing was done" in messages(response)
    assert rows() == after_one


@pytest.mark.parametrize("hidden", ["state", "token", "generation"])
@pytest.mark.parametrize("forged", [None, "", "nonsense", "-1", "1" * 30])
@each_decision
def test_without_what_was_seen_nothing_is_done(
    name: str, hidden: str, forged: str | None, client: Client
) -> None:
    capture = in_review()
    sent = {**decide_page(client, name, capture), "note": "because", **EXTRA.get(name, {})}
    del sent[f"{hidden}_{capture.pk}"]
    if forged is not None:
        sent[f"{hidden}_{capture.pk}"] = forged
    before = rows()
    response = client.post(decide_address(name, capture), sent, follow=True)
    said = response.content.decode()
    assert "what you saw" in said or "It has moved since you looked" in said
    assert rows() == before


@each_decision
def test_without_its_permission_there_is_no_page_and_nothing_is_done(name: str) -> None:
    capture = in_review()
    sent = {"id": capture.pk, "note": "because", "provider_ref": "x", "refresh": "on"}
    sent |= {f"state_{capture.pk}": "review", f"token_{capture.pk}": 1}
    sent |= {f"generation_{capture.pk}": 1}
    before = rows()
    others = {*DECIDING, "view_run", "escalate_subject"} - {NEEDS[name]}
    for permissions in (("view_capture",), tuple(others), (NEEDS[name],)):
        client = client_with(*permissions)
        User.objects.filter(username=f"staff with {len(permissions)}").update(username="x")
        assert client.get(decide_address(name, capture)).status_code == 403
        assert client.post(decide_address(name, capture), sent).status_code == 403
        User.objects.all().delete()
    assert rows() == before


@pytest.mark.parametrize("forged", ["explode", "claim", "succeed", "retry", "__init__", "Void"])
def test_a_decision_that_is_none_is_not_found(forged: str, client: Client) -> None:
    capture = in_review()
    assert client.get(decide_address(forged, capture)).status_code == 404
    assert client.post(decide_address(forged, capture), {"id": capture.pk}).status_code == 404


@pytest.mark.parametrize(
    "ids", ["", "id=", "id=x", "id=-1", "id=99999", f"id={'9' * 40}", "id=1.5"]
)
def test_of_captures_that_are_none_there_is_no_page(ids: str, client: Client) -> None:
    assert client.get(f"{decide_address('void')}{ids}").status_code == 404


@pytest.mark.parametrize("name", ["mark_succeeded", "retry_new_key"])
def test_what_is_decided_one_by_one_has_no_page_for_two(name: str, client: Client) -> None:
    captures = [in_review("a"), in_review("b")]
    assert client.get(decide_address(name, *captures)).status_code == 404
    assert (
        client.post(decide_address(name), {"id": [each.pk for each in captures]}).status_code == 404
    )


def test_more_than_a_hundred_have_no_page(client: Client) -> None:
    captures = [in_review(each) for each in range(101)]
    assert client.get(decide_address("void", *captures)).status_code == 404
    assert client.get(decide_address("void", *captures[1:])).status_code == 200


def test_many_are_decided_each_for_itself_and_each_is_answered(client: Client) -> None:
    good, moved, wrong = in_review("good"), in_review("moved"), make_capture("wrong", "succeeded")
    sent = decide_page(client, "void", good, moved, wrong)
    assert sent["id"] == [good.pk, moved.pk]
    MOVES["state"](moved)
    response = client.post(
        decide_address("void", good, moved, wrong), {**sent, "note": "because"}, follow=True
    )
    assert response.redirect_chain == [(address(Capture, "changelist"), 302)]
    said = messages(response)
    assert f"{good.pk}: It is given up." in said
    assert f"{moved.pk}: It has moved since you looked" in said
    states = dict(Capture.objects.values_list("key", "state"))
    assert states == {"good": "void", "moved": "failed", "wrong": "succeeded"}


def test_where_the_state_allows_nothing_there_is_nothing_to_send(client: Client) -> None:
    capture = make_capture("k", "succeeded")
    page = client.get(decide_address("void", capture)).content.decode()
    assert "its state doesn&rsquo;t allow that" in page
    assert 'type="submit"' not in page.replace("Log out", "").split("content-main")[1]


def test_a_note_in_any_script_is_shown_as_it_was_written(client: Client) -> None:
    capture = in_review()
    confirm(client, "mark_failed", capture, note=RTL)
    assert f'<td dir="auto">{RTL}</td>' in row_page(client, capture)
