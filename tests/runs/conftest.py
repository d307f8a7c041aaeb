"""A book of the world outside for each test."""

from pathlib import Path

import pytest

from tests.ledger import outside


@pytest.fixture(autouse=True)
def _outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(outside.BOOK, str(tmp_path / "book"))
