"""The lease: who is at a thing, and until when. And the call that is put off."""

from datetime import datetime
from typing import ClassVar, Self

from django.db import models

__all__ = ["MAX_LEASE_NAME", "DeferredCall", "Lease"]

MAX_LEASE_NAME = 255


class LeaseQuerySet(models.QuerySet["Lease"]):
    """The questions asked of leases, as words."""

    def lapsed(self, now: datetime) -> Self:
        """Leases that hold nobody off any more."""
        return self.filter(expires_at__lte=now)


class Lease(models.Model):
    """A name that somebody holds for a while, by the database's clock.

    Written by ``idempotent_actions.leases`` alone. Each taking has a token of its own: who comes
    back late neither renews nor releases what another has taken meanwhile.
    """

    name = models.CharField(max_length=MAX_LEASE_NAME)
    token = models.UUIDField()
    owner = models.CharField(max_length=100, help_text="Host and process.")
    taken_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    objects = LeaseQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["name"], name="idempotent_lease_name")
        ]

    def __str__(self) -> str:
        return self.name


class DeferredCallQuerySet(models.QuerySet["DeferredCall"]):
    """The question asked of calls that were put off, as a word."""

    def due(self, now: datetime) -> Self:
        """Calls whose time has come, also those whose worker has been given up."""
        return self.filter(due_at__lte=now)


class DeferredCall(models.Model):
    """A function to be called later: after a pause in its requests, or when another is through.

    The tick polls for them. While one is handed out, ``token`` names the handing out and ``due_at``
    is the time at which it is given up.
    """

    name = models.CharField(max_length=MAX_LEASE_NAME)
    function = models.CharField(max_length=255, help_text="Dotted path.")
    args = models.JSONField(default=list)
    kwargs = models.JSONField(default=dict)
    asked_at = models.DateTimeField(help_text="When it was last asked for.")
    latest_at = models.DateTimeField(help_text="It is not put off beyond this.")
    due_at = models.DateTimeField()
    serial = models.IntegerField(default=1, help_text="Requests since it was last called.")
    token = models.UUIDField(null=True)
    tries = models.IntegerField(default=0, help_text="Failed calls since the last good one.")
    error = models.TextField(blank=True)

    objects = DeferredCallQuerySet.as_manager()

    class Meta:
        ordering: ClassVar[list[str]] = ["due_at"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["name"], name="idempotent_deferred_name")
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["due_at"], name="idempotent_deferred_due")
        ]

    def __str__(self) -> str:
        return self.name
