"""The payment sandbox, driven by Stripe's own SDK: its rules of idempotency, and its faults."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import stripe

from project.sandbox.payment_faults import PaymentFault
from project.sandbox.running import PaymentSandbox, SandboxError, payment_sandbox
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent

HANG = 0.5
"""Seconds that a client waits for an answer where it is to wait in vain."""


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[PaymentSandbox]:
    with payment_sandbox(tmp_path) as sandbox:
        yield sandbox


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def client(sandbox: PaymentSandbox, timeout: float = 30) -> stripe.StripeClient:
    return stripe.StripeClient(
        api_key="sk_test_x",
        base_addresses={"api": sandbox.url},
        max_network_retries=0,
        http_client=stripe.RequestsClient(timeout=timeout),
    )


def pay(
    sandbox: PaymentSandbox, key: str | None = "k1", *, timeout: float = 30, **params: Any
) -> stripe.PaymentIntent:
    """Charge order 42 with 10.00 EUR, or as `params` say."""
    given: Any = {
        "amount": 1000,
        "currency": "eur",
        "confirm": True,
        "payment_method": "pm_card_visa",
        "metadata": {"order": "42"},
        **params,
    }
    options: Any = {"idempotency_key": key} if key else {}
    return client(sandbox, timeout).v1.payment_intents.create(given, options)


def replayed(made: stripe.StripeObject) -> bool:
    assert made.last_response
    return made.last_response.headers.get("idempotent-replayed") == "true"


def get(url: str) -> Any:
    with urllib.request.urlopen(url) as response:  # noqa: S310 - the sandbox's own
        return json.load(response)


def test_a_confirmed_intent_is_charged_and_counted(sandbox: PaymentSandbox) -> None:
    made = pay(sandbox)
    assert (made.status, made.amount_received) == ("succeeded", 1000)
    assert made.metadata["order"] == "42"
    assert client(sandbox).v1.payment_intents.retrieve(made.id).latest_charge == made.latest_charge
    counts = sandbox.counts()
    assert (counts.charges, counts.charged) == (1, 1000)
    assert counts.charges_by_key == {"k1": 1}
    assert counts.charges_by_order == {"42": 1}
    assert counts.requests == 2
    assert counts.requests_by_key == {"k1": 1}


def test_the_counts_are_told_by_http_too(sandbox: PaymentSandbox) -> None:
    pay(sandbox)
    told = get(f"{sandbox.url}/_sandbox/counts")
    assert told["charges"] == 1
    assert told["charges_by_order"] == {"42": 1}


def test_without_confirm_nothing_is_charged(sandbox: PaymentSandbox) -> None:
    assert pay(sandbox, confirm=False).status == "requires_confirmation"
    assert sandbox.counts().charges == 0


def test_a_key_used_again_repeats_the_first_answer_and_charges_once(
    sandbox: PaymentSandbox,
) -> None:
    first, second = pay(sandbox), pay(sandbox)
    assert first.id == second.id
    assert (replayed(first), replayed(second)) == (False, True)
    assert sandbox.counts().charges == 1
    assert sandbox.counts().requests_by_key == {"k1": 2}


def test_other_keys_charge_again(sandbox: PaymentSandbox) -> None:
    pay(sandbox, "k1")
    pay(sandbox, "k2")
    pay(sandbox, None)  # the SDK makes one up
    counts = sandbox.counts()
    assert counts.charges == 3
    assert counts.charges_by_order == {"42": 3}


def test_a_request_without_a_key_always_acts(sandbox: PaymentSandbox) -> None:
    request = urllib.request.Request(  # noqa: S310 - the sandbox's own
        f"{sandbox.url}/v1/payment_intents",
        data=b"amount=5&currency=eur&confirm=true&payment_method=pm_card_visa",
        headers={"Authorization": "Bearer x"},
    )
    for _ in range(2):
        with urllib.request.urlopen(request) as response:  # noqa: S310
            assert response.status == 200
    assert (sandbox.counts().charges, sandbox.counts().charges_by_key) == (2, {})


def test_a_key_with_other_parameters_is_an_error(sandbox: PaymentSandbox) -> None:
    pay(sandbox)
    with pytest.raises(stripe.IdempotencyError, match="other parameters") as caught:
        pay(sandbox, amount=2000)
    assert caught.value.http_status == 400
    assert sandbox.counts().charged == 1000
    assert replayed(pay(sandbox)), "the first answer was overwritten"


def test_a_key_at_another_endpoint_is_an_error(sandbox: PaymentSandbox) -> None:
    made = pay(sandbox, capture_method="manual")
    with pytest.raises(stripe.IdempotencyError, match="another endpoint"):
        client(sandbox).v1.payment_intents.capture(made.id, options={"idempotency_key": "k1"})
    assert sandbox.counts().captures == 0


def test_of_two_requests_with_one_key_at_once_one_charges_and_one_is_a_conflict(
    sandbox: PaymentSandbox, background: ThreadPoolExecutor
) -> None:
    sandbox.fault("late", times=1)
    both = [background.submit(pay, sandbox) for _ in range(2)]
    (refused,), (waiting,) = wait(both, timeout=30, return_when=FIRST_COMPLETED)
    error = refused.exception()
    assert isinstance(error, stripe.APIError)
    assert error.http_status == 409
    assert error.error
    assert error.error.type == "idempotency_error"
    assert error.error.code == "idempotency_key_in_use"
    assert sandbox.counts().charges == 0
    sandbox.fault("")
    assert waiting.result().status == "succeeded"
    assert sandbox.counts().charges == 1
    assert replayed(pay(sandbox)), "the conflict was stored"


def test_many_requests_with_keys_of_their_own_are_all_counted(
    sandbox: PaymentSandbox, background: ThreadPoolExecutor
) -> None:
    keys = [f"k{number}" for number in range(40)]
    list(background.map(lambda key: pay(sandbox, key, metadata={"order": key}), keys * 2))
    counts = sandbox.counts()
    assert counts.charges_by_key == counts.charges_by_order == dict.fromkeys(keys, 1)
    assert counts.requests_by_key == dict.fromkeys(keys, 2)


def test_a_validation_error_is_not_stored(sandbox: PaymentSandbox) -> None:
    with pytest.raises(stripe.InvalidRequestError) as caught:
        pay(sandbox, amount=0)
    assert (caught.value.param, caught.value.code) == ("amount", "parameter_invalid_integer")
    assert not replayed(pay(sandbox))


def test_a_key_that_has_aged_charges_again(sandbox: PaymentSandbox) -> None:
    pay(sandbox)
    sandbox.forget_keys()
    assert not replayed(pay(sandbox))
    assert sandbox.counts().charges_by_key == {"k1": 2}


def test_a_server_error_does_nothing_and_is_repeated(sandbox: PaymentSandbox) -> None:
    sandbox.fault("error_500", times=1)
    for _ in range(2):
        with pytest.raises(stripe.APIError) as caught:
            pay(sandbox)
        assert caught.value.http_status == 500
    assert caught.value.headers
    assert caught.value.headers["idempotent-replayed"] == "true"
    assert sandbox.counts().charges == 0
    pay(sandbox, "k2")
    assert sandbox.counts().charges == 1


def test_a_rate_limit_does_nothing_and_is_not_repeated(sandbox: PaymentSandbox) -> None:
    sandbox.fault("rate_limit_429", times=2)
    for _ in range(2):
        with pytest.raises(stripe.RateLimitError):
            pay(sandbox)
    assert sandbox.counts().charges == 0
    assert not replayed(pay(sandbox))
    assert sandbox.counts().requests_by_key == {"k1": 3}


@pytest.mark.parametrize("method", ["pm_card_declined", "pm_card_chargeDeclined"])
def test_some_cards_are_always_declined(sandbox: PaymentSandbox, method: str) -> None:
    for _ in range(2):
        with pytest.raises(stripe.CardError) as caught:
            pay(sandbox, payment_method=method)
        assert (caught.value.http_status, caught.value.code) == (402, "card_declined")
    assert caught.value.error
    assert caught.value.error.payment_intent
    kept = client(sandbox).v1.payment_intents.retrieve(caught.value.error.payment_intent.id)
    assert kept.status == "requires_payment_method"
    assert (sandbox.counts().charges, sandbox.counts().declines) == (0, 1)


def test_a_bank_may_decline_for_a_while(sandbox: PaymentSandbox) -> None:
    sandbox.fault("decline", times=1)
    with pytest.raises(stripe.CardError):
        pay(sandbox)
    with pytest.raises(stripe.CardError):
        pay(sandbox)  # the key keeps it
    assert pay(sandbox, "k2").status == "succeeded"
    assert (sandbox.counts().charges, sandbox.counts().declines) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "charged"),
    [("timeout_before", 0), ("timeout_after", 1), ("drop_before", 0), ("drop_after", 1)],
)
def test_a_lost_answer_says_nothing_and_a_resend_finishes(
    sandbox: PaymentSandbox, fault: PaymentFault, charged: int
) -> None:
    sandbox.fault(fault, times=1)
    with pytest.raises(stripe.APIConnectionError):
        pay(sandbox, timeout=HANG)
    until(lambda: sandbox.counts().requests, "the request")
    until(lambda: sandbox.counts().charges == charged, "what it did")
    assert replayed(pay(sandbox)) is bool(charged)
    counts = sandbox.counts()
    assert counts.charges_by_key == {"k1": 1}
    assert counts.requests_by_key == {"k1": 2}


@pytest.mark.parametrize("fault", ["timeout_before", "timeout_after"])
def test_a_client_that_waits_long_enough_gets_its_answer(
    sandbox: PaymentSandbox, fault: PaymentFault
) -> None:
    sandbox.fault(fault, seconds=HANG)
    assert pay(sandbox).status == "succeeded"
    assert sandbox.counts().charges == 1


def test_a_late_request_acts_after_its_client_has_given_up(sandbox: PaymentSandbox) -> None:
    sandbox.fault("late", times=1)
    with pytest.raises(stripe.APIConnectionError):
        pay(sandbox, timeout=HANG)
    assert sandbox.counts().charges == 0
    with pytest.raises(stripe.APIError) as caught:
        pay(sandbox)
    assert caught.value.http_status == 409
    sandbox.fault("")
    until(lambda: sandbox.counts().charges, "the charge")
    until(lambda: is_free(sandbox), "the key")
    assert sandbox.counts().charges == 1


def is_free(sandbox: PaymentSandbox) -> bool:
    try:
        return replayed(pay(sandbox))
    except stripe.APIError:
        return False


def test_a_fault_ends_when_it_is_replaced_and_look_ups_have_their_own(
    sandbox: PaymentSandbox,
) -> None:
    sandbox.fault("drop_before", method="GET")
    made = pay(sandbox)
    for _ in range(2):
        with pytest.raises(stripe.APIConnectionError):
            client(sandbox).v1.payment_intents.retrieve(made.id)
    sandbox.fault("")
    assert client(sandbox).v1.payment_intents.retrieve(made.id).id == made.id


def test_an_unknown_fault_is_refused(sandbox: PaymentSandbox) -> None:
    wrong: Any = "explode"
    with pytest.raises(SandboxError, match="timeout_before"):
        sandbox.fault(wrong)


def start_and_kill(
    sandbox: PaymentSandbox, background: ThreadPoolExecutor, seen: Callable[[], object]
) -> None:
    """Begin a payment, kill the server when `seen` sees it, and start it again."""
    payment: Future[stripe.PaymentIntent] = background.submit(pay, sandbox)
    until(seen, "the payment")
    sandbox.kill()
    assert isinstance(payment.exception(timeout=30), stripe.APIConnectionError)
    sandbox.start()


def test_a_kill_between_acting_and_answering_keeps_the_count_and_the_answer(
    sandbox: PaymentSandbox, background: ThreadPoolExecutor
) -> None:
    url = sandbox.url
    sandbox.fault("timeout_after")
    start_and_kill(sandbox, background, lambda: sandbox.counts().charges)
    assert sandbox.url == url
    assert sandbox.counts().charges == 1
    assert replayed(pay(sandbox))
    assert sandbox.counts().charges_by_key == {"k1": 1}
    assert sandbox.counts().requests_by_key == {"k1": 2}


def test_a_kill_before_acting_does_nothing_and_lets_go_of_the_key(
    sandbox: PaymentSandbox, background: ThreadPoolExecutor
) -> None:
    sandbox.fault("late")
    start_and_kill(sandbox, background, lambda: sandbox.counts().requests)
    assert sandbox.counts().charges == 0
    assert not replayed(pay(sandbox))


def test_a_server_that_is_killed_at_any_moment_charges_a_key_once(
    sandbox: PaymentSandbox, background: ThreadPoolExecutor
) -> None:
    def pay_at_last(key: str) -> str:
        for _ in range(1000):
            try:
                return pay(sandbox, key).id
            except (stripe.APIConnectionError, stripe.APIError):
                continue
        raise AssertionError(f"{key} was never answered")

    keys = [f"k{number}" for number in range(30)]
    payments = [background.submit(pay_at_last, key) for key in keys]
    for goal in (5, 10, 15):
        until(partial(has_charged, sandbox, goal), "some charges")
        sandbox.kill()
        sandbox.start()
    assert len({payment.result() for payment in payments}) == len(keys)
    assert sandbox.counts().charges_by_key == dict.fromkeys(keys, 1)


def has_charged(sandbox: PaymentSandbox, goal: int) -> bool:
    return sandbox.counts().charges >= goal


def test_an_authorization_is_captured_once(sandbox: PaymentSandbox) -> None:
    made = pay(sandbox, capture_method="manual")
    assert (made.status, made.amount_capturable) == ("requires_capture", 1000)
    assert (sandbox.counts().charges, sandbox.counts().authorizations) == (0, 1)
    intents = client(sandbox).v1.payment_intents
    with pytest.raises(stripe.InvalidRequestError, match="more than authorized"):
        intents.capture(made.id, {"amount_to_capture": 1001})
    taken = intents.capture(made.id, {"amount_to_capture": 700}, {"idempotency_key": "c"})
    assert (taken.status, taken.amount_received) == ("succeeded", 700)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        intents.capture(made.id)
    assert caught.value.code == "payment_intent_unexpected_state"
    counts = sandbox.counts()
    assert (counts.captures, counts.charges, counts.charged) == (1, 1, 700)
    assert counts.charges_by_key == {"c": 1}
    assert counts.charges_by_order == {"42": 1}


def test_an_authorization_is_cancelled_and_then_can_not_be_captured(
    sandbox: PaymentSandbox,
) -> None:
    made = pay(sandbox, capture_method="manual")
    intents = client(sandbox).v1.payment_intents
    assert intents.cancel(made.id).status == "canceled"
    for act in (intents.capture, intents.cancel):
        with pytest.raises(stripe.InvalidRequestError):
            act(made.id)
    assert (sandbox.counts().cancels, sandbox.counts().charges) == (1, 0)


def test_no_more_is_given_back_than_was_taken(sandbox: PaymentSandbox) -> None:
    made = pay(sandbox)
    refunds = client(sandbox).v1.refunds
    part = refunds.create({"payment_intent": made.id, "amount": 300}, {"idempotency_key": "r1"})
    again = refunds.create({"payment_intent": made.id, "amount": 300}, {"idempotency_key": "r1"})
    assert (part.id, part.status) == (again.id, "succeeded")
    with pytest.raises(stripe.InvalidRequestError, match="Only 700"):
        refunds.create({"payment_intent": made.id, "amount": 701})
    rest = refunds.create({"payment_intent": made.id})
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refunds.create({"payment_intent": made.id})
    assert caught.value.code == "charge_already_refunded"
    listed = refunds.list({"payment_intent": made.id})
    assert [each.id for each in listed.data] == [rest.id, part.id]
    counts = sandbox.counts()
    assert (counts.refunds, counts.refunded) == (2, 1000)
    assert counts.refunds_by_key["r1"] == 1
    assert counts.refunds_by_order == {"42": 2}


def test_a_payment_is_found_by_its_metadata(sandbox: PaymentSandbox) -> None:
    found = pay(sandbox, "a", metadata={"order": "it's 42"})
    other = pay(sandbox, "b", metadata={"order": "43"})
    intents = client(sandbox).v1.payment_intents

    def search(query: str) -> list[str]:
        return [each.id for each in intents.search({"query": query}).data]

    assert search(r"metadata['order']:'it\'s 42'") == [found.id]
    assert search('metadata["order"]:"43"') == [other.id]
    assert search("metadata['order']:'4'") == []
    with pytest.raises(stripe.InvalidRequestError):
        search("amount>100")


def test_lists_and_searches_come_in_pages(sandbox: PaymentSandbox) -> None:
    made = [pay(sandbox, f"k{number}").id for number in range(5)]
    intents = client(sandbox).v1.payment_intents
    newest_first = made[::-1]
    page = intents.list({"limit": 2})
    assert ([each.id for each in page.data], page.has_more) == (newest_first[:2], True)
    assert [each.id for each in page.auto_paging_iter()] == newest_first
    found = intents.search({"query": "metadata['order']:'42'", "limit": 2})
    assert [each.id for each in found.auto_paging_iter()] == newest_first


def test_what_there_is_not_is_not_found(sandbox: PaymentSandbox) -> None:
    intents = client(sandbox).v1.payment_intents
    for ask in (intents.retrieve, intents.capture):
        with pytest.raises(stripe.InvalidRequestError) as caught:
            ask("pi_none")
        assert (caught.value.http_status, caught.value.code) == (404, "resource_missing")


def test_a_reset_forgets_everything_and_the_fault(sandbox: PaymentSandbox) -> None:
    pay(sandbox)
    sandbox.fault("error_500")
    sandbox.reset()
    assert sandbox.counts().requests == 0
    assert not replayed(pay(sandbox))


def test_the_block_s_end_is_the_server_s_end(tmp_path: Path) -> None:
    with payment_sandbox(tmp_path) as sandbox:
        process = psutil.Process(sandbox.pid)
        sandbox.fault("timeout_after")
        with pytest.raises(stripe.APIConnectionError):
            pay(sandbox, timeout=HANG)
    assert not process.is_running()
    assert sandbox.counts().charges == 1


def test_a_server_that_can_not_start_is_an_error(sandbox: PaymentSandbox, tmp_path: Path) -> None:
    with (
        pytest.raises(SandboxError, match="did not start"),
        payment_sandbox(tmp_path / "other", port=sandbox.port),
    ):
        pass


PARENT = """
import sys
from pathlib import Path
from project.sandbox.running import mail_sandbox, payment_sandbox
with payment_sandbox(Path(sys.argv[1])) as payments, mail_sandbox(Path(sys.argv[1])) as mail:
    print(payments.pid, mail.pid, flush=True)
    sys.stdin.read()
"""


def test_a_killed_parent_leaves_no_server(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout
        servers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(servers) == 2
        parent.kill()
    until(lambda: not any(map(runs, servers)), "the servers' end")


def runs(process: psutil.Process) -> bool:
    """False for a zombie: nobody may be there to wait for it."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
