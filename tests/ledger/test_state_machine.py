"""The ledger in every order of events: no generation is done twice, and no capture is lost.

Hypothesis drives the real functions, step by step, against a provider that counts. See
`tests/ledger/simulation.py` for what is assumed of the world, and `tests/ledger/machine.py` for
what is true after every step.
"""

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.ledger.machine import LedgerMachine
from tests.ledger.machine_people import PeopleRules
from tests.ledger.machine_workers import Dispatch, WorkerRules
from tests.registering import only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def run(machine: type[LedgerMachine], examples: int, steps: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit TO off")  # thousands of commits, no crash in between
    with only(Dispatch):
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                derandomize=True,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                # Add Phase.shrink to have a failure reduced, which takes some minutes.
                phases=[Phase.generate],
            ),
        )


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "examples"), [(WorkerRules, 150), (PeopleRules, 100)])
def test_in_whatever_order_things_happen_no_effect_is_doubled_and_none_is_lost(
    machine: type[LedgerMachine], examples: int
) -> None:
    run(machine, examples, 20)
