"""The tests' settings of a host that has no django-q2 among its apps."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in ("django_q", "project.partners")]
del Q_CLUSTER  # noqa: F821
