"""The tests' settings for a host that runs without time zones."""

from tests.settings import *  # noqa: F403

USE_TZ = False
