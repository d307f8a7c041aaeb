"""Invoices in the admin. Their place on the ladder is shown there, not changed."""

from typing import TYPE_CHECKING

from django.contrib import admin

from project.billing.models import Invoice

__all__ = ["InvoiceAdmin"]

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Invoice]
else:
    ModelAdmin = admin.ModelAdmin


@admin.register(Invoice)
class InvoiceAdmin(ModelAdmin):
    """Invoices, with their place on the dunning ladder."""

    list_display = (
        "number",
        "customer",
        "amount",
        "due_at",
        "paid_at",
        "status",
        "rung",
        "cycle",
        "next_at",
        "hold_until",
    )
    list_filter = ("status", "rung")
    search_fields = ("number", "customer", "email")
    readonly_fields = (
        "status",
        "rung",
        "cycle",
        "revision",
        "next_at",
        "escalated_at",
        "hold_until",
        "hold_reason",
    )
