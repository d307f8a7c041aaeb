"""The tests' settings without any app that registers an action, like a project just begun."""

from tests import settings as full
from tests.settings import *  # noqa: F403

INSTALLED_APPS = [name for name in full.INSTALLED_APPS if name.startswith("django")]
INSTALLED_APPS += ["idempotent_actions"]
