"""Registers the misfits with Django, when a test installs them."""

from django.apps import AppConfig


class MisfitsConfig(AppConfig):
    """Models that the system checks complain of, and some that look like it and are fine."""

    name = "tests.misfits"
    label = "misfits"
