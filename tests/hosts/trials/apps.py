"""Registers this host with Django."""

from django.apps import AppConfig


class TrialsConfig(AppConfig):
    """Trials that expire and can be renewed."""

    name = "tests.hosts.trials"
    label = "host_trials"
