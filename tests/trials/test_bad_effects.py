"""An effects() that is wrong: its row is set apart with the reason, and the others are done."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from idempotent_actions import polling, services
from idempotent_actions.actions import Step
from idempotent_actions.effects import Intent
from idempotent_actions.exceptions import InvalidEffect, InvalidParameters
from idempotent_actions.models import Capture, Escalation
from idempotent_actions.testing import travel
from project.billing.models import Invoice
from tests.hosts import outside
from tests.invoices import DUE, LADDER, climbed, make_invoice, now_there
from tests.oddities.models import Parcel
from tests.registering import only
from tests.trials.posting import PostNotices, notices, post

pytestmark = pytest.mark.django_db(transaction=True)

NOTICE = {"rung": "reminder", "amount": 1}


def raises(invoice: Invoice) -> Any:
    yield post(number=invoice.number, **NOTICE)
    raise LookupError("no such customer")


def raises_after_a_write(invoice: Invoice) -> Any:
    Parcel.objects.create(name="written by effects()")
    raise LookupError("no such customer")


def twice(invoice: Invoice) -> Any:
    yield post(number=invoice.number, **NOTICE)
    yield post(number=invoice.number, **NOTICE)


def the_function_itself(invoice: Invoice) -> Any:
    yield post


def a_text(invoice: Invoice) -> Any:
    return "post"


def one_not_in_a_list(invoice: Invoice) -> Any:
    return post(number=invoice.number, **NOTICE)


def nothing_at_all(invoice: Invoice) -> Any:
    return None


def the_row(invoice: Invoice) -> Any:
    yield post(number=invoice, **NOTICE)


WRONG: list[tuple[Callable[[Invoice], Any], type[Exception], str]] = [
    (raises, LookupError, "no such customer"),
    (raises_after_a_write, LookupError, "no such customer"),
    (twice, InvalidEffect, "yields trials.post twice for one act"),
    (the_function_itself, InvalidEffect, "must yield effect calls, like send_notice(to=...)"),
    (a_text, InvalidEffect, "must yield effect calls, like send_notice(to=...)"),
    (one_not_in_a_list, InvalidEffect, "effects() must yield effect calls, not"),
    (nothing_at_all, InvalidEffect, "effects() must yield effect calls, not None"),
    (the_row, InvalidParameters, "params['number'] is a Invoice"),
]
each_wrong = pytest.mark.parametrize(("wrong", "error", "message"), WRONG)


def wrong_for_the_poison(wrong: Callable[[Invoice], Any]) -> type[PostNotices]:
    class Wrong(PostNotices):
        def effects(self, invoice: Invoice, step: Step) -> Iterable[Intent]:
            if invoice.number == "poison":
                return wrong(invoice)  # type: ignore[no-any-return]
            return super().effects(invoice, step)

    return Wrong


@each_wrong
def test_in_a_poll_it_is_a_poison_row_and_the_others_get_their_notice(
    wrong: Callable[[Invoice], Any], error: type[Exception], message: str
) -> None:
    before, poison, after = (make_invoice(number) for number in ("1", "poison", "2"))
    with only(wrong_for_the_poison(wrong)), travel(DUE):
        for applied in (2, 0):
            (report,) = polling.tick(LADDER, workers=0)
            assert (report.applied, report.failed) == (applied, 1)
            (told,) = report.errors
            assert told["subject"] == f"billing.invoice:{poison.pk}"
            assert told["error"].startswith(f"{error.__name__}: ")
            assert message in told["error"]
    assert (notices(before), notices(poison), notices(after)) == (["reminder"], [], ["reminder"])
    assert (now_there(poison).status, now_there(poison).rung) == ("overdue", "")
    assert not Escalation.objects.about(poison).exists()
    assert not Capture.objects.about(poison).exists()
    assert not Parcel.objects.exists()


@each_wrong
def test_a_button_is_told_by_an_exception_and_nothing_is_written(
    wrong: Callable[[Invoice], Any], error: type[Exception], message: str
) -> None:
    poison = make_invoice("poison")
    with only(wrong_for_the_poison(wrong)), travel(DUE):
        with pytest.raises(error) as caught:
            services.act(LADDER, poison, by="clerk", reason="button")
        assert message in str(caught.value)
        services.deliver()
    assert (climbed(poison), now_there(poison).status, outside.called()) == ([], "open", 0)
    assert not Capture.objects.exists()
    assert not Parcel.objects.exists()


@each_wrong
def test_mended_the_row_is_done_at_the_next_tick(
    wrong: Callable[[Invoice], Any], error: type[Exception], message: str
) -> None:
    poison = make_invoice("poison")
    with travel(DUE):
        with only(wrong_for_the_poison(wrong)):
            polling.tick(LADDER)
        with only(PostNotices):
            polling.tick(LADDER)
    assert notices(poison) == climbed(poison) == ["reminder"]
