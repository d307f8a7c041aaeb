"""What the trials share: a world outside, in which every effect is counted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import outside
from tests.registering import only
from tests.trials.posting import PostNotices


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path) -> Iterator[None]:
    with outside.opened(tmp_path):
        yield


@pytest.fixture
def with_notices() -> Iterator[None]:
    """Let the ladder of invoices, with a notice at each rung, be all the actions there are."""
    with only(PostNotices):
        yield
