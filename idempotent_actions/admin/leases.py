"""Who is at what right now, and what is put off: leases and deferred calls, to read."""

import json
from typing import Any

from django.contrib import admin
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from idempotent_actions import clock
from idempotent_actions.admin.filters import NarrowAdmin
from idempotent_actions.admin.showing import boxed, in_its_direction
from idempotent_actions.delivering import home
from idempotent_actions.models import DeferredCall, Lease

__all__ = ["DeferredCallAdmin", "LeaseAdmin"]

_SHORT = 100
"""Characters of an error in a list."""


@admin.register(Lease)
class LeaseAdmin(NarrowAdmin):
    """The names that somebody holds, or has held last."""

    list_display = ("name", "owner", "taken_at", "expires_at", "lapsed")
    search_fields = ("name",)  # for the box; see found()
    search_help_text = "Exactly: a name."
    fields = ("name", "owner", "taken_at", "expires_at", "lapsed", "token")
    readonly_fields = ("lapsed",)

    def found(self, term: str) -> Q:
        """Return the lease of that name."""
        return Q(name=term)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add by the database's clock, which leases go by, whether each has lapsed."""
        lapsed = Q(expires_at__lte=clock.now(home()))
        wrapped = ExpressionWrapper(lapsed, output_field=BooleanField())
        leases: QuerySet[Any] = super().get_queryset(request).annotate(ia_lapsed=wrapped)
        return leases

    @admin.display(description="lapsed", boolean=True)
    def lapsed(self, lease: Any) -> bool:
        """Tell whether it holds nobody off any more."""
        return bool(lease.ia_lapsed)


@admin.register(DeferredCall)
class DeferredCallAdmin(NarrowAdmin):
    """Calls that are put off. What they are called with may be personal: a row's page shows it."""

    list_display = ("function", "name", "due_at", "tries", "short_error")
    search_fields = ("name",)  # for the box; see found()
    search_help_text = "Exactly: a name."
    fields = (
        "function",
        "name",
        "asked_at",
        "due_at",
        "latest_at",
        "serial",
        "tries",
        "shown_error",
        "shown_args",
        "shown_kwargs",
    )
    readonly_fields = ("shown_error", "shown_args", "shown_kwargs")

    def found(self, term: str) -> Q:
        """Return the call of that name."""
        return Q(name=term)

    @admin.display(description="error")
    def short_error(self, call: DeferredCall) -> SafeString:
        """Show the beginning of the error."""
        return in_its_direction(Truncator(call.error).chars(_SHORT))

    @admin.display(description="error")
    def shown_error(self, call: DeferredCall) -> SafeString:
        """Show the whole error."""
        return boxed(call.error, "Error")

    @admin.display(description="arguments")
    def shown_args(self, call: DeferredCall) -> SafeString:
        """Show the arguments."""
        return boxed(_json(call.args), "Arguments", "ia-params")

    @admin.display(description="named arguments")
    def shown_kwargs(self, call: DeferredCall) -> SafeString:
        """Show the named arguments."""
        return boxed(_json(call.kwargs), "Named arguments", "ia-params")


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
