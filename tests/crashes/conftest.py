"""Books for the provider, real transactions, and only the ladder that writes to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crashes import notices, provider
from tests.registering import only


@pytest.fixture(autouse=True)
def _outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional_db: None
) -> Iterator[None]:
    monkeypatch.setenv(provider.BOOKS, str(tmp_path / "books.sqlite3"))
    with only(notices.Notices):
        yield
    left = [*notices.before, *notices.after]
    notices.before.clear()
    notices.after.clear()
    assert not left, "the provider was called less often than the test had planned"
