"""``deliver_captures`` and ``--no-deliver``: what is delivered when, and what programs read."""

from collections.abc import Iterator

import pytest

from idempotent_actions import services
from idempotent_actions.models import Capture
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.trials.commands import Ran, parcel
from tests.trials.posting import HOUR, WEEK, notices, post

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("with_notices")]


@pytest.fixture(autouse=True)
def _due() -> Iterator[None]:
    with travel(DUE):
        yield


class TestEscalateOverdue:
    def test_delivers_what_it_has_made(self) -> None:
        invoice = make_invoice()
        ran = Ran("escalate_overdue", "--model", "billing.Invoice", "--json")
        assert (ran.status, notices(invoice)) == (0, ["reminder"])
        (action,) = ran.json["actions"]
        assert (action["delivery"]["performed"], action["delivery"]["succeeded"]) == (1, 1)

    def test_no_deliver_leaves_it_to_deliver_captures(self) -> None:
        invoice = make_invoice()
        ran = Ran("escalate_overdue", "--no-deliver", "--json")
        assert (ran.status, climbed(invoice), outside.called()) == (0, ["reminder"], 0)
        assert "delivery" not in ran.json["actions"][0]
        assert now_there(invoice).next_at is None

        with travel(DUE + HOUR):
            delivered = Ran("deliver_captures", "--json")
        assert (delivered.status, delivered.json["succeeded"]) == (0, 1)
        assert notices(invoice) == ["reminder"]
        assert now_there(invoice).next_at == DUE + HOUR + WEEK

    def test_no_deliver_for_months_climbs_one_rung(self) -> None:
        invoice = make_invoice()
        for weeks in range(12):
            with travel(DUE + weeks * WEEK):
                Ran("escalate_overdue", "--no-deliver")
        assert climbed(invoice) == ["reminder"]

    def test_an_effect_that_is_refused_is_status_1_and_the_others_are_done(self) -> None:
        refused, fine = make_invoice("refused"), make_invoice("fine")
        outside.behave("declined: moved", "notice", "refused")
        ran = Ran("escalate_overdue", "--json")
        assert (ran.status, ran.error) == (1, "1 effects were not done; the others are done.")
        assert "failed: Refused: declined: moved" in ran.complaints
        assert (climbed(refused), notices(refused)) == (["reminder"], [])
        assert notices(fine) == ["reminder"]
        assert Ran("escalate_overdue").status == 0  # told once

    def test_a_dry_run_delivers_nothing(self) -> None:
        parcel("a")
        make_invoice()
        assert Ran("escalate_overdue", "--dry-run").status == 0
        assert Ran("tick", "--dry-run").status == 0
        assert outside.called() == 0
        assert Capture.objects.count() == 1

    def test_the_limit_of_a_poll_is_not_one_of_its_delivery(self) -> None:
        invoices = [make_invoice(number) for number in range(5)]
        Ran("escalate_overdue", "--no-deliver")
        assert Ran("escalate_overdue", "--limit", "1").status == 0
        assert [notices(each) for each in invoices] == [["reminder"]] * 5


class TestTick:
    def test_delivers_plain_requests_too(self) -> None:
        parcel("a")
        ran = Ran("tick", "--json")
        assert (ran.status, len(outside.deeds("parcel"))) == (0, 1)
        assert [each["action"] for each in ran.json["actions"]] == [LADDER, "captures"]
        assert ran.json["actions"][1]["delivery"]["succeeded"] == 1

    def test_of_one_action_leaves_plain_requests_alone(self) -> None:
        parcel("a")
        assert Ran("tick", LADDER).status == 0
        assert outside.called() == 0

    def test_a_plain_request_that_fails_is_status_1(self) -> None:
        parcel("a", "declined")
        assert Ran("tick").status == 1


