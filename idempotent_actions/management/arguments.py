"""Arguments of the commands: each is checked where it is parsed. And the exit statuses."""

import argparse
import re
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.management.base import CommandParser
from django.db import models
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from idempotent_actions.registry import registry

__all__ = [
    "BAD_USAGE",
    "SOME_FAILED",
    "add_delivery_arguments",
    "add_model_argument",
    "add_workers_argument",
    "duration",
    "instant",
    "model",
    "whole_number",
]

SOME_FAILED = 1
"""Exit status: some rows failed, the others are done."""

BAD_USAGE = 2
"""Exit status: nothing was done."""

MOST_WORKERS = 64
"""Threads. Each takes a database connection; PostgreSQL has 100 unless told otherwise."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_model_argument(parser: CommandParser) -> None:
    """Declare ``--model``, which narrows a command to one model's ladder."""
    parser.add_argument("--model", type=model, metavar="APP.MODEL", help="this model's ladder only")


def add_delivery_arguments(parser: CommandParser) -> None:
    """Declare what the commands that also deliver take."""
    parser.add_argument(
        "--no-deliver", action="store_true", help="leave the effects to deliver_captures"
    )
    add_workers_argument(parser)


def add_workers_argument(parser: CommandParser) -> None:
    """Declare ``--workers``."""
    parser.add_argument(
        "--workers",
        type=whole_number(1, MOST_WORKERS),
        metavar="N",
        help=f"threads that run effects, at most {MOST_WORKERS} (SQLite: one)",
    )


def duration(text: str) -> timedelta:
    """Parse a length of time like ``365d`` or ``12h``, above zero."""
    match = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time like 365d, 12h or 30m")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than time itself") from None


def whole_number(least: int, most: int | None = None) -> Any:
    """Return a parser of whole numbers that are not below ``least``, nor above ``most``."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}")
        if most is not None and int(text) > most:
            raise argparse.ArgumentTypeError(f"must be a whole number of at most {most}")
        return int(text)

    return parse


def instant(text: str) -> datetime:
    """Parse a time with a zone, or without one where the host runs without."""
    try:
        value = parse_datetime(text)
    except ValueError:
        value = None
    if value is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time like 2026-03-01T08:00Z")
    if not settings.USE_TZ and timezone.is_naive(value):
        return value
    if not settings.USE_TZ:
        raise argparse.ArgumentTypeError(f"{text!r} has a time zone, and USE_TZ is off")
    if timezone.is_naive(value):
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: add Z or +01:00")
    return value


def model(text: str) -> type[models.Model]:
    """Parse a model's label, like ``billing.Invoice``."""
    try:
        return apps.get_model(text)
    except (LookupError, ValueError):
        ladders = ", ".join(action.model._meta.label for action in registry.ladders()) or "none"
        raise argparse.ArgumentTypeError(
            f"there is no model {text!r}. Models with a ladder: {ladders}"
        ) from None
