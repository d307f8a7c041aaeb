"""Break the ledger on purpose, one way after the other, and see its tests fail.

    uv run python -m tests.mutants [WORD ...]

Each mutation of `tests/mutations.py`, or each whose name holds one of the words, is made in a
private copy of the repository, on a database of its own. Exits 1 if a mutant survives its tests, 2
if nothing could be learnt: the tests fail without any mutation, a text to replace isn't there
exactly once, or a mutant can't even be imported.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from project.embedded import database_url
from tests.mutations import LEDGER, MUTATIONS, Mutation

__all__ = ["Unclear", "main", "misfits"]

ROOT = Path(__file__).parent.parent
PACKAGE = "idempotent_actions"

HANGS = 120.0
"""Seconds after which a mutant has hung, which is a failure of its tests as well."""

PASSED, FAILED = 0, 1
"""Exit statuses of pytest; 1 is that of a mutant that can't be imported as well."""

_SOME_FAILED = re.compile(r"^[1-9]\d* failed", re.MULTILINE)


class Unclear(Exception):
    """Nothing can be learnt about the tests."""


def main(words: Sequence[str] = ()) -> int:
    """Try the mutants and print what became of each. Returns an exit status."""
    chosen = [each for each in MUTATIONS if not words or any(word in each.name for word in words)]
    chosen.sort(key=lambda each: each.schema)  # last: they leave a database that is of no more use
    try:
        if not chosen:
            raise Unclear(f"No mutation is called like {' or '.join(words)}.")
        if wrong := [each for mutation in chosen for each in misfits(mutation)]:
            raise Unclear("\n".join(wrong))
        with tempfile.TemporaryDirectory() as folder:
            survived = _try_all(_copy(Path(folder) / "copy"), chosen)
    except Unclear as error:
        print(error)
        return 2
    print(f"{len(chosen) - len(survived)} killed, {len(survived)} survived")
    return 1 if survived else 0


def misfits(mutation: Mutation, root: Path = ROOT) -> list[str]:
    """Return what of a mutation doesn't fit the code any more: each text stands there once."""
    return [
        f"{mutation.name}: this stands {count} times in {edit.file}:\n{edit.old}"
        for edit in mutation.edits
        if (count := (root / PACKAGE / edit.file).read_text().count(edit.old)) != 1
    ]


def _try_all(copy: Path, chosen: Sequence[Mutation]) -> list[str]:
    everything = sorted({test for mutation in chosen for test in mutation.tests})
    status, printed = _run(copy, everything, "--reuse-db", "--create-db")
    if status != PASSED:
        raise Unclear(f"The tests don't pass without any mutation:\n{printed}")
    try:
        return [each.name for each in chosen if not _is_told(copy, each)]
    finally:
        _run(copy, everything[:1], "--create-db")  # which is dropped in the end


def _is_told(copy: Path, mutation: Mutation) -> bool:
    started = time.monotonic()
    killed = _is_killed(copy, mutation)
    word = "killed" if killed else "SURVIVED"
    print(f"{word:8} {time.monotonic() - started:5.1f} s  {mutation.name}", flush=True)
    return killed


def _is_killed(copy: Path, mutation: Mutation) -> bool:
    before = {path: path.read_text() for path in _files(copy, mutation)}
    try:
        for edit in mutation.edits:
            path = copy / PACKAGE / edit.file
            path.write_text(path.read_text().replace(edit.old, edit.new))
        status, printed = _run(copy, mutation.tests, *_database(mutation))
    finally:
        for path, text in before.items():
            path.write_text(text)
    failed = status == FAILED and _SOME_FAILED.search(printed)
    if not failed and status != PASSED:
        raise Unclear(f"{mutation.name}: no test was run (status {status}):\n{printed}")
    return bool(failed)


def _files(copy: Path, mutation: Mutation) -> set[Path]:
    return {copy / PACKAGE / edit.file for edit in mutation.edits}


def _database(mutation: Mutation) -> list[str]:
    return ["--reuse-db", "--create-db"] if mutation.schema else ["--reuse-db"]


def _run(copy: Path, tests: Iterable[str], *options: str) -> tuple[int, str]:
    nodes = [f"{LEDGER}/{each}" for each in tests]
    url = urlsplit(database_url())
    mine = url._replace(path=f"{url.path}_mutants")
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-n0",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                *options,
                *nodes,
            ],
            cwd=copy,
            env={
                **os.environ,
                "DATABASE_URL": mine.geturl(),
                "PYTHONPATH": str(copy),
                # Two mutants of one length in one second would share their compiled file.
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HANGS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return FAILED, "1 failed: it hangs"
    return done.returncode, done.stdout


def _copy(to: Path) -> Path:
    """Copy what git knows of, or would take, so that nothing of the original is touched."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, to / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return to


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
