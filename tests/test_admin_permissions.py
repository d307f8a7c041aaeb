"""Who may open what, and do what: every address of the app's admin, every kind of person.

A crafted POST without the permission is refused and changes nothing; nobody at all adds, changes or
deletes what the app has recorded.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, reverse

from idempotent_actions.models import Capture, DeferredCall, Escalation, Lease, Pause, Run
from idempotent_actions.services import pause
from idempotent_actions.testing import tick, travel
from project.billing.models import Invoice
from tests.asking import DAY, HELD
from tests.invoices import DUE, LADDER, make_invoice

pytestmark = pytest.mark.django_db

NOBODY = frozenset({"nobody"})
"""Needed where nothing may be done by anyone."""


@dataclass(frozen=True)
class Page:
    """One address: what GET needs, and what POST does, which needs ``act``."""

    name: str
    get: frozenset[str]
    arguments: Callable[["World"], list[Any]] = lambda world: []
    query: Callable[["World"], str] = lambda world: ""
    post: frozenset[str] = NOBODY
    values: Callable[["World"], dict[str, Any]] = lambda world: {}
    title: str = ""

    def __str__(self) -> str:
        return self.title or self.name


@dataclass
class World:
    """A row of each kind."""

    invoice: Invoice
    held: Invoice
    over: Invoice
    capture: Capture
    pause: Pause
    rows: dict[str, Model] = field(default_factory=dict)


def needs(*codenames: str) -> frozenset[str]:
    return frozenset(codenames)


def subject_act(act: str, permission: str, of: str = "invoice") -> Page:
    def arguments(world: World) -> list[Any]:
        return ["billing.invoice", getattr(world, of).pk, act]

    def values(world: World) -> dict[str, Any]:
        seen = {"cycle": getattr(world, of).cycle, "rung": getattr(world, of).rung}
        return {"reason": "because", "until": (DUE + DAY).strftime("%Y-%m-%dT%H:%M"), **seen}

    both = needs("view_overview", permission)
    return Page("subject_act", both, arguments, post=both, values=values, title=f"subject: {act}")


def decision(name: str, permission: str) -> Page:
    def values(world: World) -> dict[str, Any]:
        one = world.capture
        seen = {"state": one.state, "token": one.token, "generation": one.generation}
        hidden = {f"{key}_{one.pk}": value for key, value in seen.items()}
        return {"id": one.pk, "note": "because", "provider_ref": "x", **hidden}

    both = needs("view_capture", permission)
    return Page(
        "capture_decide",
        both,
        lambda world: [name],
        lambda world: f"?id={world.capture.pk}",
        both,
        values,
        f"decide: {name}",
    )


def of_model(name: str) -> list[Page]:
    view = needs(f"view_{name}")
    one = NOBODY if name == "overview" else view  # it is no table, and shows no row

    def row(world: World) -> list[Any]:
        return [world.rows[name].pk]

    def crafted(world: World) -> dict[str, Any]:
        return {"action": "delete_selected", "_selected_action": row(world), "post": "yes"}

    return [
        Page(f"{name}_changelist", view, values=crafted),
        Page(f"{name}_add", NOBODY),
        Page(f"{name}_change", one, row),
        Page(f"{name}_history", one, row),
        Page(f"{name}_delete", NOBODY, row, values=lambda world: {"post": "yes"}),
    ]


MODELS = ["capture", "deferredcall", "escalation", "lease", "overview", "pause", "run"]
PAGES = [
    *[page for name in MODELS for page in of_model(name)],
    Page("subject", needs("view_overview"), lambda world: ["billing.invoice", world.invoice.pk]),
    subject_act("escalate", "escalate_subject"),
    subject_act("skip_rung", "escalate_subject"),
    subject_act("step_back", "escalate_subject", "held"),
    subject_act("hold", "hold_subject"),
    subject_act("release", "hold_subject", "held"),
    subject_act("resolve", "resolve_subject"),
    subject_act("cancel", "resolve_subject"),
    subject_act("reopen", "resolve_subject", "over"),
    Page("preview_index", needs("view_overview")),
    Page("preview", needs("view_overview"), lambda world: [LADDER]),
    Page("preview_csv", needs("view_overview", "export_preview"), lambda world: [LADDER]),
    decision("retry_same_key", "decide_capture"),
    decision("mark_succeeded", "decide_capture"),
    decision("mark_failed", "decide_capture"),
    decision("void", "decide_capture"),
    decision("retry_new_key", "renew_capture"),
    Page(
        "pause_set",
        needs("view_pause", "set_pause"),
        post=needs("view_pause", "set_pause"),
        values=lambda world: {"what": f"action:{LADDER}", "reason": "because"},
    ),
    Page(
        "pause_lift",
        needs("view_pause", "set_pause"),
        lambda world: [world.pause.pk],
        post=needs("view_pause", "set_pause"),
        values=lambda world: {"reason": "because"},
    ),
]
each_page = pytest.mark.parametrize("page", PAGES, ids=str)
each_act = pytest.mark.parametrize("page", [each for each in PAGES if each.post != NOBODY], ids=str)

PERMISSIONS = sorted({each for page in PAGES for each in page.get | page.post} - NOBODY)


@pytest.fixture
def world() -> Iterator[World]:
    with travel(DUE):
        done = make_invoice("done")
        tick()
        made = World(
            invoice=make_invoice("due"),
            held=make_invoice("held", status="escalated", rung="warning", next_at=DUE, **HELD),
            over=make_invoice("over", status="resolved", rung="reminder"),
            capture=Capture.objects.about(done).get(),
            pause=pause("effect", "post_invoice", reason="because", by="ada"),
        )
        Capture.objects.filter(pk=made.capture.pk).update(
            state="review", finished_at=None, waiting_for="lapsed"
        )
        made.capture.refresh_from_db()
        made.rows = {
            "capture": made.capture,
            "escalation": Escalation.objects.get(),
            "run": Run.objects.latest("id"),
            "overview": Run.objects.latest("id"),
            "pause": made.pause,
            "lease": Lease.objects.create(
                name="x", token="0" * 32, owner="me", taken_at=DUE, expires_at=DUE
            ),
            "deferredcall": DeferredCall.objects.create(
                name="x", function="a.b", asked_at=DUE, latest_at=DUE, due_at=DUE
            ),
        }
        yield made


def client_of(*codenames: str, staff: bool = True) -> Client:
    user = User.objects.create_user(f"clerk {User.objects.count()}", is_staff=staff)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def address(page: Page, world: World) -> str:
    arguments = page.arguments(world)
    return reverse(f"admin:idempotent_actions_{page.name}", args=arguments) + page.query(world)


def everything() -> dict[str, list[Any]]:
    """All rows that the app and the example keep."""
    kept = [
        model
        for label in ("idempotent_actions", "billing")
        for model in apps.get_app_config(label).get_models()
    ]
    return {each._meta.label: list(each._base_manager.order_by("pk").values()) for each in kept}


def test_no_address_is_left_out() -> None:
    registered = [
        each for each in admin.site._registry if each._meta.app_label == "idempotent_actions"
    ]
    assert sorted(each._meta.model_name or "" for each in registered) == MODELS
    patterns = [
        pattern
        for model in registered
        for pattern in admin.site._registry[model].get_urls()
        if isinstance(pattern, URLPattern) and pattern.name
    ]
    names = {re.sub("^idempotent_actions_", "", str(pattern.name)) for pattern in patterns}
    assert names == {page.name for page in PAGES}


@each_page
def test_without_a_staff_login_every_page_asks_for_one(page: Page, world: World) -> None:
    before = everything()
    for client in (Client(), client_of(*PERMISSIONS, staff=False)):
        for ask in (client.get, client.post):
            response = ask(address(page, world))
            assert response.status_code == 302
            assert response["Location"].startswith(reverse("admin:login"))
    assert everything() == before


@each_page
def test_a_single_permission_opens_what_needs_no_other_and_does_nothing_else(
    page: Page, world: World
) -> None:
    before = everything()
    viewing = {each for each in PERMISSIONS if each.startswith("view_")}
    for granted in [set[str](), *[{each} for each in PERMISSIONS], viewing]:
        if page.post <= granted:
            continue
        client, opens = client_of(*granted), page.get <= granted
        assert client.get(address(page, world)).status_code == (200 if opens else 403), granted
        posted = client.post(address(page, world), page.values(world))
        assert posted.status_code in ({200, 302, 403} if opens else {403}), granted
    assert everything() == before


@each_act
def test_each_permission_that_an_act_needs_is_needed_and_no_other(page: Page, world: World) -> None:
    before = everything()
    for missing in page.post:
        client = client_of(*(set(PERMISSIONS) - {missing}))
        assert client.get(address(page, world)).status_code == 403
        assert client.post(address(page, world), page.values(world)).status_code == 403
    assert everything() == before
    response = client_of(*page.post).post(address(page, world), page.values(world))
    assert response.status_code == 302
    assert everything() != before


@each_page
def test_looking_changes_nothing_and_not_even_a_superuser_changes_what_is_recorded(
    page: Page, world: World
) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    before = everything()
    assert client.get(address(page, world)).status_code == (403 if page.get == NOBODY else 200)
    client.head(address(page, world))
    if page.post == NOBODY:
        client.post(address(page, world), page.values(world))
    assert everything() == before
