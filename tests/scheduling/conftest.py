"""A second database, for what shouldn't be parted."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections


@pytest.fixture
def elsewhere() -> Iterator[dict[str, Any]]:
    """A second database that nobody connects to; yields its settings."""
    databases = connections.configure_settings(
        {
            "default": {},
            "elsewhere": {"ENGINE": "django.db.backends.postgresql", "NAME": "elsewhere"},
        }
    )
    connections.settings["elsewhere"] = databases["elsewhere"]
    try:
        yield databases["elsewhere"]
    finally:
        if hasattr(connections._connections, "elsewhere"):  # type: ignore[attr-defined]
            del connections["elsewhere"]
        del connections.settings["elsewhere"]
