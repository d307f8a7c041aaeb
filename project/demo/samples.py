"""The demo's sample: subjects of both example domains in every situation that a poll meets."""

# mypy: disallow-untyped-calls=False
# The declarations of factory_boy have no annotations.

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from factory.declarations import Sequence
from factory.django import DjangoModelFactory
from factory.random import reseed_random

from idempotent_actions import Ladder, services
from idempotent_actions.ladder_actions import ladder_name
from idempotent_actions.models import Capture, Escalation, LadderModel
from idempotent_actions.models.escalation import subject_ref
from project.billing.factories import InvoiceFactory
from project.billing.models import Invoice
from project.school.factories import InterventionFactory
from project.school.models import Intervention

__all__ = ["DOMAINS", "Domain", "Sample", "make_sample"]

SEED = 2026
"""Fixed, so that each demo tells the same story."""

_BY = "demo"
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Domain:
    """One of the two example domains, in the demo's words."""

    model: type[LadderModel]
    ladder: Ladder
    factory: type[DjangoModelFactory[Any]]
    mark: dict[str, Any]
    """What the factory is told so that ``marked``, a filter, finds the sample's rows again."""
    marked: dict[str, Any]
    settle: dict[str, Any]
    """What the factory is told for a subject that is over by the domain's own facts."""
    unit: int
    """Subjects standing on one rung, due; the other groups are multiples or parts of it."""

    @property
    def label(self) -> str:
        """The model's name, as ``billing.invoice``."""
        return self.model._meta.label_lower


DOMAINS = (
    Domain(
        Invoice,
        Invoice.ladder,
        InvoiceFactory,
        mark={"number": Sequence(lambda n: f"DEMO-{n + 1:05}")},
        marked={"number__startswith": "DEMO-"},
        settle={"paid_at": datetime(2026, 1, 1, tzinfo=UTC)},
        unit=20,
    ),
    Domain(
        Intervention,
        Intervention.ladder,
        InterventionFactory,
        mark={"programme": "Demo sample"},
        marked={"programme": "Demo sample"},
        settle={"attended": True},
        unit=15,
    ),
)


@dataclass(slots=True)
class Sample:
    """Names of the sample's subjects, as ``billing.invoice:42``: all, and those that are due."""

    everyone: set[str] = field(default_factory=set)
    due: set[str] = field(default_factory=set)


def make_sample() -> Sample:
    """Delete the sample of an earlier demo with its audit trail, and make the same one anew.

    Returns the names of the new subjects. Other rows of the two domains are left alone.
    """
    reseed_random(SEED)
    sample = Sample()
    with transaction.atomic():
        for domain in DOMAINS:
            _delete(domain)
            _Maker(domain, sample).make()
    return sample


def _delete(domain: Domain) -> None:
    subjects = domain.model._default_manager.filter(**domain.marked)
    pks = [str(pk) for pk in subjects.values_list("pk", flat=True)]
    Capture.objects.filter(subject_model=domain.label, subject_pk__in=pks).delete()
    Escalation.objects.filter(subject_model=domain.label, subject_pk__in=pks).delete()
    subjects.delete()


class _Maker:
    """Makes one domain's part of the sample."""

    def __init__(self, domain: Domain, sample: Sample) -> None:
        self.domain = domain
        self.sample = sample
        self.now = timezone.now()
        domain.factory.reset_sequence(0, force=True)

    def make(self) -> None:
        unit = self.domain.unit
        self._subjects(3 * unit, due=True)
        for rung in self.domain.ladder:
            self._standing_on(rung.name, unit, self.now - _HOUR, due=True)
            self._standing_on(rung.name, unit // 4, self.now + _DAY)  # its wait is not over
        self._subjects(2 * unit, due_at=self.now + 3 * _DAY)
        self._subjects(unit, **self.domain.settle)
        for subject in self._subjects(unit // 2):
            services.hold(subject, self.now + 30 * _DAY, by=_BY, reason="disputed")

    def _subjects(self, count: int, *, due: bool = False, **values: Any) -> list[Any]:
        made = self.domain.factory.create_batch(count, **self.domain.mark, **values)
        names = {subject_ref(subject) for subject in made}
        self.sample.everyone |= names
        if due:
            self.sample.due |= names
        return made

    def _standing_on(self, rung: str, count: int, next_at: datetime, *, due: bool = False) -> None:
        """Make subjects that came to ``rung`` some time ago and wait there until ``next_at``."""
        then = self.now - 7 * _DAY
        made = self._subjects(count, due=due, due_at=then - _DAY)
        services.adopt(
            ladder_name(self.domain.model),
            self.domain.model._default_manager.filter(pk__in=[subject.pk for subject in made]),
            rung=rung,
            next_at=next_at,
            by=_BY,
            reason="sample",
            now=then,
        )
