"""An installed app of the tests: a large table with its ladder in a side row."""

from django.apps import AppConfig


class ScaleConfig(AppConfig):
    """Accounts and their chases."""

    name = "tests.scale"
    label = "scale"
