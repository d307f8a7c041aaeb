"""The invoices' admin, with the partner's ledger and the search index behind it."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import model_ngettext
from django.db import models
from django.http import HttpRequest

from project.billing.admin import InvoiceAdmin
from project.billing.models import Invoice
from project.partners.jobs import ask_for_refresh, ask_for_sync

__all__ = ["PartnerInvoiceAdmin"]

# Billing doesn't know that there are partners, so they put themselves in its place. Not by save
# signals: a model that has receivers is saved row by row in every poll.
admin.site.unregister(Invoice)


@admin.register(Invoice)
class PartnerInvoiceAdmin(InvoiceAdmin):
    """Billing's own, and one action more."""

    actions = ("sync_with_partner",)

    @admin.action(description="Sync with the partner's ledger", permissions=["change"])
    def sync_with_partner(self, request: HttpRequest, queryset: models.QuerySet[Invoice]) -> None:
        """Ask for a sync of each chosen invoice. A double click asks for nothing more."""
        for invoice in queryset:
            ask_for_sync(invoice)
        count = len(queryset)
        self.message_user(request, f"{count} {model_ngettext(self.opts, count)} will be synced.")

    def save_model(self, request: HttpRequest, obj: Invoice, form: Any, change: bool) -> None:
        """Save, and have the index follow."""
        super().save_model(request, obj, form, change)
        ask_for_refresh()

    def delete_model(self, request: HttpRequest, obj: Invoice) -> None:
        """Delete, and have the index follow."""
        super().delete_model(request, obj)
        ask_for_refresh()

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Invoice]) -> None:
        """Delete, and have the index follow."""
        super().delete_queryset(request, queryset)
        ask_for_refresh()
