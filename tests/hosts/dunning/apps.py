"""Registers this host with Django."""

from django.apps import AppConfig


class DunningConfig(AppConfig):
    """Dunning of an existing bill model, on a side row."""

    name = "tests.hosts.dunning"
    label = "host_dunning"
