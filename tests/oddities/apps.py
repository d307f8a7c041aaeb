"""Registers the odd models with Django; they have no migrations."""

from django.apps import AppConfig


class OdditiesConfig(AppConfig):
    """Models that only tests need."""

    name = "tests.oddities"
    label = "oddities"
