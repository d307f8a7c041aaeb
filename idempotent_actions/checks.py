"""System checks: what would fail in silence is said out loud, each with a way to mend it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db import connections, models, router

from idempotent_actions.effects import all_effects
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel
from idempotent_actions.registry import registry

__all__ = [
    "check_aliases",
    "check_ladder_models",
    "check_leases",
    "check_sqlite",
    "check_time_zone",
]

_HOOKS = {"ladder", "on_climb", "deadline_after", "save", "from_db", "refresh_from_db", "Meta"}
"""What a host may replace. All else of LadderModel is the app's."""


@checks.register(checks.Tags.models)
def check_ladder_models(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E001: a field or method of LadderModel was replaced. W001: one of its indexes is lost."""
    messages: list[checks.CheckMessage] = []
    for model in apps.get_models():
        if app_configs is not None and model._meta.app_config not in app_configs:
            continue
        if not issubclass(model, LadderModel):
            continue
        messages += _collisions(model)
        if not model._meta.proxy:
            messages += _lost_indexes(model)
    return messages


@checks.register("idempotent_actions")
def check_aliases(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E002: subjects and audit rows would be written to different databases, so never together."""
    home = router.db_for_write(Escalation)
    return [
        checks.Error(
            f"{action.model._meta.label} is written to the database {action.using!r}, but audit "
            f"rows to {home!r}: they can't be committed together.",
            hint="Let your database router send idempotent_actions and the models of its actions "
            "to one alias.",
            obj=action.model,
            id="idempotent_actions.E002",
        )
        for action in registry
        if action.using != home
    ]


@checks.register("idempotent_actions")
def check_sqlite(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E003: SQLite ignores row locks, so its transactions must begin IMMEDIATE."""
    aliases = sorted({action.using for action in registry} | {router.db_for_write(Escalation)})
    return [
        checks.Error(
            f"The database {alias!r} is SQLite, where select_for_update() is silently nothing.",
            hint=f"Set DATABASES[{alias!r}]['OPTIONS']['transaction_mode'] = 'IMMEDIATE', so that "
            "writers wait for each other.",
            id="idempotent_actions.E003",
        )
        for alias in aliases
        if connections[alias].vendor == "sqlite" and not _begins_immediate(alias)
    ]


@checks.register("idempotent_actions")
def check_leases(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """W002: an effect's lease ends while the effect may still be at work."""
    return [
        checks.Warning(
            f"The effect {each.name!r} has a lease of {each.lease} and a timeout of "
            f"{each.timeout}: its outcome counts as unknown while it may still be at work.",
            hint="Leave lease= out, which makes it outlast the timeout, or make it longer.",
            id="idempotent_actions.W002",
        )
        for each in all_effects()
        if each.lease <= each.timeout
    ]


@checks.register("idempotent_actions")
def check_time_zone(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """W015: leases are reckoned in a local time that jumps."""
    if settings.USE_TZ or not _has_daylight_saving(settings.TIME_ZONE):
        return []
    return [
        checks.Warning(
            "Leases and deadlines are in local time, which jumps by an hour twice a year: an "
            "effect that is under way then may be done twice.",
            hint="Set USE_TZ = True, or TIME_ZONE to one without daylight saving, like 'UTC'.",
            id="idempotent_actions.W015",
        )
    ]


def _has_daylight_saving(name: str) -> bool:
    zone, year = ZoneInfo(name), datetime.now(UTC).year
    return len({datetime(year, month, 1, tzinfo=zone).utcoffset() for month in range(1, 13)}) > 1


def _begins_immediate(alias: str) -> bool:
    mode = connections[alias].settings_dict["OPTIONS"].get("transaction_mode") or ""
    return str(mode).upper() in {"IMMEDIATE", "EXCLUSIVE"}


def _collisions(model: type[LadderModel]) -> Iterator[checks.CheckMessage]:
    names = _replaced_fields(model) + _replaced_methods(model)
    if model._meta.proxy:  # the rest is said of the model it stands for
        names = [name for name in names if name in vars(model)]
    for name in names:
        yield checks.Error(
            f"{model._meta.label}.{name} replaces {name} of LadderModel: the ladder would work on "
            f"the wrong thing.",
            hint=f"Rename your own {name}, or keep the ladder in a side row: a model of its own "
            "with a OneToOneField to this one.",
            obj=model,
            id="idempotent_actions.E001",
        )


def _replaced_fields(model: type[LadderModel]) -> list[str]:
    # Django copies an abstract parent's fields with their creation counter; a host's own field of
    # the same name, or a method or property, wins without a word.
    return [
        field.name
        for field in LadderModel._meta.local_fields
        if getattr(_field(model, field.name), "creation_counter", None) != field.creation_counter
        or not isinstance(_field(model, field.name), type(field))
    ]


def _field(model: type[models.Model], name: str) -> Any:
    return next((field for field in model._meta.get_fields() if field.name == name), None)


def _replaced_methods(model: type[LadderModel]) -> list[str]:
    fields = {field.name for field in LadderModel._meta.local_fields}
    ours = [name for name in vars(LadderModel) if not name.startswith("__")]
    return [
        name
        for name in ours
        if name not in fields | _HOOKS
        and callable(getattr(LadderModel, name, None))
        and not any(part in name for part in ("_status", "get_next_by", "get_previous_by"))
        and next(cls for cls in model.__mro__ if name in vars(cls)) is not LadderModel
    ]


def _lost_indexes(model: type[LadderModel]) -> Iterator[checks.CheckMessage]:
    owner = model._meta.get_field("status").model
    there = [list(index.fields)[:2] for index in owner._meta.indexes]
    for wanted in (list(index.fields) for index in LadderModel._meta.indexes):
        if wanted not in there:
            yield checks.Warning(
                f"{model._meta.label} has no index on {wanted}: each poll reads the whole table.",
                hint="Let your class Meta inherit LadderModel.Meta, or add "
                f"models.Index(fields={wanted}) to its indexes.",
                obj=model,
                id="idempotent_actions.W001",
            )
