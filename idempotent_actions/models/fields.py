"""The protected state column of a ladder."""

from typing import Any

from django.db import models
from django.db.models.expressions import DatabaseDefault
from django_fsm import FSMField, FSMFieldDescriptor

__all__ = ["StatusField"]


class _StatusDescriptor(FSMFieldDescriptor):
    """Refuses a direct assignment of another state, as django-fsm does.

    It lets through what Django itself assigns: the same value again (an INSERT's RETURNING) and a
    refresh from the database. django-fsm's own mixin switches the protection of the whole class off
    and on for a refresh, which another thread can see and an exception leaves off.
    """

    def __set__(self, instance: models.Model, value: Any) -> None:
        known = self.field.name in instance.__dict__
        current = instance.__dict__.get(self.field.name)
        changes = current != value if known else not instance._state.adding  # deferred until now
        # Django assigns what came from the database: a refresh, or a bulk_create's RETURNING.
        refreshing = instance.__dict__.get("_refreshing") or instance.__dict__.pop(
            "_inserting", False
        )
        if changes and not refreshing and not isinstance(current, DatabaseDefault):
            raise AttributeError(
                f"{self.field.name} is changed by transitions and services only. "
                f"Call a service, such as services.resolve(), instead of assigning {value!r}."
            )
        self.field.set_proxy(instance, value)
        self.field.set_state(instance, value)


class StatusField(FSMField):
    """A state field that only transitions write. In a host's migrations it is a plain FSMField."""

    descriptor_class = _StatusDescriptor

    def deconstruct(self) -> Any:
        """Return the parts of a plain FSMField, so that no migration depends on this module."""
        name, _path, args, kwargs = super().deconstruct()
        kwargs.pop("protected", None)
        return name, "django_fsm.FSMField", args, kwargs
