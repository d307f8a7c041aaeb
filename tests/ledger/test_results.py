"""Whatever an effect returns, it is done; what can't be stored is kept as its repr."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from idempotent_actions import NotSent, Receipt, Refused, services, settling
from idempotent_actions.barrier import Claim, pass_barrier
from idempotent_actions.models import Capture
from idempotent_actions.running import call_of, run_effect
from tests.ledger.moments import after, now_there
from tests.ledger.outside import Behaviour, book, charge, mail, plan, raising, returning

pytestmark = pytest.mark.django_db


class Plain:
    def __repr__(self) -> str:
        return "<plain>"


class Nasty:
    """Can't even be shown."""

    def __init__(self, error: type[Exception] = ValueError) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error("no")


class Surrogate:
    def __repr__(self) -> str:
        return "<\ud800\0>"


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def perform(behaviour: Behaviour) -> Capture:
    plan.append(behaviour)
    with after():
        return services.perform(mail, key="k")


AS_IT_IS: list[Any] = [None, True, 0, "", "text 😀", 1.5, 10**300, 10**400, -(10**4000),
                       [], {}, {"a": [1, {"b": None}]}]  # fmt: skip


@pytest.mark.parametrize("result", AS_IT_IS, ids=lambda each: ascii(each)[:20])
def test_json_is_stored_as_it_is_and_given_to_every_later_caller(result: Any) -> None:
    capture = perform(returning(result))
    assert (capture.state, capture.result, capture.result_is_repr) == ("succeeded", result, False)
    assert services.perform(mail, key="k").result == result
    assert len(book()) == 1


AS_REPR: list[tuple[Any, str]] = [
    (Plain(), "<plain>"),
    (float("nan"), "nan"),
    ([1, float("inf")], "[1, inf]"),
    ({1}, "{1}"),
    (b"a\0", r"b'a\x00'"),
    (Decimal("1E+400"), "Decimal('1E+400')"),
    (timedelta(1), "datetime.timedelta(days=1)"),
    ({"a": Plain()}, "{'a': <plain>}"),
    ({("a", 1): 2}, "{('a', 1): 2}"),
    ("\ud800", "?"),
    ("a\0b", "a\ufffdb"),
    ({"\udfff": 1}, r"{'\udfff': 1}"),
    (Nasty(), "<Nasty>"),
    (Nasty(RecursionError), "<Nasty>"),
    ([Nasty()], "<list>"),
    (Surrogate(), "<?\ufffd>"),
    (10**5000, "<int>"),
    (nested(100_000), "<list>"),
]


@pytest.mark.parametrize(("result", "kept"), AS_REPR, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: Receipt("ref", each)])
def test_anything_else_is_kept_as_its_repr(
    wrap: Callable[[Any], Any], result: Any, kept: str
) -> None:
    capture = perform(returning(wrap(result)))
    assert (capture.state, capture.result_is_repr) == ("succeeded", True)
    assert capture.result == kept
    assert capture.error is None
    assert len(book()) == 1
    with after(days=9):
        services.deliver(workers=0)
    assert len(book()) == 1


def test_an_endless_repr_is_cut() -> None:
    capture = perform(returning({"x" * 50_000}))
    assert capture.result_is_repr
    assert len(str(capture.result)) == 10_000


@pytest.mark.parametrize("depth", [500, 900])
def test_a_result_that_is_nested_deeply_is_a_success_as_well(depth: int) -> None:
    assert perform(returning(nested(depth))).state == "succeeded"


REFS: list[tuple[Any, str]] = [
    ("r" * 255, "r" * 255),
    ("r" * 3000, "r" * 255),
    ("a\0b", "a\ufffdb"),
    ("\ud800", "?"),
    (42, "42"),
    (None, ""),
    (Nasty(), "<Nasty>"),
]


@pytest.mark.parametrize(("ref", "kept"), REFS, ids=lambda each: type(each).__name__)
def test_a_strange_reference_is_kept_as_well_as_it_can_be(ref: Any, kept: str) -> None:
    capture = perform(returning(Receipt(provider_ref=ref)))
    assert (capture.state, capture.provider_ref) == ("succeeded", kept)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


class Coded(Exception):
    code = 402


class Locked(Exception):
    @property
    def code(self) -> str:
        raise KeyError("no")


ERRORS: list[tuple[Exception, dict[str, str]]] = [
    (ValueError("a\0\ud800"), {"class": "ValueError", "code": "", "message": "a\ufffd?"}),
    (ValueError("x" * 5000), {"class": "ValueError", "code": "", "message": "x" * 1000}),
    (Mute(), {"class": "Mute", "code": "", "message": "<Mute>"}),
    (Coded("no"), {"class": "Coded", "code": "", "message": "no"}),
]


@pytest.mark.parametrize(("error", "kept"), ERRORS, ids=lambda each: type(each).__name__)
def test_an_error_is_kept_as_class_code_and_message(error: Exception, kept: dict[str, str]) -> None:
    capture = perform(raising(error))
    assert (capture.state, capture.error) == ("review", kept)


def test_an_error_whose_code_cant_be_read_is_an_error_like_any_other() -> None:
    assert perform(raising(Locked())).state == "review"


@pytest.mark.parametrize("error", [NotSent(), Refused()], ids=lambda each: type(each).__name__)
def test_an_error_needs_no_message(error: Exception) -> None:
    capture = perform(raising(error))
    assert capture.error is not None
    assert capture.error["message"]


# -- a success that comes late


def test_a_late_success_takes_back_what_was_said_while_nobody_knew() -> None:
    with after():
        capture = services.request(mail, key="k")
        claim = pass_barrier(capture, None, "default")
        assert isinstance(claim, Claim)
    with after(minutes=2):
        services.deliver(workers=0)
        assert now_there(capture).state == "review"
    with after(minutes=3):
        verdict = run_effect(mail, call_of(claim.capture, mail, None))
        assert settling.settle(claim, verdict, "default") == "succeeded"
    capture = now_there(capture)
    assert (capture.state, capture.error, capture.waiting_for) == ("succeeded", None, "")


def test_each_provider_is_told_the_same_at_each_try() -> None:
    calls: list[Any] = []

    def note(call: Any) -> Any:
        calls.append(call)
        raise NotSent("not yet")

    plan.extend([note, note])
    with after() as now:
        capture = services.perform(charge, key=("order", 7), params={"amount": Decimal("9.90")})
    with after(minutes=1):
        services.deliver(workers=0)
    for number, call in enumerate(calls, 1):
        assert call.params == {"amount": Decimal("9.90")}
        assert (call.key, call.idempotency_key) == ("order:7", capture.provider_key)
        assert (call.attempt, call.first_sent_at, call.timeout) == (number, now, 30.0)
    assert len(calls[0].idempotency_key) == 36


def test_a_late_word_whose_answer_was_lost_is_late_the_second_time_as_well() -> None:
    with after():
        capture = services.request(charge, key="k")
        claim = pass_barrier(capture, None, "default")
        assert isinstance(claim, Claim)
    with after(minutes=2):
        services.deliver(workers=0)  # another worker takes over, and is done
    with after(minutes=3):
        verdict = run_effect(charge, call_of(claim.capture, charge, None))
        for _answer_lost in range(2):
            assert settling.settle(claim, verdict, "default") == "late"
