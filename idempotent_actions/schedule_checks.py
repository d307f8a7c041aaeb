"""System checks of the schedules' rows: ``manage.py check --database default`` looks at them."""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.core import checks
from django.db import DatabaseError, router, transaction
from django.utils.module_loading import import_string

from idempotent_actions.exceptions import InvalidSetting
from idempotent_actions.plans import Plan
from idempotent_actions.repeated_hours import HINT, hangs_at
from idempotent_actions.schedules import PREFIX, differences, own_rows, planned

if TYPE_CHECKING:
    from django_q.models import Schedule

__all__ = ["check_schedules"]

_SYNC = "Run manage.py sync_schedules."


@checks.register(checks.Tags.database)
def check_schedules(
    app_configs: Sequence[AppConfig] | None,
    databases: Sequence[str] | None = None,
    **kwargs: Any,
) -> list[checks.CheckMessage]:
    """W010-W013: ours are missing, double, never due, not as planned. E008, W014: one stops all."""
    if not apps.is_installed("django_q"):
        return []
    from django_q.models import Schedule

    using = router.db_for_write(Schedule)
    if using not in (databases or ()):
        return []
    try:
        with transaction.atomic(using=using):
            everybodys = list(Schedule.objects.using(using).order_by("pk"))
            ours = sorted(own_rows(using), key=lambda row: row.pk)
    except DatabaseError:
        return []  # not migrated yet: migrate itself runs this check first
    messages = [*_poison(everybodys), *_hanging(everybodys)]
    try:
        wanted = planned()
    except InvalidSetting:
        return messages  # E007 says so
    return [*messages, *_missing(wanted, ours), *_double(ours), *_wrong(wanted, ours)]


def _poison(rows: Sequence["Schedule"]) -> Iterator[checks.CheckMessage]:
    for row in rows:
        if row.next_run is None or row.repeats == 0:
            continue  # the scheduler never comes to it
        if why := _stumbling(row):
            yield checks.Error(
                f"The schedule {row.name!r} (id {row.pk}) can't be run: {why}. The scheduler takes "
                "all that are due in one transaction, so because of it none of them runs.",
                hint="Mend it or delete it in the admin or a shell.",
                obj=row,
                id="idempotent_actions.E008",
            )


def _hanging(rows: Sequence["Schedule"]) -> Iterator[checks.CheckMessage]:
    for row in rows:
        if row.schedule_type != row.CRON or (row.name or "").startswith(PREFIX):
            continue  # of ours the check of the plans says it
        if moment := hangs_at(row.cron or ""):
            yield checks.Warning(
                f"The schedule {row.name!r} (id {row.pk}) will hang the scheduler, and all "
                f"schedules with it, when the clock is put back: from "
                f"{moment.isoformat(' ', 'minutes')} on.",
                hint=HINT,
                obj=row,
                id="idempotent_actions.W014",
            )


def _stumbling(row: "Schedule") -> str:
    """Return at what the scheduler would stumble in this row, doing what it does; else nothing."""
    part = "args"
    try:
        if row.args:
            ast.literal_eval(row.args)
        part = "kwargs"
        if row.kwargs:
            kwargs = dict(**_keyword_arguments(row.kwargs))
            kwargs["q_options"] = {**kwargs.get("q_options", {})}
        part = "cron" if row.schedule_type == row.CRON else "schedule_type"
        if row.schedule_type != row.ONCE:
            row.calculate_next_run()  # says also that croniter is missing
    except Exception as error:
        return f"{part} {getattr(row, part)!r} gives {type(error).__name__}: {error}"
    return ""


def _keyword_arguments(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        pass
    try:
        call: Any = ast.parse(f"f({text})").body[0]
        return {each.arg: ast.literal_eval(each.value) for each in call.value.keywords}
    except (SyntaxError, ValueError):
        return {}


def _missing(wanted: Sequence[Plan], ours: Sequence["Schedule"]) -> Iterator[checks.CheckMessage]:
    names = {row.name for row in ours}
    missing = [plan.name for plan in wanted if f"{PREFIX}{plan.name}" not in names]
    if missing:
        yield checks.Warning(
            f"Planned, but not scheduled: {', '.join(missing)}.",
            hint=_SYNC,
            id="idempotent_actions.W010",
        )


def _double(ours: Sequence["Schedule"]) -> Iterator[checks.CheckMessage]:
    for name, count in Counter(row.name for row in ours).items():
        if count > 1:
            yield checks.Warning(
                f"There are {count} schedules {name!r}: each run is queued {count} times.",
                hint=f"{_SYNC} It keeps the oldest.",
                id="idempotent_actions.W011",
            )


def _wrong(wanted: Sequence[Plan], ours: Sequence["Schedule"]) -> Iterator[checks.CheckMessage]:
    by_name = {f"{PREFIX}{plan.name}": plan for plan in wanted}
    for row in ours:
        if why := _never_due(row):
            yield checks.Warning(
                f"The schedule {row.name!r} will never be due: {why}.",
                hint=_SYNC,
                obj=row,
                id="idempotent_actions.W012",
            )
        elif why := _not_as_planned(row, by_name.get(row.name)):
            yield checks.Warning(
                f"The schedule {row.name!r} isn't as planned: {why}.",
                hint=_SYNC,
                obj=row,
                id="idempotent_actions.W013",
            )


def _never_due(row: "Schedule") -> str:
    if row.next_run is None:
        return "it has no next run"
    if row.repeats == 0:
        return "it has no repeats left"
    return "no cluster has an empty name" if row.cluster == "" else ""


def _not_as_planned(row: "Schedule", plan: Plan | None) -> str:
    if plan is None:
        return "there is no such plan any more"
    if changed := differences(row, plan):
        return ", ".join(
            f"{column} is {getattr(row, column)!r} instead of {value!r}"
            for column, value in changed.items()
        )
    try:
        import_string(row.func)
    except ImportError as error:
        return f"its function can't be imported: {error}"
    return ""
