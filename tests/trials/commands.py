"""Commands as a crontab runs them, and parcels to deliver that belong to no action."""

import json
from io import StringIO
from typing import Any

from django.core.management import CommandError, call_command

from idempotent_actions import Receipt, effect, services
from idempotent_actions.effects import Call
from idempotent_actions.models import Capture
from tests.hosts import outside

__all__ = ["Ran", "parcel", "send_parcel"]


@effect(name="trials.parcel")
def send_parcel(call: Call) -> Receipt:
    with outside.reached():
        return Receipt(outside.do("parcel", call.params["to"], call.idempotency_key))


def parcel(to: str, how: str = "well") -> Capture:
    """Request a parcel, which the world outside takes as it is told to."""
    outside.behave(how, "parcel", to)
    return services.request(send_parcel, key=("parcel", to), params={"to": to})


class Ran:
    """A command that has run: its exit status, what it printed, and the JSON of its last line."""

    def __init__(self, *arguments: str) -> None:
        out, complaints = StringIO(), StringIO()
        self.status = 0
        self.error = ""
        try:
            call_command(*arguments, stdout=out, stderr=complaints)
        except CommandError as error:
            self.status, self.error = error.returncode, str(error)
        self.out, self.complaints = out.getvalue(), complaints.getvalue()

    @property
    def json(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.out.splitlines()[-1])
        return answer