class TestDeliverCaptures:
    def test_nothing_to_do_is_0_and_says_so(self) -> None:
        ran = Ran("deliver_captures")
        assert (ran.status, ran.out, ran.complaints) == (0, "nothing to deliver\n", "")

    def test_says_in_one_line_what_it_did(self) -> None:
        parcel("a")
        parcel("b")
        assert Ran("deliver_captures").out == "2 succeeded\n"

    def test_prints_one_json_object_with_a_count_for_each_outcome(self) -> None:
        for how in ("well", "well", "down", "declined", "lost"):
            parcel(f"{how} {Capture.objects.count()}", how)
        invoice = make_invoice()
        Ran("escalate_overdue", "--no-deliver")
        services.hold(invoice, DUE + WEEK, by="clerk", reason="a promise")

        ran = Ran("deliver_captures", "--json")

        counts = ran.json
        errors = counts.pop("errors")
        assert counts == {
            "performed": 5, "succeeded": 2, "pending": 1, "failed": 1, "review": 1, "void": 0,
            "sending": 0, "unknown": 0, "late": 0, "hanging": 0, "waiting": {"held": 1},
            "not_done": 3, "for_a_person": 2,
        }  # fmt: skip
        assert sorted(each["error"] for each in errors) == [
            "failed: Refused: declined: declined",
            "pending: NotSent: down: parcel",
            "review: TimeoutError: no answer; nobody knows that nothing was done",
        ]
        assert {each["capture"].partition(":")[0] for each in errors} == {"parcel"}

    @pytest.mark.parametrize("how", ["down", "declined", "lost", "unanswered"])
    def test_one_that_is_not_done_is_status_1_and_the_others_are_done(self, how: str) -> None:
        parcel("a", how)
        parcel("b")
        ran = Ran("deliver_captures")
        assert (ran.status, ran.error) == (1, "1 effects were not done; the others are.")
        assert ran.complaints.startswith("parcel:a: ")
        assert Capture.objects.get(key="parcel:b").state == "succeeded"

    def test_one_that_waits_for_its_subject_is_no_failure(self) -> None:
        invoice = make_invoice()
        Ran("escalate_overdue", "--no-deliver")
        services.hold(invoice, DUE + WEEK, by="clerk", reason="a promise")
        ran = Ran("deliver_captures")
        assert (ran.status, ran.out) == (0, "1 waiting (held)\n")

    def test_of_one_effect_leaves_the_others(self) -> None:
        parcel("a")
        invoice = make_invoice()
        Ran("escalate_overdue", "--no-deliver")
        assert Ran("deliver_captures", "--effect", "trials.parcel").status == 0
        assert (len(outside.deeds("parcel")), notices(invoice)) == (1, [])
        assert Ran("deliver_captures", "--effect", post.name).status == 0
        assert notices(invoice) == ["reminder"]

    @pytest.mark.parametrize("workers", ["1", "4"])
    @pytest.mark.parametrize("limit", [0, 1, 3, 7, 100])
    def test_the_limit_counts_effects_run_and_not_captures_that_wait(
        self, limit: int, workers: str
    ) -> None:
        for number in range(4):
            make_invoice(number)
        Ran("escalate_overdue", "--no-deliver")
        for invoice in Invoice.objects.all():
            services.hold(invoice, DUE + WEEK, by="clerk", reason="a promise")
        for number in range(7):
            parcel(f"{number}", "down" if number == 2 else "well")

        ran = Ran("deliver_captures", "--limit", str(limit), "--workers", workers, "--json")

        assert ran.json["performed"] == outside.called() == min(limit, 7)
        assert ran.json["waiting"] == ({"held": 4} if limit else {})

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--effect", "trials.pracel"), "There is no effect 'trials.pracel'. Declared: "),
            (("--limit", "-1"), "must be a whole number of at least 0"),
            (("--limit", "many"), "must be a whole number of at least 0"),
            (("--workers", "0"), "must be a whole number of at least 1"),
        ],
    )
    def test_bad_usage_says_why_and_does_nothing(
        self, arguments: tuple[str, ...], message: str
    ) -> None:
        parcel("a")
        ran = Ran("deliver_captures", *arguments)
        assert message in ran.error
        assert outside.called() == 0
