"""A lease is held by one at a time, for a while, by the database's clock."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from idempotent_actions.exceptions import InsideTransaction, InvalidInput
from idempotent_actions.leases import Held, forget_lapsed, take
from idempotent_actions.models import Lease
from idempotent_actions.testing import travel
from tests.ledger.moments import after
from tests.processes import Children, Meet
from tests.threads import together

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


def test_one_at_a_time_holds_it() -> None:
    held = take("job", MINUTE)
    assert held is not None
    assert take("job", MINUTE) is None
    assert take("another job", MINUTE) is not None
    assert held.release()
    assert take("job", MINUTE) is not None


def test_it_lapses_at_its_end_and_not_before() -> None:
    with after():
        first = take("job", MINUTE)
    with after(seconds=59):
        assert take("job", MINUTE) is None
    with after(seconds=60):
        second = take("job", MINUTE)
    assert first is not None
    assert second is not None
    assert first.token != second.token


def test_renewed_it_lasts_as_long_again() -> None:
    with after():
        held = take("job", MINUTE)
    assert held is not None
    with after(seconds=50):
        assert held.renew()
    with after(seconds=109):
        assert take("job", MINUTE) is None
    with after(seconds=110):
        assert take("job", MINUTE) is not None


def test_one_that_lapsed_and_that_nobody_took_is_renewed() -> None:
    with after():
        held = take("job", MINUTE)
    assert held is not None
    with after(hours=1):
        assert held.renew()
        assert take("job", MINUTE) is None


@pytest.mark.parametrize("late", [Held.renew, Held.release], ids=["renew", "release"])
def test_who_comes_back_late_changes_nothing(late: Callable[[Held], bool]) -> None:
    with after():
        first = take("job", MINUTE)
    with after(minutes=2):
        assert take("job", MINUTE) is not None
        there = Lease.objects.values().get()
        assert first is not None
        assert not late(first)
        assert Lease.objects.values().get() == there


def test_a_foreign_token_frees_nothing() -> None:
    assert take("job", MINUTE) is not None
    assert not Held("job", uuid4(), MINUTE).release()
    assert take("job", MINUTE) is None


def test_of_many_who_ask_at_once_one_gets_it() -> None:
    for lapsed in (False, True):
        if lapsed:
            Lease.objects.update(expires_at="2000-01-01T00:00Z")
        answers = together(*[lambda: take("job", MINUTE)] * 8)
        assert len([answer for answer in answers if answer is not None]) == 1
    assert Lease.objects.count() == 1


def hold(meet: Meet) -> None:
    """Take the lease, and wait to be killed."""
    assert take("job", MINUTE)
    meet()
    signal.pause()


def test_who_is_killed_holding_it_blocks_it_until_it_lapses() -> None:
    with Children("tests.runs.test_leases.hold", []) as children:
        children.gather()
        os.kill(children.each[0].process.pid, signal.SIGKILL)
    assert take("job", MINUTE) is None
    with travel(Lease.objects.get().expires_at):
        assert take("job", MINUTE) is not None


def test_it_is_not_taken_inside_a_transaction() -> None:
    with pytest.raises(InsideTransaction, match="can't be taken inside"), transaction.atomic():
        take("job", MINUTE)
    assert not Lease.objects.exists()


def test_those_that_lapsed_long_ago_are_forgotten() -> None:
    with after():
        take("old", MINUTE)
    with after(hours=1):
        take("young", MINUTE)
    with after(days=1, minutes=1):
        assert forget_lapsed() == 1
    assert Lease.objects.get().name == "young"


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 256, 7, None])
def test_a_name_is_text_that_every_database_takes(name: Any) -> None:
    with pytest.raises(InvalidInput, match="A lease's name is text of 1 to 255 characters"):
        take(name, MINUTE)


@pytest.mark.parametrize("lasts", [60, None, timedelta(0), -MINUTE, timedelta(days=4000)])
def test_it_lasts_for_a_length_of_time_above_zero(lasts: Any) -> None:
    with pytest.raises(InvalidInput, match="must be a timedelta above zero"):
        take("job", lasts)
    assert not Lease.objects.exists()
