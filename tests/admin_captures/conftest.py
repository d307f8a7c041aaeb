"""The clock stands still on the day after `DUE`."""

from collections.abc import Iterator

import pytest
from django.test import Client

from idempotent_actions.testing import travel
from tests.admin_captures.pages import DECIDING
from tests.overview.making import NOW, client_with


@pytest.fixture(autouse=True)
def _that_day() -> Iterator[None]:
    with travel(NOW):
        yield


@pytest.fixture
def client() -> Client:
    """The browser of somebody who may see captures and decide in every way."""
    return client_with(*DECIDING)
