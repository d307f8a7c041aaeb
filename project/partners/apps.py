"""Registers the partners example with Django."""

from django.apps import AppConfig


class PartnersConfig(AppConfig):
    """A partner's ledger that follows the invoices, and an index that finds them."""

    name = "project.partners"
    label = "partners"
