"""What the charge means for the order and its books: a hook that fails, a write that is stale."""

import pytest

from idempotent_actions import services, testing
from tests.hosts.orders.actions import CaptureOrders
from tests.hosts.orders.models import Entry, Order
from tests.hosts.orders.money import HOUR, charge_of, charged, later, make_order, state, tick

pytestmark = pytest.mark.django_db(transaction=True)


class TestTheBooks:
    @pytest.fixture
    def order(self) -> Order:
        """An order whose payment can't be entered: somebody has used its reference before."""
        Entry.objects.create(order=make_order(shipped_at=None), ref="charge 1")
        return make_order()

    def test_a_hook_that_raises_keeps_the_charge_succeeded_and_says_why(self, order: Order) -> None:
        tick()
        charge = charge_of(order)
        assert (charge.state, charge.provider_ref) == ("succeeded", "charge 1")
        assert charge.hook_error.startswith("IntegrityError: ")
        assert state(order) == "capturing"  # nothing of a failed hook is kept

    def test_it_is_not_charged_again_however_many_ticks(self, order: Order) -> None:
        for hours in range(30):
            with later(hours * HOUR):
                tick()
        assert charged() == [("old", "100.00")]

    def test_the_hook_runs_again_on_demand(self, order: Order) -> None:
        tick()
        still_wrong = services.rerun_hook(charge_of(order))
        assert (still_wrong.applied, still_wrong.reason) == (False, "hook_error")

        Entry.objects.all().delete()
        assert services.rerun_hook(charge_of(order))

        assert charge_of(order).hook_error == ""
        assert (state(order), Entry.objects.get().order) == ("captured", order)
        again = services.rerun_hook(charge_of(order))
        assert (again.applied, again.reason) == (False, "no_hook_error")
        assert charged() == [("old", "100.00")]

    def test_an_error_in_python_is_no_different(self, monkeypatch: pytest.MonkeyPatch) -> None:
        order = make_order()

        def broken(order: Order) -> None:
            order.total = 0
            raise KeyError("no such account")

        with monkeypatch.context() as deployed:
            deployed.setattr(Order, "confirm", broken)
            tick()
        assert charge_of(order).state == "succeeded"
        assert "no such account" in charge_of(order).hook_error
        assert Order.objects.get().total == 100

        assert services.rerun_hook(charge_of(order))
        assert (state(order), charge_of(order).hook_error) == ("captured", "")


class TestAStaleWrite:
    def test_over_a_captured_order_is_healed_to_captured(self) -> None:
        order = make_order()
        stale = Order.objects.get()
        tick()
        stale.save()
        for hours in range(3):
            with later(hours * HOUR):
                tick()
        assert charged() == [("old", "100.00")]
        assert state(order) == "captured"

    def test_between_commit_and_delivery_does_not_lose_the_charge(self) -> None:
        order = make_order()
        stale = Order.objects.get()
        testing.tick(CaptureOrders, deliver=False)
        stale.save()
        services.deliver()
        for hours in range(1, 4):
            with later(hours * HOUR):
                tick()
        assert charged() == [("old", "100.00")]
        assert state(order) == "captured"

    def test_never_charges_twice(self) -> None:
        make_order()
        stale = Order.objects.get()
        for hours in range(5):
            with later(hours * HOUR):
                tick()
                stale.save()
        assert charged() == [("old", "100.00")]
