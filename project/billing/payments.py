"""The payment provider, through Stripe's own SDK: what its answers make certain.

Needs the group ``example`` of the dependencies. ``PAYMENTS_URL`` says where the provider is:
``manage.py payment_sandbox`` starts one on this machine.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import stripe
from django.conf import settings

from idempotent_actions import NotSent, Receipt, Refused

__all__ = ["charge", "find_charge"]


def charge(params: Mapping[str, Any], key: str, timeout: float) -> Receipt:
    """Charge ``amount`` of ``currency`` to ``payment_method`` for ``order``, once for ``key``.

    ``timeout``: seconds. Raises ``NotSent`` or ``Refused`` where nothing was charged; any other
    error of the SDK leaves open what happened.
    """
    try:
        intent = _client(timeout).v1.payment_intents.create(
            {
                "amount": _cents(params["amount"]),
                "currency": params["currency"],
                "confirm": True,
                "payment_method": params["payment_method"],
                "metadata": {"order": str(params["order"])},
            },
            {"idempotency_key": key},
        )
    except stripe.CardError as error:
        raise Refused(error.user_message, code=error.code or "") from error
    except stripe.RateLimitError as error:
        raise NotSent(str(error)) from error
    except stripe.InvalidRequestError as error:
        raise Refused(str(error), code=error.code or "") from error
    except stripe.APIConnectionError as error:
        if _was_refused(error):
            raise NotSent(f"No connection to the payment provider: {error}") from error
        raise
    return Receipt(provider_ref=intent.id, result={"status": intent.status})


def find_charge(order: str, timeout: float) -> Receipt | None:
    """Look for a successful payment of ``order``; raise what the SDK raises if nobody can tell."""
    found = _client(timeout).v1.payment_intents.search({"query": f"metadata['order']:'{order}'"})
    for intent in found.data:
        if intent.status == "succeeded":
            return Receipt(provider_ref=intent.id, result={"status": intent.status})
    return None


def _client(timeout: float) -> stripe.StripeClient:
    # No retries of the SDK's own: how often and when is for the capture to say.
    return stripe.StripeClient(
        api_key=settings.PAYMENTS_API_KEY,
        base_addresses={"api": settings.PAYMENTS_URL},
        max_network_retries=0,
        http_client=stripe.RequestsClient(timeout=timeout),
    )


def _cents(amount: Decimal) -> int:
    return int(amount * 100)


def _was_refused(error: BaseException) -> bool:
    """Nobody listens there: not a byte of the request has left."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ConnectionRefusedError):
            return True
        reason = getattr(inner, "reason", None)  # urllib3 keeps it there
        inner = (
            reason if isinstance(reason, BaseException) else inner.__cause__ or inner.__context__
        )
    return False
