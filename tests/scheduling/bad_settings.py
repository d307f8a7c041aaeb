"""The tests' settings with a plan that can't be."""

from tests.settings import *  # noqa: F403

IDEMPOTENT_ACTIONS = {"SCHEDULES": {"tick": {"every": "hourly"}}}
