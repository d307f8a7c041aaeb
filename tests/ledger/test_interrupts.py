"""Effects that end the process, effects that were removed from the code, and probes that fail."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from idempotent_actions import Receipt, Reconcile, delivering, effects, services
from idempotent_actions.models import Capture, CaptureAttempt
from tests.ledger.moments import NOW, after, now_there
from tests.ledger.outside import (
    ask_first,
    book,
    charge,
    dropped_after,
    dropped_before,
    mail,
    plan,
    raising,
)

INTERRUPTS = [SystemExit(3), SystemExit(), KeyboardInterrupt(), GeneratorExit()]

each_interrupt = pytest.mark.parametrize(
    "interrupt", INTERRUPTS, ids=lambda each: f"{type(each).__name__} {each}"
)


@pytest.mark.django_db
@each_interrupt
def test_an_effect_that_ends_its_process_is_settled_first(interrupt: BaseException) -> None:
    plan.append(raising(interrupt))
    with after(), pytest.raises(type(interrupt)):
        services.perform(mail, key="k")
    capture = Capture.objects.get()
    assert capture.state == "review"
    assert capture.error is not None
    assert capture.error["class"] == type(interrupt).__name__
    assert CaptureAttempt.objects.get().outcome == "unknown"
    assert len(book()) == 1


@pytest.mark.django_db
@each_interrupt
def test_an_interrupt_in_the_callers_thread_ends_the_sweep_and_loses_nothing(
    interrupt: BaseException,
) -> None:
    with after():
        for number in range(3):
            services.request(mail, key=("k", number))
        plan.append(raising(interrupt))
        with pytest.raises(type(interrupt)):
            services.deliver(workers=0)
        states = Capture.objects.order_by("id").values_list("state", flat=True)
        assert list(states) == ["review", "pending", "pending"]
        services.deliver(workers=0)
    assert list(states.all()) == ["review", "succeeded", "succeeded"]
    assert len(book()) == 3


@pytest.mark.django_db(transaction=True)
@each_interrupt
def test_an_interrupt_in_a_worker_thread_is_that_captures_own(interrupt: BaseException) -> None:
    with after():
        for number in range(4):
            services.request(mail, key=("k", number))
        plan.append(raising(interrupt))
        report = services.deliver(workers=2)
    assert (report.performed, report.hanging) == (4, 0)
    assert report.by_state == {"review": 1, "succeeded": 3}
    assert len(report.errors) == 1
    assert type(interrupt).__name__ in report.errors[0]["error"]
    assert len(book()) == 4


# -- an effect that is no longer in the code


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["pending", "unknown, replay", "unknown, ask"])
def test_a_capture_of_a_removed_effect_waits_and_is_delivered_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    effect = {"pending": mail, "unknown, replay": charge, "unknown, ask": ask_first}[state]
    with after():
        if state == "pending":
            capture = services.request(effect, key="k")
        else:
            plan.append(dropped_before)
            capture = services.perform(effect, key="k")
    monkeypatch.delitem(effects._effects, effect.name)
    for minutes in (10, 60, 3 * 60):
        with after(minutes=minutes):
            report = services.deliver(workers=0)
            assert report.waiting == {"unknown_effect": 1}
            assert [each["capture"] for each in report.errors] == ["k"]
            assert effect.name in report.errors[0]["error"]
            assert services.deliver(effect=effect.name, workers=0).performed == 0
        fresh = now_there(capture)
        assert (fresh.state, fresh.waiting_for) == (capture.state, "unknown_effect")
    assert fresh.waiting_since == NOW + timedelta(minutes=10)
    monkeypatch.setitem(effects._effects, effect.name, effect)
    with after(minutes=4 * 60):
        assert services.deliver(workers=0).performed == 1
    fresh = now_there(capture)
    assert (fresh.state, fresh.waiting_for, fresh.waiting_since) == ("succeeded", "", None)
    assert len(book()) == 1


@pytest.mark.django_db
def test_a_lapsed_capture_of_a_removed_effect_is_parked_by_its_own_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan.append(dropped_after)
    with after():
        capture = services.perform(mail, key="k")
    monkeypatch.delitem(effects._effects, mail.name)
    with after(days=1):
        assert services.deliver(workers=0).count_of_all == 0
    assert (now_there(capture).state, len(book())) == ("review", 1)


# -- probes


def unknown_with(monkeypatch: pytest.MonkeyPatch, probe: Callable[[Any], Any]) -> Capture:
    """A charge in doubt whose provider answers as `probe` does."""
    asked = replace(ask_first, recovery=Reconcile(probe, settle_time=timedelta(minutes=5)))
    monkeypatch.setitem(effects._effects, ask_first.name, asked)
    plan.append(dropped_after)
    with after():
        return services.perform(asked, key="k")


def broken(call: Any) -> Any:
    raise OSError("the provider is down")


BAD_PROBES: list[tuple[Callable[[Any], Any], str]] = [
    (broken, "OSError"),
    (lambda call: True, "TypeError"),
    (lambda call: False, "TypeError"),
    (lambda call: "ref", "TypeError"),
    (lambda call: Receipt, "TypeError"),
    (lambda call: vars(call)["ref"], "TypeError"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("probe", "error"), BAD_PROBES)
def test_a_probe_that_cant_tell_leaves_it_unknown_and_is_asked_later(
    monkeypatch: pytest.MonkeyPatch, probe: Callable[[Any], Any], error: str
) -> None:
    capture = unknown_with(monkeypatch, probe)
    with after(minutes=5) as now:
        report = services.deliver(workers=0)
        assert report.waiting == {"probe_failed": 1}
        fresh = now_there(capture)
        assert (fresh.state, fresh.waiting_for) == ("unknown", "probe_failed")
        assert fresh.error is not None
        assert fresh.error["class"] == error
        assert fresh.wake_at == now + timedelta(minutes=1)
        assert services.deliver(workers=0).count_of_all == 0
    monkeypatch.setitem(effects._effects, ask_first.name, ask_first)
    with after(minutes=6):
        services.deliver(workers=0)
    fresh = now_there(capture)
    assert (fresh.state, fresh.provider_ref) == ("succeeded", "found in the book")
    assert (fresh.error, fresh.waiting_for) == (None, "")
    assert len(book()) == 1


@pytest.mark.django_db
def test_absence_counts_only_after_the_settle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = unknown_with(monkeypatch, lambda call: None)
    with after(minutes=4, seconds=59):
        assert services.deliver(workers=0).count_of_all == 0
    assert now_there(capture).state == "unknown"


@pytest.mark.django_db
@each_interrupt
def test_a_probe_that_ends_its_process_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, interrupt: BaseException
) -> None:
    def probe(call: Any) -> Any:
        raise interrupt

    capture = unknown_with(monkeypatch, probe)
    with after(minutes=5), pytest.raises(type(interrupt)):
        services.deliver(workers=0)
    assert now_there(capture).state == "unknown"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.django_db(transaction=True)
def test_a_probe_that_ends_its_thread_doesnt_hold_up_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def probe(call: Any) -> Any:
        raise SystemExit

    capture = unknown_with(monkeypatch, probe)
    monkeypatch.setattr(delivering, "all_effects", list)  # else it waits for minutes
    monkeypatch.setattr(delivering, "LEASE_MARGIN", timedelta(seconds=1))
    with after(minutes=5):
        services.request(mail, key="another")
        report = services.deliver(workers=1)
    assert report.hanging == 0
    assert report.by_state == {"succeeded": 1, "error": 1} or report.waiting == {"probe_failed": 1}
    assert now_there(capture).state == "unknown"
