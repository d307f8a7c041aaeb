"""A book of the world outside for each test, and nothing planned."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger import outside


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(outside.BOOK, str(tmp_path / "book"))
    outside.plan.clear()
    yield
    assert not outside.plan, "an effect was called less often than the test had planned"
    outside.plan.clear()
