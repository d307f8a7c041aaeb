"""Each test looks at the example's two ladders and its orders, on the day after `DUE`."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from idempotent_actions.testing import travel
from project.billing.actions import ChargeOrders, EscalateInvoices
from tests.overview.making import NOW, SCHOOL
from tests.registering import only

NOTHING_PLANNED: dict[str, Any] = {"SCHEDULES": {"tick": None}}


@pytest.fixture(autouse=True)
def _that_day() -> Iterator[None]:
    with (
        only(EscalateInvoices, SCHOOL, ChargeOrders),
        travel(NOW),
        override_settings(IDEMPOTENT_ACTIONS=NOTHING_PLANNED),
    ):
        yield
