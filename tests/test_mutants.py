"""The tests notice when the ledger is broken, and the script that says so can say otherwise."""

import os

import pytest

from tests import mutants
from tests.mutations import MUTATIONS, Edit, Mutation

HARMLESS = Mutation(
    "a comment",
    [Edit("keys.py", '"""Idempotency keys: made of', '"""Keys: made of')],
    ["test_capture_keys.py"],
)
GONE = Mutation("gone", [Edit("keys.py", "no such text", "")], ["test_capture_keys.py"])
BROKEN = Mutation("broken", [Edit("keys.py", "import re\n", "import re re\n")], HARMLESS.tests)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.name)
def test_a_mutation_fits_the_code(mutation: Mutation) -> None:
    assert not mutants.misfits(mutation)


def test_a_mutation_that_fits_no_more_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutants, "MUTATIONS", [GONE])
    assert mutants.main() == 2
    assert "gone: this stands 0 times in keys.py" in capsys.readouterr().out


@pytest.mark.skipif("MUTANTS" not in os.environ, reason="minutes: set MUTANTS=1 for it")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("mutation", "status", "word"),
    [(HARMLESS, 1, "SURVIVED"), (BROKEN, 2, "no test was run")],
)
def test_a_mutant_that_nobody_notices_or_that_cant_run_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mutation: Mutation,
    status: int,
    word: str,
) -> None:
    monkeypatch.setattr(mutants, "MUTATIONS", [mutation])
    assert mutants.main() == status
    assert word in capsys.readouterr().out


@pytest.mark.skipif("MUTANTS" not in os.environ, reason="minutes: set MUTANTS=1 for it")
@pytest.mark.timeout(900)
def test_the_mutants_that_would_cost_money_are_killed() -> None:
    """The others take some minutes more: ``python -m tests.mutants`` tries them all."""
    costly = [
        "the settle without its token",
        "a lapsed sending one is pending",
        "the effect inside the barrier's transaction",
        "a key that may be there twice",
    ]
    assert mutants.main(costly) == 0
