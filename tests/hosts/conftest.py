"""What the hosts' tests share: a world outside, in which every effect is counted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts import outside


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path) -> Iterator[None]:
    with outside.opened(tmp_path):
        yield
