"""Registers this host with Django."""

from django.apps import AppConfig


class KeysConfig(AppConfig):
    """Primary keys and managers of every kind on a ladder."""

    name = "tests.hosts.keys"
    label = "host_keys"
