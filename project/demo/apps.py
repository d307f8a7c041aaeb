"""Registers the demo with Django."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """The command ``demo``; it has no models of its own."""

    name = "project.demo"
    label = "demo"
