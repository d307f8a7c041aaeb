"""Sample invoices, for the demo and for tests."""

# mypy: disallow-untyped-calls=False
# The declarations of factory_boy have no annotations.

from datetime import timedelta

from django.utils import timezone
from factory.declarations import LazyFunction, Sequence
from factory.django import DjangoModelFactory
from factory.faker import Faker

from project.billing.models import Invoice

__all__ = ["InvoiceFactory"]


class InvoiceFactory(DjangoModelFactory[Invoice]):
    """Makes an unpaid invoice whose deadline lapsed an hour ago."""

    class Meta:
        model = Invoice

    number = Sequence(lambda n: f"INV-{n + 1:05}")
    customer = Faker("company")
    email = Sequence(lambda n: f"accounts{n + 1}@example.com")
    amount = Faker("pydecimal", left_digits=4, right_digits=2, positive=True)
    due_at = LazyFunction(lambda: timezone.now() - timedelta(hours=1))
