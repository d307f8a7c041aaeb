"""Invoices and orders in the admin. Where they stand is shown there, not changed."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from idempotent_actions.admin import LadderAdminMixin
from project.billing.models import Invoice, Order

__all__ = ["InvoiceAdmin", "OrderAdmin"]

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


@admin.register(Invoice)
class InvoiceAdmin(LadderAdminMixin, ModelAdmin):
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


@admin.register(Order)
class OrderAdmin(ModelAdmin):
    """Orders, with their payment."""

    list_display = ("number", "amount", "currency", "capture_at", "status", "payment_ref")
    list_filter = ("status",)
    search_fields = ("number", "payment_ref")
    readonly_fields = ("status", "payment_ref")
