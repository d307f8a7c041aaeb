"""System checks of django-q2's settings: what would lose, repeat or hang tasks is said out loud.

They read ``settings.Q_CLUSTER`` with django-q2's own defaults, and are quiet where django-q2 isn't
installed.
"""

import math
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import checks
from django.db import connections, router

from idempotent_actions.exceptions import InvalidSetting
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.registry import registry
from idempotent_actions.repeated_hours import HINT, hangs_at
from idempotent_actions.schedules import planned

__all__ = ["check_clusters", "check_connections", "check_plans"]

_RETRY = 60
"""Seconds; django-q2's default."""

_OTHER_BROKERS = ("broker_class", "iron_mq", "sqs", "orm", "mongo")
"""The options that name a broker, in the order in which django-q2 looks. It falls to Redis."""

_REDIS = "django_q.brokers.redis_broker.Redis"


@checks.register("idempotent_actions")
def check_clusters(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E004, E006, W003, W004, W005, W007, W009: what a cluster is told in ``Q_CLUSTER``."""
    if not apps.is_installed("django_q"):
        return []
    main = _messages(_options())
    found = list(main.values())
    for name, options in _alternatives().items():
        for key, message in _messages(options).items():
            # What an alternative cluster doesn't set itself it has from the main one. And it need
            # not run schedules: those without a cluster's name are the main one's.
            if key != _id("W009") and (key not in main or message.msg != main[key].msg):
                message.msg = f"In ALT_CLUSTERS[{name!r}]: {message.msg}"
                found.append(message)
    return found


@checks.register("idempotent_actions")
def check_connections(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E005, W006, W008: the databases that tasks and our rows are in."""
    if not apps.is_installed("django_q"):
        return []
    orm = _options().get("orm")
    home = _home()
    messages: list[checks.CheckMessage] = []
    if orm and {orm} != set(home):
        messages.append(
            checks.Warning(
                f"Tasks are kept in the database {orm!r}, schedules and audit rows in "
                f"{' and '.join(map(repr, home))}: they aren't committed together.",
                hint=f"Set Q_CLUSTER['orm'] = {home[0]!r}, and let the database router send "
                "django_q and idempotent_actions there.",
                id=_id("W006"),
            )
        )
    for alias in sorted({*home, *([orm] if orm else [])} & set(connections)):
        messages += _about_connections(alias)
    return messages


@checks.register("idempotent_actions")
def check_plans(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """E007: ``SCHEDULES`` can't be used as it is. W014: a plan will hang the scheduler."""
    if not apps.is_installed("django_q"):
        return []
    try:
        wanted = planned()
    except InvalidSetting as error:
        hint = "Mend the setting, then run manage.py sync_schedules."
        return [checks.Error(str(error), hint=hint, id=_id("E007"))]
    return [
        checks.Warning(
            f"The plan {plan.name!r} will hang django-q2's scheduler, and all schedules with it, "
            f"when the clock is put back: from {moment.isoformat(' ', 'minutes')} on.",
            hint=HINT,
            id=_id("W014"),
        )
        for plan in wanted
        if plan.cron and (moment := hangs_at(plan.cron))
    ]


def _messages(options: Mapping[str, Any]) -> dict[str, checks.CheckMessage]:
    """Return what is to be said of one cluster's options, by id."""
    return {str(each.id): each for look in _LOOKS if (each := look(options)) is not None}


def _timeout(options: Mapping[str, Any]) -> checks.CheckMessage | None:
    timeout, retry = _seconds(options)
    if timeout is not None and timeout < retry:
        return None
    what = (
        "A task may run for ever: it has no timeout"
        if timeout is None
        else f"A task that runs {retry} s is handed out again, and may run for {timeout} s"
    )
    return checks.Error(
        f"{what} (timeout {timeout}, retry {retry}).",
        hint="Set Q_CLUSTER['timeout'], like 60, and Q_CLUSTER['retry'] well above it, like 180.",
        id=_id("E004"),
    )


def _sync(options: Mapping[str, Any]) -> checks.CheckMessage | None:
    if not options.get("sync") or _testing():
        return None
    return checks.Error(
        "Tasks run inside of whoever enqueues them, and in that transaction: sync is on.",
        hint="Take 'sync' out of Q_CLUSTER; it is for tests.",
        id=_id("E006"),
    )


def _retry(options: Mapping[str, Any]) -> checks.CheckMessage | None:
    timeout, retry = _seconds(options)
    if timeout is None or timeout >= retry or _is_redis(options):
        return None
    workers = int(options.get("workers") or multiprocessing.cpu_count())
    # None and 0 stand for a queue without a limit.
    ahead = (options.get("queue_limit", workers**2) or math.inf) + (options.get("bulk") or 1)
    longest = math.inf if math.isinf(ahead) else timeout * (1 + math.ceil(ahead / workers))
    if retry > longest:
        return None
    above = "" if math.isinf(longest) else f"Set Q_CLUSTER['retry'] above {longest}, or "
    return checks.Warning(
        f"A task may be handed out again while it still waits its turn: retry ({retry} s) counts "
        f"from when a cluster takes it, and others can be ahead of it for {longest} s.",
        hint=f"{above}lower 'queue_limit' and 'bulk' (1 and 1 do for a schedule): 'retry' is to be "
        "above timeout x (1 + ceil((queue_limit + bulk) / workers)).",
        id=_id("W003"),
    )


def _for_ever(options: Mapping[str, Any]) -> checks.CheckMessage | None:
    if options.get("max_attempts") or options.get("ack_failures") or _is_redis(options):
        return None
    return checks.Warning(
        "A task that fails is run again for ever.",
        hint="Set Q_CLUSTER['max_attempts'], like 5, or Q_CLUSTER['ack_failures'] = True.",
        id=_id("W004"),
    )


def _catch_up(options: Mapping[str, Any]) -> checks.CheckMessage | None:
    if not options.get("catch_up", True):
        return None
    return checks.Warning(
        "After an outage every missed run is made up for, one by one.",
        hint="Set Q_CLUSTER['catch_up'] = False: a poll reads current state, so one run is enough.",
        id=_id("W005"),
    )


def _receipts(options: Mapping[str, Any]) -> checks.CheckMessage | None:
    if not _is_redis(options):
        return None
    return checks.Warning(
        "The broker is Redis, which takes no receipts: a killed worker's tasks are lost.",
        hint="Set Q_CLUSTER['orm'] = 'default' to keep tasks in the database; or silence this one: "
        "the next tick and the minute's delivery make up for what was lost.",
        id=_id("W007"),
    )


def _scheduler(options: Mapping[str, Any]) -> checks.CheckMessage | None:
    name = options.get("name", "default")
    by_default = options.get("cluster_name", name) == name
    if options.get("scheduler", True) and by_default:
        return None
    what = "'scheduler'" if by_default else "'cluster_name', which differs from 'name',"
    return checks.Warning(
        "This cluster runs no schedules but those that name it.",
        hint=f"Take {what} out of Q_CLUSTER; or silence this one where a cluster on another host, "
        "with other settings, runs them.",
        id=_id("W009"),
    )


_LOOKS: Sequence[Callable[[Mapping[str, Any]], checks.CheckMessage | None]] = (
    _timeout,
    _sync,
    _retry,
    _for_ever,
    _catch_up,
    _receipts,
    _scheduler,
)


def _about_connections(alias: str) -> Iterator[checks.CheckMessage]:
    given = connections[alias].settings_dict
    if given["OPTIONS"].get("pool"):
        yield checks.Error(
            f"The database {alias!r} has a connection pool, which a cluster's forks break: most "
            "tasks would never run.",
            hint=f"Take 'pool' out of DATABASES[{alias!r}]['OPTIONS'], at least in the settings "
            "that qcluster runs with.",
            id=_id("E005"),
        )
    lasting = given["CONN_MAX_AGE"] != 0 and connections[alias].vendor != "sqlite"
    if lasting and not given["CONN_HEALTH_CHECKS"]:
        yield checks.Warning(
            f"Connections to the database {alias!r} are kept, and not looked at before they are "
            f"used again: after a restart of the server a worker's tasks fail.",
            hint=f"Set DATABASES[{alias!r}]['CONN_HEALTH_CHECKS'] = True, or CONN_MAX_AGE to 0.",
            id=_id("W008"),
        )


def _home() -> list[str]:
    """Return the aliases that schedules, subjects and our own rows are written to."""
    from django_q.models import Schedule

    ours = {action.using for action in registry} | {router.db_for_write(Escalation)}
    return sorted(ours | {router.db_for_write(Schedule)})


def _options() -> dict[str, Any]:
    return dict(getattr(settings, "Q_CLUSTER", {}))


def _alternatives() -> dict[str, dict[str, Any]]:
    """Return the options of each alternative cluster, as django-q2 puts them together."""
    given = _options().get("ALT_CLUSTERS") or {}
    return {name: {**_options(), **own} for name, own in given.items() if isinstance(own, dict)}


def _seconds(options: Mapping[str, Any]) -> tuple[int | None, int]:
    """Return a task's longest time, if it has one, and how long it is left to a worker."""
    timeout = options.get("timeout")
    return (timeout if timeout and timeout > 0 else None), options.get("retry", _RETRY)


def _is_redis(options: Mapping[str, Any]) -> bool:
    chosen = next((name for name in _OTHER_BROKERS if options.get(name)), None)
    return chosen is None or (chosen == "broker_class" and options[chosen] == _REDIS)


def _testing() -> bool:
    return "pytest" in sys.modules or "test" in sys.argv


def _id(short: str) -> str:
    return f"idempotent_actions.{short}"
