"""A rehearsal: the host's code runs, and the database is as if it had not."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction

from idempotent_actions.rehearsing import Rehearsal
from tests.explaining.parcels import make_parcel
from tests.oddities.models import Parcel
from tests.threads import DEADLINE, together

pytestmark = pytest.mark.django_db(transaction=True)

only_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="speaks of PostgreSQL's locks and errors"
)


def write() -> int:
    return Parcel.objects.update(weight=7)


def write_in_a_block_of_its_own() -> int:
    with transaction.atomic():
        return write()


def write_after_the_commit() -> None:
    transaction.on_commit(write)


def write_after_the_commit_of_its_own_block() -> None:
    with transaction.atomic():
        transaction.on_commit(write)


def write_and_raise() -> None:
    write()
    raise LookupError("no such carrier")


def write_what_is_refused() -> None:
    Parcel.objects.create(pk=Parcel.objects.get().pk, name="again")


def swallow_an_error() -> None:
    with contextlib.suppress(IntegrityError):
        write_what_is_refused()


def run(*parts: Callable[[], Any]) -> list[Any]:
    with Rehearsal("default") as rehearsal:
        return [rehearsal.run(part) for part in parts]


WRITERS = [
    write,
    write_in_a_block_of_its_own,
    write_after_the_commit,
    write_after_the_commit_of_its_own_block,
    write_and_raise,
    write_what_is_refused,
    swallow_an_error,
]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside a transaction"])
@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_that_is_written_stays(writer: Callable[[], Any], inside: bool) -> None:
    make_parcel()
    if inside:
        with transaction.atomic():
            run(writer, writer)
    else:
        run(writer, writer)
    assert Parcel.objects.get().weight == 1


def test_a_part_sees_what_it_has_written_and_the_next_one_does_not() -> None:
    make_parcel()

    def write_and_read() -> tuple[int, int]:
        before = Parcel.objects.get().weight
        write()
        return before, Parcel.objects.get().weight

    assert run(write_and_read, write_and_read) == [(1, 7), (1, 7)]


@only_postgresql
def test_an_error_is_that_parts_own_a_swallowed_one_as_well() -> None:
    make_parcel()
    raised, refused, swallowed, count = run(
        write_and_raise, write_what_is_refused, swallow_an_error, Parcel.objects.count
    )
    assert repr(raised) == "LookupError('no such carrier')"
    assert isinstance(refused, IntegrityError)
    assert isinstance(swallowed, transaction.TransactionManagementError)
    assert count == 1


def test_a_part_that_sends_no_statement_costs_none(
    django_assert_num_queries: Any,
) -> None:
    with transaction.atomic(), django_assert_num_queries(0):
        assert run(lambda: 1, lambda: 2) == [1, 2]


@only_postgresql
def test_a_lock_is_given_back_as_soon_as_its_part_is_over() -> None:
    parcel = make_parcel()
    written, given_back = threading.Event(), threading.Event()

    def rehearse() -> None:
        with Rehearsal("default") as rehearsal:
            rehearsal.run(write)
            written.set()
            assert given_back.wait(DEADLINE)

    def lock() -> None:
        assert written.wait(DEADLINE)
        with transaction.atomic():
            Parcel.objects.select_for_update().get(pk=parcel.pk)
        given_back.set()

    together(rehearse, lock)


@only_postgresql
def test_what_ends_the_whole_transaction_is_raised() -> None:
    def fail() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")

    with pytest.raises(Exception, match="40P01") as caught, Rehearsal("default") as rehearsal:
        rehearsal.run(fail)
    assert getattr(caught.value.__cause__, "sqlstate", "") == "40P01"
    assert not connection.in_atomic_block
