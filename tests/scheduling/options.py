"""django-q2's options, and what the system checks say of them."""

from typing import Any

from django.core import checks
from django.test import override_settings

from idempotent_actions.queue_checks import check_clusters, check_connections, check_plans

__all__ = ["GOOD", "said"]

GOOD: dict[str, Any] = {
    "orm": "default",
    "workers": 2,
    "queue_limit": 1,
    "bulk": 1,
    "timeout": 60,
    "retry": 180,
    "max_attempts": 5,
    "catch_up": False,
}


def said(*options: dict[str, Any], without: str = "") -> dict[str, checks.CheckMessage]:
    """All that the checks say of these options, by the short id."""
    merged = dict(GOOD)
    for each in options:
        merged.update(each)
    merged.pop(without, None)
    with override_settings(Q_CLUSTER=merged):
        messages = [*check_clusters(None), *check_connections(None), *check_plans(None)]
    assert all(each.hint for each in messages)
    return {str(each.id).removeprefix("idempotent_actions."): each for each in messages}
