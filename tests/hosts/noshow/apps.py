"""Registers this host with Django."""

from django.apps import AppConfig


class NoShowConfig(AppConfig):
    """A ladder for each student and programme."""

    name = "tests.hosts.noshow"
    label = "host_noshow"
