"""Registers this host with Django."""

from django.apps import AppConfig


class ReportConfig(AppConfig):
    """The report of each day."""

    name = "tests.hosts.report"
    label = "host_report"
