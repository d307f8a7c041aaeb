"""The pages as a browser asks for them, and texts that are hard to show."""

from typing import Any

from django.db.models import Model
from django.test import Client
from django.urls import reverse

from idempotent_actions.effects import Call, effect
from idempotent_actions.models import Capture

__all__ = [
    "DECIDING",
    "LONG",
    "RTL",
    "address",
    "confirm",
    "decide_address",
    "decide_page",
    "list_page",
    "list_rows",
    "messages",
    "row_page",
    "text",
    "top_up",
]

DECIDING = ("view_capture", "decide_capture", "renew_capture")

RTL = "\u05e9\u05dc\u05d5\u05dd \u202egnp.exe"
LONG = "e" * 9_990 + " <the end>"


@effect(name="admin.top_up", secret=["card", "owner"])
def top_up(call: Call) -> None:
    """Never called: its captures are written as they should be shown."""


def address(model: type[Model], page: str, *arguments: Any) -> str:
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
    return reverse(name, args=arguments)


def text(client: Client, where: str, status: int = 200) -> str:
    response = client.get(where)
    assert response.status_code == status
    return response.content.decode()


def row_page(client: Client, row: Model) -> str:
    return text(client, address(type(row), "change", row.pk))


def list_page(client: Client, model: type[Model], query: str = "") -> str:
    return text(client, f"{address(model, 'changelist')}?{query}")


def list_rows(client: Client, model: type[Model], query: str = "") -> list[Any]:
    """The rows that a list shows, in its order."""
    response = client.get(f"{address(model, 'changelist')}?{query}")
    assert response.status_code == 200
    return list(response.context["cl"].result_list)


def decide_address(decision: str, *captures: Capture) -> str:
    ids = "&".join(f"id={each.pk}" for each in captures)
    return f"{reverse('admin:idempotent_actions_capture_decide', args=[decision])}?{ids}"


def decide_page(client: Client, decision: str, *captures: Capture) -> dict[str, Any]:
    """Open the page that confirms a decision, and return what its form would send."""
    response = client.get(decide_address(decision, *captures))
    assert response.status_code == 200
    form = response.context["form"]
    hidden = {field.html_name: field.value() for field in form.hidden_fields()}
    return {"id": form.pks, **hidden}


def confirm(client: Client, decision: str, *captures: Capture, **values: Any) -> Any:
    """Open the page that confirms a decision, and send its form with a note."""
    sent = {**decide_page(client, decision, *captures), "note": "because", **values}
    return client.post(decide_address(decision, *captures), sent, follow=True)


def messages(response: Any) -> str:
    """What the page tells of what was done."""
    return " | ".join(str(each) for each in response.context["messages"])
