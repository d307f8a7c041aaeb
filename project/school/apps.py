"""Registers the school example with Django."""

from django.apps import AppConfig


class SchoolConfig(AppConfig):
    """Assigned interventions on a no-show ladder."""

    name = "project.school"
    label = "school"
