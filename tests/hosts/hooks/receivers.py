"""The host's receivers. Each refuses what is called "cursed", as code of a host sometimes does."""

from typing import Any

from django.db.models.signals import post_save, pre_save
from django.dispatch import receiver
from django_fsm.signals import post_transition, pre_transition

from tests.hosts.hooks.models import History, Loan, Parcel

__all__ = ["CURSED"]

CURSED = "cursed"


@receiver(pre_save, sender=Loan)
def before_save(instance: Loan, **kwargs: Any) -> None:
    """Note a loan that is about to be saved."""
    History.note("before save:", instance)


@receiver(post_save, sender=Loan)
def after_save(instance: Loan, created: bool, **kwargs: Any) -> None:
    """Note a loan that was saved; refuse a cursed one once it is there."""
    History.note("after save:", instance)
    if instance.name == CURSED and not created:
        raise RuntimeError("cursed")


@receiver(pre_transition, sender=Parcel)
def before_transition(instance: Parcel, name: str, **kwargs: Any) -> None:
    """Note a parcel that is about to change."""
    History.note("before", f"{name}:", instance)


@receiver(post_transition, sender=Parcel)
def after_transition(instance: Parcel, name: str, **kwargs: Any) -> None:
    """Note a parcel that has changed; refuse to escalate a cursed one."""
    History.note("after", f"{name}:", instance)
    if instance.name == CURSED and name == "escalate":
        raise RuntimeError("cursed")
