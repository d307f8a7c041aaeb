"""One SQLite file that several processes and threads read and write: the servers' memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

__all__ = ["SqliteFile"]

BUSY_TIMEOUT = 30  # seconds; a transaction here takes milliseconds


class SqliteFile:
    """A file whose tables are made when it is opened, and stay."""

    schema = ""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        with self.transaction() as db:
            for statement in self.schema.split(";"):
                db.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file, and commit at the block's end, or nothing if the block raises."""
        # A connection of its own each time: threads may not share one.
        with closing(sqlite3.connect(self.file, timeout=BUSY_TIMEOUT, isolation_level=None)) as db:
            # A killed process loses nothing that it committed, for the kernel has it. Only a power
            # cut could, and against that every commit would wait for the disk.
            db.execute("PRAGMA synchronous = OFF")
            db.row_factory = sqlite3.Row
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
