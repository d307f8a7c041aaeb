"""What django-fsm knows of a model's state machine, read so that it can serve a poll as well.

django-fsm shares one metadata object among all subclasses of an abstract model, so the field it
holds may belong to another model: only its *name* is used here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache, wraps
from types import MethodType
from typing import Any, TypeVar, cast

from django.db import models
from django.db.models import Q
from django_fsm import FSMFieldMixin, can_proceed

from idempotent_actions.exceptions import InvalidAction

__all__ = ["leads_back", "set_state", "silenced", "sources_q", "state_field", "state_of"]

Subject = TypeVar("Subject", bound=models.Model)

_ANY = "*"
_ANY_OTHER = "+"


def state_field(model: type[models.Model], transition: str) -> models.Field[Any, Any]:
    """Return the field that ``transition`` of ``model`` changes.

    Raises ``InvalidAction``, with what to do, where the model has no state field, no such
    transition, or a transition that could never match.
    """
    fields = [field for field in model._meta.concrete_fields if isinstance(field, FSMFieldMixin)]
    if not fields:
        raise InvalidAction(
            f"{model._meta.label} has no state field. Give it a django_fsm.FSMField and declare "
            f"{transition!r} with @transition, or inherit LadderModel."
        )
    meta = getattr(getattr(model, transition, None), "_django_fsm", None)
    if meta is None:
        known = sorted({each.name for field in fields for each in field.get_all_transitions(model)})
        raise InvalidAction(
            f"{model._meta.label} has no transition {transition!r}. It has: "
            f"{', '.join(known) or 'none'}. An override needs the @transition decorator again."
        )
    for source in meta.transitions:
        if isinstance(source, frozenset):
            raise InvalidAction(
                f"The source of {model._meta.label}.{transition} is a frozenset, which django-fsm "
                f"takes for one single state that never matches. Use a list, tuple or set."
            )
        if isinstance(source, Enum) and not isinstance(source, str | int):
            raise InvalidAction(
                f"The source {source} of {model._meta.label}.{transition} is a plain Enum, which "
                f"never equals what is stored. Use its value, or models.TextChoices."
            )
    return cast("models.Field[Any, Any]", _field_of(model, meta))


def sources_q(model: type[models.Model], transition: str) -> Q:
    """Return the rows whose state ``transition`` may start from, as a Q."""
    name = state_field(model, transition).name
    declared = getattr(model, transition)._django_fsm.transitions
    if _ANY in declared:
        return Q()
    explicit = [_plain(state) for state in declared if state != _ANY_OTHER]
    query = Q(**{f"{name}__in": explicit}) if explicit else Q()
    if _ANY_OTHER in declared:
        query |= ~Q(**{name: _plain(declared[_ANY_OTHER].target)})
    return query


def state_of(subject: models.Model, field: models.Field[Any, Any]) -> Any:
    """Return the subject's state in ``field``, as it is stored."""
    return _plain(getattr(subject, field.attname))


def set_state(subject: models.Model, field: models.Field[Any, Any], value: Any) -> None:
    """Put a state into the instance without a transition, past django-fsm's protection.

    For two uses only: healing a row from its audit trail, and a preview that isn't saved.
    """
    subject.__dict__[field.attname] = field.to_python(value)


def silenced(subject: Subject) -> Subject:
    """Return a copy of ``subject`` whose transitions change it as ever, but send no signal.

    For a preview that isn't saved. A transition that another one calls on ``self`` is silent as
    well; one that it reaches by ``super()`` is not. A decorator outside of ``@transition`` isn't
    run, nor is what receivers of the signals would change foreseen.
    """
    double = object.__new__(type(subject))
    double.__dict__.update(subject.__dict__)
    double._state = copy.copy(subject._state)
    double._state.fields_cache = dict(subject._state.fields_cache)
    for name, method in _silent_transitions(type(subject)).items():
        double.__dict__[name] = MethodType(method, double)
    return double


def leads_back(model: type[models.Model], transition: str) -> bool:
    """Tell whether the state graph can lead from ``transition`` back to a source of it."""
    field: Any = state_field(model, transition)
    edges = list(field.get_all_transitions(model))
    states = _all_states(field, edges)
    own = list(getattr(model, transition)._django_fsm.transitions.values())
    sources = {state for edge in own for state in _from(edge, states)}
    new = {state for edge in own for state in _to(edge, states)}
    reached: set[Any] = set()
    while new:
        reached |= new
        if reached & sources:
            return True
        passable = [edge for edge in edges if reached & _from(edge, states)]
        new = {state for edge in passable for state in _to(edge, states)} - reached
    return False


@cache
def _silent_transitions(model: type[models.Model]) -> dict[str, Callable[..., Any]]:
    names = {
        name
        for cls in model.__mro__
        for name, member in vars(cls).items()
        if hasattr(member, "_django_fsm")
    }
    methods = {name: getattr(model, name) for name in names}
    return {
        name: _silent(_field_of(model, method._django_fsm), method)
        for name, method in methods.items()
        if hasattr(method, "_django_fsm")  # not where a plain override hides it
    }


def _silent(field: Any, method: Any) -> Callable[..., Any]:
    """Return what django-fsm makes of a transition's body, but for the two signals."""
    meta, body = method._django_fsm, method
    while hasattr(getattr(body, "__wrapped__", None), "_django_fsm"):
        body = body.__wrapped__

    @wraps(body)
    def fire(subject: Any, *args: Any, **kwargs: Any) -> Any:
        if not can_proceed(MethodType(fire, subject)):
            return method(subject, *args, **kwargs)  # refuses in its own words, before any signal
        target = meta.next_state(field.get_state(subject))
        result = body(subject, *args, **kwargs)
        if hasattr(target, "get_state"):  # RETURN_VALUE, GET_STATE
            target = target.get_state(subject, method, result, args=args, kwargs=kwargs)
        if target is not None:
            field.set_proxy(subject, target)
            field.set_state(subject, target)
        return result

    return fire


def _field_of(model: type[models.Model], meta: Any) -> Any:
    name = meta.field if isinstance(meta.field, str) else meta.field.name
    return model._meta.get_field(name)


def _plain(state: Any) -> Any:
    return getattr(state, "value", state)


def _from(edge: Any, states: set[Any]) -> set[Any]:
    if edge.source == _ANY:
        return states
    if edge.source == _ANY_OTHER:
        return states - {_plain(edge.target)}
    return {_plain(edge.source)}


def _to(edge: Any, states: set[Any]) -> set[Any]:
    if edge.target is None:  # the state is checked and kept
        return _from(edge, states)
    if hasattr(edge.target, "get_state"):  # RETURN_VALUE, GET_STATE: any state unless it says which
        return {_plain(state) for state in edge.target.allowed_states} or states
    return {_plain(edge.target)}


def _all_states(field: models.Field[Any, Any], edges: Iterable[Any]) -> set[Any]:
    states = {_plain(value) for value, _label in field.flatchoices}
    for edge in edges:
        if edge.source not in (_ANY, _ANY_OTHER):
            states.add(_plain(edge.source))
        if edge.target is not None:
            states |= _to(edge, set())
    return states
