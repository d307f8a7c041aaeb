"""Sample interventions, for the demo and for tests."""

# mypy: disallow-untyped-calls=False
# The declarations of factory_boy have no annotations.

from datetime import timedelta

from django.utils import timezone
from factory.declarations import Iterator, LazyAttributeSequence, LazyFunction, Sequence
from factory.django import DjangoModelFactory
from factory.faker import Faker

from project.school.models import Intervention

__all__ = ["InterventionFactory"]


class InterventionFactory(DjangoModelFactory[Intervention]):
    """Makes a session that was missed an hour ago."""

    class Meta:
        model = Intervention

    class Params:
        name = Faker("name")

    # The number keeps two students of one name apart.
    student = LazyAttributeSequence(lambda made, n: f"{made.name} ({n + 1})")
    programme = Iterator(["Reading", "Mathematics", "Attendance"])
    guardian_email = Sequence(lambda n: f"guardian{n + 1}@example.com")
    due_at = LazyFunction(lambda: timezone.now() - timedelta(hours=1))
