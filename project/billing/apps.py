"""Registers the billing example with Django."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """Invoices on a dunning ladder."""

    name = "project.billing"
    label = "billing"
