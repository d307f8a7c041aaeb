"""Rows that an overview tells of, and the page as somebody sees it."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from idempotent_actions.models import Capture, Escalation, Run
from idempotent_actions.models.capture import FINISHED, LIVE_CAPTURES
from project.school.actions import EscalateNoShows
from tests.invoices import DUE, LADDER

__all__ = [
    "NOW",
    "NO_SHOWS",
    "SCHOOL",
    "client_with",
    "make_act",
    "make_capture",
    "make_run",
    "page",
]

NOW = DUE + timedelta(days=1)
SCHOOL = EscalateNoShows
NO_SHOWS = "escalate_overdue:school.intervention"


def make_capture(key: object, state: str = "pending", **columns: Any) -> Capture:
    """A capture in any state, with what the state asks of its other columns."""
    values: dict[str, Any] = {
        "key": str(key),
        "effect": "billing.charge",
        "state": state,
        "fingerprint": "f",
        "created_at": NOW,
        "token": 1,
        "attempts": 1,
        "first_sent_at": NOW,
        "wake_at": NOW if state in LIVE_CAPTURES else None,
        "finished_at": NOW if state in FINISHED else None,
    }
    return Capture.objects.create(**values | columns)


def make_run(action: str = LADDER, **columns: Any) -> Run:
    """A run that began a minute ago and took thirty seconds."""
    values: dict[str, Any] = {
        "action": action,
        "now": NOW - timedelta(minutes=1),
        "started_at": NOW - timedelta(minutes=1),
        "beat_at": NOW - timedelta(seconds=30),
        "finished_at": NOW - timedelta(seconds=30),
    }
    return Run.objects.create(**values | columns)


def make_act(key: object, acted_at: datetime = NOW, **columns: Any) -> Escalation:
    """An audit row: the poll has escalated invoice 1 to its first rung."""
    values: dict[str, Any] = {
        "key": str(key),
        "action": LADDER,
        "transition": "escalate",
        "subject_model": "billing.invoice",
        "subject_pk": "1",
        "from_status": "overdue",
        "to_status": "escalated",
        "rung": "reminder",
        "actor": "poll",
        "acted_at": acted_at,
    }
    return Escalation.objects.create(**values | columns)


def client_with(*codenames: str) -> Client:
    """A browser in which somebody of the staff with these permissions is logged in."""
    user = User.objects.create_user(f"staff with {len(codenames)}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def page(client: Client) -> str:
    """The overview as this client sees it."""
    response = client.get(reverse("admin:idempotent_actions_overview_changelist"))
    assert response.status_code == 200
    return response.content.decode()
