"""An effect that can't work is refused where it is declared, and secrets stay secret."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from idempotent_actions import Park, Receipt, Reconcile, Refused, Replay, captures, effect
from idempotent_actions.effects import Call
from idempotent_actions.exceptions import InvalidEffect
from idempotent_actions.models import Capture


def plain(call: Call) -> None:
    """A function that would do."""


async def waits(call: Call) -> None:
    """Calling it does nothing."""


def yields(call: Call) -> Iterator[None]:
    yield None


def takes_nothing() -> None:
    """It can't be told anything."""


def probe(call: Call) -> Receipt | None:
    return None


BAD: dict[str, Callable[[], Any]] = {
    "a coroutine function": lambda: effect(waits),
    "a generator function": lambda: effect(yields),
    "takes nothing": lambda: effect(takes_nothing),  # type: ignore[arg-type]
    "a class as policy": lambda: effect(recovery=Park)(plain),  # type: ignore[call-overload]
    "a number as timeout": lambda: effect(timeout=30)(plain),  # type: ignore[call-overload]
    "no lease": lambda: effect(lease=timedelta(0))(plain),
    "a text as max_attempts": lambda: effect(max_attempts="3")(plain),  # type: ignore[call-overload]
    "no attempts": lambda: effect(max_attempts=0)(plain),
    "a text as secret": lambda: effect(secret="card")(plain),  # noqa: S106
    "a secret in the key": lambda: effect(per="card", secret=["card"])(plain),
    "a list as per": lambda: effect(per=["card"])(plain),  # type: ignore[call-overload]
    "an unknown on_failed": lambda: effect(on_failed="stop")(plain),  # type: ignore[call-overload]
    "a long name": lambda: effect(name="n" * 101)(plain),
    "a number as window": lambda: Replay(window=23),  # type: ignore[arg-type]
    "no window": lambda: Replay(timedelta(0)),
    "a replay after a replay": lambda: Replay(then=Replay()),  # type: ignore[arg-type]
    "nothing to ask": lambda: Reconcile(None),  # type: ignore[arg-type]
    "a number as settle_time": lambda: Reconcile(probe, settle_time=60),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", BAD)
def test_what_cant_work_is_refused_at_its_declaration(what: str) -> None:
    with pytest.raises(InvalidEffect) as refusal:
        BAD[what]()
    assert str(refusal.value)


def test_two_functions_of_one_name_are_refused() -> None:
    effect(name="declaring.twice")(plain)
    effect(name="declaring.twice")(plain)  # a module that is loaded again
    with pytest.raises(InvalidEffect, match=r"Two effects are called .declaring\.twice."):
        effect(name="declaring.twice")(takes_a_call)


def takes_a_call(call: Call) -> None:
    """Another function."""


@effect(name="declaring.quoting", secret=["card"])
def quoting(call: Call) -> None:
    """A provider that quotes what it was sent."""
    raise Refused(f"Card {call.params['card']} of {call.params['holder']} is unknown.")


@pytest.mark.django_db
def test_a_secret_that_the_provider_quotes_is_blotted_out() -> None:
    params = {"card": "4711 0815", "holder": "Ann"}
    capture = captures.perform(quoting, key="k", params=params)
    assert capture.error is not None
    assert capture.error["message"] == "Card ••• of Ann is unknown."
    tried = Capture.objects.get().tries.get()
    assert tried.error == capture.error
