"""The tests' settings for the type checker, which reads models and needs no server."""

import os

os.environ.setdefault("DATABASE_URL", "postgresql://nobody@localhost/nothing")

from tests.settings import *  # noqa: F403
