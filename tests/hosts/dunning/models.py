"""Bills as they have always been, and beside each sent one a row that remembers its dunning."""

from datetime import date, datetime, time, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from django.db import models

from idempotent_actions import Ladder, Rung
from idempotent_actions.models import LadderModel

__all__ = ["Bill", "Dunning", "Tenant"]

OFFICE_OPENS = time(9)


class Tenant(models.Model):
    """A company that sends bills, with its own patience and its own clock."""

    name = models.CharField(max_length=100)
    dunning_paused = models.BooleanField(default=False)
    time_zone = models.CharField(max_length=64, default="UTC")
    days_after_reminder = models.PositiveSmallIntegerField(default=7)
    days_after_warning = models.PositiveSmallIntegerField(default=14)

    def __str__(self) -> str:
        return self.name

    @property
    def zone(self) -> ZoneInfo:
        """Where this tenant's office stands."""
        return ZoneInfo(self.time_zone)

    def morning_of(self, day: date) -> datetime:
        """Return when the office opens on ``day``."""
        return datetime.combine(day, OFFICE_OPENS, tzinfo=self.zone)


class LiveBills(models.Manager["Bill"]):
    """Leaves out what was deleted softly."""

    def get_queryset(self) -> models.QuerySet["Bill"]:
        return super().get_queryset().filter(deleted_at=None)


class Bill(models.Model):
    """The large table that was there first: it knows nothing of ladders and inherits nothing."""

    class State(models.TextChoices):
        DRAFT = "draft"
        SENT = "sent"
        DISPUTED = "disputed"
        PAID = "paid"
        WRITTEN_OFF = "written_off"

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="bills")
    number = models.CharField(max_length=32, unique=True)
    state = models.CharField(max_length=20, choices=State.choices, default=State.DRAFT)
    email = models.EmailField()
    address = models.TextField(blank=True)
    currency = models.CharField(max_length=3, default="EUR")
    net = models.DecimalField(max_digits=12, decimal_places=2)
    tax = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    paid = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    discount = models.DecimalField(max_digits=12, decimal_places=2, null=True, blank=True)
    due_on = models.DateField()
    sent_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    remarks = models.TextField(blank=True)

    objects = LiveBills()
    with_deleted: ClassVar[models.Manager["Bill"]] = models.Manager()

    def __str__(self) -> str:
        return self.number


class Dunning(LadderModel):
    """Where a bill stands on its tenant's ladder."""

    bill = models.OneToOneField(Bill, on_delete=models.CASCADE, related_name="dunning")

    class Meta(LadderModel.Meta):
        pass

    def __str__(self) -> str:
        return f"dunning of {self.bill_id}"

    @property
    def ladder(self) -> Ladder:
        """Each tenant waits as long as it likes."""
        tenant = self.bill.tenant
        return Ladder(
            Rung("reminder", wait_after=timedelta(days=tenant.days_after_reminder)),
            Rung("warning", wait_after=timedelta(days=tenant.days_after_warning)),
            Rung("final_notice", wait_after=timedelta(days=14)),
        )

    def deadline_after(self, rung: Rung, sent_at: datetime) -> datetime:
        """Return the tenant's first office hour after all days of the wait have passed there."""
        tenant = self.bill.tenant
        sent_on = sent_at.astimezone(tenant.zone).date()
        return tenant.morning_of(sent_on + rung.wait_after + timedelta(days=1))
