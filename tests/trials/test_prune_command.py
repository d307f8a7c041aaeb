"""``prune_captures``: what it takes, blanks and leaves. And nothing is done again after it."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from idempotent_actions import services
from idempotent_actions.models import Capture
from idempotent_actions.testing import travel
from tests.hosts import outside
from tests.invoices import DUE
from tests.trials.commands import Ran, parcel
from tests.trials.posting import WEEK

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _due() -> Iterator[None]:
    with travel(DUE):
        yield


@pytest.fixture
def old() -> Capture:
    """One that was done a day ago."""
    capture = parcel("a")
    with travel(DUE - timedelta(days=1)):
        Capture.objects.update(wake_at=DUE - WEEK)
        services.deliver()
    capture.refresh_from_db()
    assert capture.state == "succeeded"
    return capture


def test_blanks_what_is_older_and_keeps_what_prevents_a_repetition(old: Capture) -> None:
    assert Ran("prune_captures", "--older-than", "23h").out == "1 captures pruned\n"
    pruned = Capture.objects.get()
    assert (pruned.params, pruned.result) == ({}, None)
    assert (pruned.key, pruned.fingerprint) == (old.key, old.fingerprint)
    assert (pruned.state, pruned.provider_ref) == ("succeeded", "parcel 1")
    assert parcel("a") == pruned
    assert Ran("deliver_captures").status == 0
    assert outside.called() == 1


def test_leaves_what_is_younger(old: Capture) -> None:
    assert Ran("prune_captures", "--older-than", "25h").out == "0 captures pruned\n"
    assert Capture.objects.get().params == old.params


def test_a_dry_run_counts_only(old: Capture) -> None:
    ran = Ran("prune_captures", "--older-than", "1h", "--dry-run", "--json")
    assert (ran.status, ran.json) == (0, {"dry_run": True, "pruned": 1})
    assert Capture.objects.get().params == old.params
    assert Ran("prune_captures", "--older-than", "1h", "--json").json["pruned"] == 1
    assert Ran("prune_captures", "--older-than", "1h", "--json").json["pruned"] == 0


@pytest.mark.parametrize("age", ["", "365", "0d", "-1d", "1y", "d", "1.5d", "9" * 9 + "w"])
def test_an_age_that_is_none_is_refused(age: str, old: Capture) -> None:
    ran = Ran("prune_captures", f"--older-than={age}")
    assert "--older-than" in ran.error
    assert Capture.objects.get().params == old.params


def test_without_an_age_nothing_is_pruned(old: Capture) -> None:
    assert "--older-than" in Ran("prune_captures").error
    assert Capture.objects.get().params == old.params
