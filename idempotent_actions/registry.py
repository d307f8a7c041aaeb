"""The registry of actions. Registration refuses what can't work, and says how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist, FieldError
from django.db import DatabaseError, models
from django.utils import timezone

from idempotent_actions import machines
from idempotent_actions.actions import Action
from idempotent_actions.exceptions import InvalidAction, UnknownAction
from idempotent_actions.ladder_actions import LadderAction
from idempotent_actions.models.ladder import LadderModel

__all__ = ["Registry", "register", "registry"]

MAX_NAME_LENGTH = 100
"""Characters of an action's name: it is part of every key."""

ActionClass = TypeVar("ActionClass", bound=type[Action])


class Registry:
    """The actions of a project, by name."""

    def __init__(self) -> None:
        self._actions: dict[str, Action] = {}

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions.values())

    def add(self, action: Action) -> None:
        """Take ``action`` in; raise ``InvalidAction`` if it can't work."""
        check_action(action)
        if action.name in self._actions:
            raise InvalidAction(
                f"Two actions are called {action.name!r}. Give one of them another name."
            )
        twins = [each for each in self.ladders() if each.model is action.model]
        if twins and isinstance(action, LadderAction):
            raise InvalidAction(
                f"{action.model._meta.label} has a ladder action already, {twins[0].name!r}. A "
                f"model has one ladder; put a second one on a side row."
            )
        self._actions[action.name] = action

    def remove(self, name: str) -> None:
        """Forget the action called ``name``; raise ``UnknownAction`` if there is none."""
        self.get(name)
        del self._actions[name]

    def get(self, name: str) -> Action:
        """Return the action called ``name``; raise ``UnknownAction``, with the names there are."""
        if name not in self._actions:
            known = ", ".join(sorted(self._actions)) or "none"
            raise UnknownAction(f"No action is registered as {name!r}. Registered: {known}.")
        return self._actions[name]

    def ladders(self) -> list[LadderAction]:
        """Return the ladder actions, in the order they were registered."""
        return [action for action in self if isinstance(action, LadderAction)]

    def ladder_for(self, model: type[models.Model]) -> LadderAction | None:
        """Return the ladder action of ``model``, or of a model it inherits from, or None."""
        exact = [each for each in self.ladders() if each.model is model]
        inherited = [each for each in self.ladders() if issubclass(model, each.model)]
        return next(iter(exact + inherited), None)


registry = Registry()


def register(cls: ActionClass) -> ActionClass:
    """Register an ``Action`` subclass; use it as a decorator in an ``actions.py``.

    Returns the class. Raises ``InvalidAction`` where the action can't work: an unknown transition,
    a duplicate name, a ``due`` that returns no Q, an occasion that can't be told from the next one.
    """
    if not (isinstance(cls, type) and issubclass(cls, Action)):
        raise InvalidAction(f"@register takes a subclass of Action, not {cls!r}.")
    if not apps.models_ready:
        raise InvalidAction(
            f"{cls.__name__} is registered before the models are loaded. Put it into the file "
            f"actions.py of an installed app: it is found by itself."
        )
    registry.add(cls())
    return cls


def check_action(action: Action) -> None:
    """Raise ``InvalidAction`` if ``action`` can't work, with what to do about it."""
    who = type(action).__name__
    model: Any = getattr(action, "model", None)
    if not (isinstance(model, type) and issubclass(model, models.Model)):
        raise InvalidAction(f"{who}: set model to the model whose rows it acts on.")
    if model._meta.abstract:
        raise InvalidAction(f"{who}: {model.__name__} is abstract and has no rows.")
    if not isinstance(action.name, str) or not 0 < len(action.name) <= MAX_NAME_LENGTH:
        raise InvalidAction(f"{who}: set name to a text of at most {MAX_NAME_LENGTH} characters.")
    if not action.transition:
        raise InvalidAction(f"{who}: set transition to the name of a django-fsm transition.")
    if isinstance(action, LadderAction):
        _check_ladder(action)
    field = machines.state_field(model, action.transition)
    _check_owner(action, field)
    _check_due(action)
    _check_occurrence(action)
    for path in action.lock:
        _check_relation(action, path)
    for path in action.order_by:
        _resolve(action, path.removeprefix("-"), "order_by")


