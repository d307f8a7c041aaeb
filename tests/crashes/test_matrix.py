"""Every crash point, every kind of crash, every policy: once or in review, and never twice."""

from pathlib import Path

import pytest

from idempotent_actions.crashpoints import CRASH_POINTS
from idempotent_actions.models import Capture
from project.billing.models import Invoice
from tests.crashes import provider
from tests.crashes.children import crash, crashed_capture
from tests.crashes.recovering import tick_after
from tests.crashes.table import EXPECTED, LOST, POLICIES, Case, Story, cases, table

DOCS = Path(__file__).parents[2] / "docs" / "crashes.md"

# Without a subject the settle is one statement; a direct call claims in one as well. No point lies
# within a statement, but its answer can be lost as any commit's.
_WITHIN = {
    "request": {"before_settle_commit"},
    "perform": {"after_intent", "before_barrier_commit", "before_settle_commit"},
}


def story_of(capture: Capture) -> Story:
    key = capture.provider_key
    attempts = [each.outcome or "unfinished" for each in capture.tries.order_by("token")]
    return Story(provider.calls()[key], provider.done()[key], tuple(attempts), capture.state)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_crashes_at_whatever_point_an_acts_effect_is_done_once_or_left_to_a_person(
    policy: str,
) -> None:
    tried = cases(policy)
    crash("act", tried)

    tick_after()

    seen = {case: story_of(crashed_capture("act", n)) for n, case in enumerate(tried)}
    print(f"\n{table(seen)}")
    assert seen == {case: EXPECTED[case] for case in tried}
    assert sum(provider.done().values()) == sum(story.effects for story in seen.values())
    for number, case in enumerate(tried):
        invoice = Invoice.objects.get(number=str(number))
        assert (invoice.status, invoice.rung) == ("escalated", "reminder"), case
        assert (invoice.next_at is not None) == (seen[case].state == "succeeded"), case


@pytest.mark.slow
@pytest.mark.parametrize("way", ["request", "perform"])
def test_a_crash_on_the_way_of_a_request_or_a_direct_call_ends_like_that_of_an_act(
    way: str,
) -> None:
    tried = [each for each in EXPECTED if _is_on(way, each)]
    crash(way, tried)

    tick_after()

    seen = {case: story_of(crashed_capture(way, n)) for n, case in enumerate(tried)}
    assert seen == {case: EXPECTED[case] for case in tried}
    assert sum(provider.done().values()) == sum(story.effects for story in seen.values())


def _is_on(way: str, case: Case) -> bool:
    if case.crash == LOST:
        return way == "request" or case.point != "after_intent"
    return case.point not in _WITHIN[way]


def test_the_table_promises_at_most_one_effect_and_exactly_one_where_the_outcome_can_be_known() -> (
    None
):
    assert {case.point for case in EXPECTED} == set(CRASH_POINTS)
    for case, story in EXPECTED.items():
        known = case.policy != "Park" or story.state == "succeeded"
        assert story.effects == 1 if known else story.effects <= 1
        assert story.state == "succeeded" if known else story.state == "review"


def test_the_documentation_shows_the_table_that_the_matrix_is_held_against() -> None:
    assert table(EXPECTED) in DOCS.read_text()
