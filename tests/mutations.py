"""Ways to break the ledger, each with the tests that must notice. See `tests/mutants.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MUTATIONS", "Edit", "Mutation"]

LEDGER = "tests/ledger"


@dataclass(frozen=True)
class Edit:
    """In `file` of the package, `old`, which stands there once, becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    """What is broken, how, and the tests that fail then, by file or node id in `tests/ledger`."""

    name: str
    edits: Sequence[Edit]
    tests: Sequence[str]
    schema: bool = False
    """Whether the database has to be made anew for it."""


MUTATIONS = [
    Mutation(
        "the settle without its token",
        [Edit("ledger.py", "AND token = %(token)s AND gen", "AND token >= %(token)s AND gen")],
        ["test_outcomes.py"],
    ),
    Mutation(
        "the settle without its generation",
        [Edit("ledger.py", "AND generation = %(", "AND generation >= %(")],
        ["test_outcomes.py"],
    ),
    Mutation(
        "a lapsed sending one is pending",
        [
            Edit(
                "recovery.py",
                """        if recovery["kind"] == "park":
            capture.park("unknown")
        capture.save(""",
                """        capture.find_absent(now)
        capture.save(""",
            )
        ],
        ["test_outcomes.py"],
    ),
    Mutation(
        "the effect inside the barrier's transaction",
        [
            Edit(
                "deliveries.py",
                "from dataclasses import dataclass",
                "from django.db import transaction\nfrom dataclasses import dataclass",
            ),
            Edit("deliveries.py", "def deliver_one(", "@transaction.atomic\ndef deliver_one("),
        ],
        ["test_barrier.py::test_while_an_effect_runs_everybody_sees_it_and_no_transaction_is_open"],
    ),
    Mutation(
        "the barrier without a look at what was seen",
        [Edit("barrier.py", "capture is None or not is_as_seen(capture, seen)", "capture is None")],
        ["test_barrier.py"],
    ),
    Mutation(
        "the barrier without a look at the time",
        [
            Edit(
                "barrier.py",
                "return claimable and capture.wake_at is not None and capture.wake_at <= now",
                "return claimable",
            )
        ],
        ["test_barrier.py"],
    ),
    Mutation(
        "the barrier sends what is no longer wanted",
        [
            Edit(
                "barrier.py",
                """        if why:
            return _give_up(""",
                """        if why == "never":
            return _give_up(""",
            )
        ],
        ["test_barrier.py"],
    ),
    Mutation(
        "the barrier sends what is held",
        [Edit("barrier.py", "if why := action.held_back(subject, now):", "if why := '':")],
        ["test_barrier.py"],
    ),
    Mutation(
        "Park sends again",
        [
            Edit(
                "recovery.py",
                """        if recovery["kind"] == "park":
            capture.park("unknown")
""",
                "",
            ),
            Edit(
                "recovery.py",
                """        return _park(capture, "unknown", using)""",
                '        return "replay"',
            ),
            Edit(
                "settling.py",
                """    if capture.policy["recovery"]["kind"] == "park":
        capture.park("unknown")
""",
                "",
            ),
        ],
        ["test_outcomes.py"],
    ),
    Mutation(
        "Replay past its window",
        [
            Edit(
                "recovery.py",
                """if now < _first_sent(capture) + timedelta(seconds=policy["window"]):""",
                "if now:",
            )
        ],
        ["test_capture_keys.py"],
    ),
    Mutation(
        "Reconcile without its settle time",
        [
            Edit("recovery.py", "if (fixed or clock.now(using)) < counts_from:", "if not capture:"),
            Edit("recovery.py", """recovery.get("settle_time", 0)""", "0"),
            Edit("settling.py", """timedelta(seconds=recovery["settle_time"])""", "timedelta(0)"),
        ],
        ["test_outcomes.py"],
    ),
    Mutation(
        "Replay asks past its window without a settle time",
        [Edit("recovery.py", "if (fixed or clock.now(using)) < counts_from:", "if not capture:")],
        ["test_doubt.py"],
    ),
    Mutation(
        "NotSent takes back an earlier doubt",
        [
            Edit(
                "settling.py",
                """if capture.in_doubt and capture.policy["recovery"]["kind"] == "replay":""",
                "if not capture:",
            )
        ],
        ["test_doubt.py"],
    ),
    Mutation(
        "a settle that the subject isn't told of",
        [
            Edit(
                "settling.py",
                """if answer == "settled":
            interrupt""",
                """if answer == "never":
            interrupt""",
            )
        ],
        ["test_barrier.py"],
    ),
    Mutation(
        "a request without a look at its fingerprint",
        [
            Edit(
                "ledger.py",
                "if (stored.effect, stored.fingerprint) != (effect, fingerprint):",
                "if stored.effect != effect:",
            )
        ],
        ["test_capture_keys.py"],
    ),
    Mutation(
        "perform inside a transaction",
        [
            Edit(
                "captures.py",
                """    refuse_inside_transaction()
    using = home()
""",
                """    using = home()
""",
            )
        ],
        ["test_barrier.py"],
    ),
    Mutation(
        "SystemExit is not settled",
        [
            Edit(
                "running.py",
                """    except BaseException as error:
        return Verdict(""",
                """    except ZeroDivisionError as error:
        return Verdict(""",
            )
        ],
        ["test_interrupts.py::test_an_effect_that_ends_its_process_is_settled_first"],
    ),
    Mutation(
        "a lease that the timeout outlasts",
        [Edit("effects.py", "return timeout + LEASE_MARGIN", "return LEASE_MARGIN")],
        ["test_barrier.py"],
    ),
    Mutation(
        "a new generation with the old provider key",
        [Edit("keys.py", """f"{generation}:{key}\"""", """f"{key}\"""")],
        ["test_another_try.py"],
    ),
    Mutation(
        "a ladder that doesn't wait for its effects",
        [
            Edit(
                "ladder_actions.py",
                """        subject.next_at = None

    def moved_on""",
                """
    def moved_on""",
            )
        ],
        ["test_barrier.py"],
    ),
    Mutation(
        "a decision about what has moved",
        [
            Edit(
                "decisions.py",
                "(was, fresh.token, fresh.generation) != (seen.state, seen.token, seen.generation)",
                "was != seen.state",
            )
        ],
        ["test_decisions.py::test_a_decision_about_an_old_view_changes_nothing"],
    ),
    Mutation(
        "max_attempts and one more",
        [Edit("settling.py", "capture.attempts >= most", "capture.attempts > most")],
        ["test_another_try.py"],
    ),
    Mutation(
        "pruning of an open cycle",
        [
            Edit(
                "pruning.py",
                "return subject.status in LIVE and subject.cycle == capture.escalation.cycle",
                "return False",
            )
        ],
        ["test_pruning.py"],
    ),
    Mutation(
        "a key that may be there twice",
        [
            Edit(
                "models/capture.py",
                """models.UniqueConstraint(fields=["key"], name="idempotent_capture_key"),""",
                "",
            ),
            Edit(
                "migrations/0002_captures.py",
                """        migrations.AddConstraint(
            model_name="capture",
            constraint=models.UniqueConstraint(fields=("key",), name="idempotent_capture_key"),
        ),
""",
                "",
            ),
        ],
        ["test_constraints.py::test_a_key_is_there_once_whoever_writes_it", "test_capture_keys.py"],
        schema=True,
    ),
]
