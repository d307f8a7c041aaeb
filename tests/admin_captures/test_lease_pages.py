"""Leases and deferred calls as they are listed and shown."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from idempotent_actions.models import DeferredCall, Lease
from tests.admin_captures.pages import LONG, RTL, address, list_page, list_rows, row_page
from tests.overview.making import NOW, client_with

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


@pytest.fixture
def viewer() -> Client:
    return client_with("view_lease", "view_deferredcall")


def make_lease(name: str, expires_at: Any = NOW) -> Lease:
    values: dict[str, Any] = {"token": UUID(int=0), "owner": "host:7", "taken_at": NOW}
    return Lease.objects.create(name=name, expires_at=expires_at, **values)


def make_call(name: str, **columns: Any) -> DeferredCall:
    when: dict[str, Any] = {"asked_at": NOW, "latest_at": NOW, "due_at": NOW}
    return DeferredCall.objects.create(name=name, **{"function": "a.b", **when, **columns})


def test_a_lease_has_lapsed_at_its_end_by_the_databases_clock(viewer: Client) -> None:
    make_lease("held", NOW + SECOND)
    make_lease("over", NOW)
    assert {each.name: each.ia_lapsed for each in list_rows(viewer, Lease)} == {
        "held": False,
        "over": True,
    }
    for each in Lease.objects.all():
        assert "host:7" in row_page(viewer, each)


def test_arguments_of_a_call_are_on_its_own_page_alone(viewer: Client) -> None:
    call = make_call("k", args=["ann@example.org"], kwargs={"city": RTL}, error="x" * 300)
    listed = list_page(viewer, DeferredCall)
    shown = row_page(viewer, call)
    for private in ("ann@example.org", RTL):
        assert private not in listed
        assert private in shown
    assert "x" * 101 not in listed
    assert "x" * 300 in shown


@pytest.mark.parametrize("model", [Lease, DeferredCall])
def test_they_are_found_by_their_whole_name_alone(model: Any, viewer: Client) -> None:
    make: Any = make_lease if model is Lease else make_call
    for name in ("search of ann", "search of bob"):
        make(name)
    assert [each.name for each in list_rows(viewer, model, "q=search+of+ann")] == ["search of ann"]
    assert list_rows(viewer, model, "q=search") == []
    by_hand = f"{address(model, 'changelist')}?{'owner' if model is Lease else 'args'}__contains=a"
    assert viewer.get(by_hand).status_code == 400


@pytest.mark.parametrize("model", [Lease, DeferredCall])
def test_statements_dont_grow_with_the_rows(model: Any, viewer: Client) -> None:
    make: Any = make_lease if model is Lease else make_call
    counts = []
    for number in (1, 40):
        for each in range(number):
            make(f"{number}-{each}")
        with CaptureQueriesContext(connection) as asked:
            list_rows(viewer, model)
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 15


def test_odd_rows_are_shown(viewer: Client) -> None:
    calls = [
        make_call("<b>", function="gone.module.function", error=LONG, args=[None, {"a": []}]),
        make_call(RTL, function=RTL, error=RTL, kwargs={RTL: RTL}),
    ]
    lease = make_lease("</title>" + RTL)
    pages = [row_page(viewer, each) for each in [*calls, lease]]
    pages += [list_page(viewer, Lease), list_page(viewer, DeferredCall)]
    assert "&lt;the end&gt;" in pages[0]
    assert not [page for page in pages if "<b>" in page]


@pytest.mark.parametrize("make", [make_lease, make_call])
def test_not_even_a_superuser_changes_them(make: Any, viewer: Client) -> None:
    row = make("k")
    viewer.force_login(User.objects.create_superuser("root"))
    before = list(type(row).objects.values())
    for page in ("add", "change", "delete"):
        where = address(type(row), page, *([] if page == "add" else [row.pk]))
        assert viewer.post(where, {"name": "other", "post": "yes"}).status_code == 403
    assert list(type(row).objects.values()) == before
