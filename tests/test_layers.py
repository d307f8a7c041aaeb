"""A file of the package imports only from lower floors, so that the package reads bottom up."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PACKAGE = "idempotent_actions"
ROOT = Path(__file__).parent.parent

# File or folder -> floor. Inside a folder, files import each other freely.
FLOORS = {
    # words: errors, and what a database can do
    "databases": 0,
    "exceptions": 0,
    "inserting": 0,
    "rules": 0,
    "tallies": 0,
    # what needs no row: settings, clock, keys, ladders, state graphs
    "charts": 1,
    "clock": 1,
    "conf": 1,
    "crashpoints": 1,
    "keys": 1,
    "ladders": 1,
    "machines": 1,
    "parameters": 1,
    "policies": 1,
    "pools": 1,
    "repeated_hours": 1,
    # what is stored
    "effects": 2,
    "models": 2,
    "steps": 2,
    # what an action is
    "actions": 3,
    # what a person has paused
    "pausing": 3,
    # one step with a batch of rows: find, lock, write
    "candidates": 4,
    "guards": 4,
    "intents": 4,
    "migrations": 4,
    "passes": 4,
    "running": 4,
    "writing": 4,
    "plans": 4,
    # one act, the ladder's own action; the ledger's statements; who holds what
    "acts": 5,
    "consequences": 5,
    "ladder_actions": 5,
    "leases": 5,
    "ledger": 5,
    "mail": 5,
    "subjects": 5,
    # who is registered; what a run tells
    "findings": 6,
    "nudges": 6,
    "queued": 6,
    "registry": 6,
    "rehearsing": 6,
    "reports": 6,
    "turns": 6,
    # an act asked for by a person; the two ends of an effect; what the queue is given
    "asking": 7,
    "barrier": 7,
    "checks": 7,
    "deferring": 7,
    "objections": 7,
    "schedules": 7,
    "overlaps": 8,
    "queue_checks": 8,
    "queueing": 8,
    "schedule_checks": 8,
    # one delivery
    "settling": 8,
    "recovery": 9,
    "deliveries": 10,
    "delivering": 11,
    # the ways in
    "adopting": 12,
    "captures": 12,
    "decisions": 12,
    "ladder_services": 12,
    "pause_services": 12,
    "previews": 12,
    "pruning": 12,
    "explaining": 13,
    "services": 13,
    # the poll
    "polls": 13,
    "polling": 14,
    # the queue and its watch
    "funnels": 15,
    "heartbeat": 15,
    "timelines": 15,
    # what must hold
    "overviews": 16,
    "tasks": 16,
    # faces: they parse and show
    "admin": 17,
    "management": 17,
    "testing": 17,
    # the door
    "__init__": 18,
    "apps": 18,
}

# Loads checks and actions when Django is ready, so from inside a function it looks upwards.
LOOKS_UP = "apps"


def modules() -> Iterator[str]:
    """The package's modules by dotted name, the package itself first."""
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        yield ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def entry(module: str) -> str:
    """The name in the table that stands for a module: its file's, or its folder's."""
    return module.split(".")[1] if module != PACKAGE else "__init__"


def imports(module: str) -> Iterator[str]:
    """The modules that a module imports when it runs, also from inside its functions."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    package = module if path.is_dir() else module.rpartition(".")[0]
    for node in running([ast.parse(file.read_text())], into_functions=entry(module) != LOOKS_UP):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield name if name in KNOWN else base


def running(nodes: Iterable[ast.AST], *, into_functions: bool) -> Iterator[ast.AST]:
    """These nodes and all below them, without what only a type checker reads."""
    for node in nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from running(node.orelse, into_functions=into_functions)
        elif into_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from running(ast.iter_child_nodes(node), into_functions=into_functions)


KNOWN = frozenset(modules())


def test_every_file_has_a_floor_and_every_floor_a_file() -> None:
    assert {entry(module) for module in KNOWN} == set(FLOORS)


@pytest.mark.parametrize("module", sorted(KNOWN))
def test_a_file_imports_only_from_lower_floors(module: str) -> None:
    floor = FLOORS[entry(module)]
    upward = {
        name
        for name in imports(module)
        if name in KNOWN and entry(name) != entry(module) and FLOORS[entry(name)] >= floor
    }
    assert not upward, f"{module} is on floor {floor}"


@pytest.mark.parametrize("module", sorted(KNOWN))
def test_the_package_knows_neither_the_example_nor_the_tests(module: str) -> None:
    assert not {"project", "tests"} & {name.split(".")[0] for name in imports(module)}