def _check_ladder(action: LadderAction) -> None:
    if not issubclass(action.model, LadderModel):
        raise InvalidAction(
            f"{type(action).__name__}: {action.model._meta.label} must inherit LadderModel. For a "
            f"large existing table give it a side row: class Dunning(LadderModel) with a "
            f"OneToOneField."
        )
    if not hasattr(action.model, "ladder"):
        raise InvalidAction(
            f"{action.model._meta.label} has no ladder: set ladder = Ladder(Rung(...), ...)."
        )


def _check_owner(action: Action, field: models.Field[Any, Any]) -> None:
    # Under multi-table inheritance the row to lock is the parent's, found by the child's key.
    model, owner = action.model, field.model
    link = None if owner is model else model._meta.get_ancestor_link(owner)
    if link is not None and not link.primary_key and not model._meta.proxy:
        raise InvalidAction(
            f"{action.name}: the state lives on {owner._meta.label}, but {model._meta.label} has a "
            f"primary key of its own. Register the action for {owner._meta.label}."
        )


def _check_due(action: Action) -> None:
    now = timezone.now()
    try:
        action.branches(now)
        if isinstance(action, LadderAction):
            _check_resolved_when(action)
        _check_fields(action, action.rule(now))
    except NotImplementedError:
        raise InvalidAction(
            f"{action.name}: write due(self, now) and return a Q, or None for an action that is "
            f"never polled."
        ) from None
    except DatabaseError:
        return  # it reads the database, which may not exist yet; the poll checks the type again


def _check_fields(action: Action, rule: models.Q) -> None:
    try:
        rows = action.get_queryset()
    except Exception:
        return  # it may need what is there at run time only, like a tenant; the poll reports it
    if not isinstance(rows, models.QuerySet):
        raise InvalidAction(f"{action.name}: get_queryset() must return a queryset.")
    try:
        rows.filter(rule)
    except FieldError as error:
        raise InvalidAction(f"{action.name}: a rule names no field: {error}") from error


def _check_resolved_when(action: LadderAction) -> None:
    over = action.resolved_when()
    if over is not None and not isinstance(over, models.Q):
        raise InvalidAction(
            f"{action.name}: resolved_when() must return a Q or None, not {over!r}."
        )


def _check_occurrence(action: Action) -> None:
    if type(action).occurrence is not Action.occurrence:
        return
    if machines.leads_back(action.model, action.transition):
        raise InvalidAction(
            f"{action.name}: {action.model._meta.label} can come back to a state from which "
            f"{action.transition!r} starts, but every time would count as the same occasion and "
            f"the second would be suppressed. Write occurrence(self, subject) and return the "
            f"business fact that is new each time, like its period or its due date."
        )


def _check_relation(action: Action, path: str) -> None:
    model: Any = action.model
    for name in path.split("__"):
        field = _get_field(model, name)
        if field is None or not (field.many_to_one or field.one_to_one) or not field.concrete:
            raise InvalidAction(
                f"{action.name}: lock takes forward relations (a ForeignKey or OneToOneField of "
                f"{model._meta.label}), not {path!r}."
            )
        model = field.related_model


def _resolve(action: Action, path: str, member: str) -> None:
    model: Any = action.model
    for name in path.split("__"):
        field = None if model is None else _get_field(model, name)
        if field is None:
            raise InvalidAction(f"{action.name}: {member} names no field: {path!r}.")
        model = field.related_model


def _get_field(model: Any, name: str) -> Any:
    if name == "pk":
        return model._meta.pk
    try:
        return model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
