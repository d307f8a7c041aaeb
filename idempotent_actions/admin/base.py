"""What the app's admin pages share: who may see and do what, paging without counting, links."""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from idempotent_actions.registry import registry

__all__ = [
    "ActionFilter",
    "CappedPaginator",
    "ModelAdmin",
    "ReadOnlyAdmin",
    "SubjectLink",
    "guarded",
    "host_page",
    "render_page",
    "subject_page",
]

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

MOST_ROWS = 10_000
"""Rows that a list pages through; who looks for more searches or filters."""


def guarded(
    model_admin: Any, view: Callable[..., HttpResponse], *permissions: str
) -> Callable[..., HttpResponse]:
    """Return ``view`` for staff who have all ``permissions`` of this app, on GET and POST alike.

    Whoever isn't logged in as staff gets the login page, who lacks a permission a 403.
    """
    needed = [f"idempotent_actions.{each}" for each in permissions]

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.has_perms(needed):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    guarded_view: Callable[..., HttpResponse] = model_admin.admin_site.admin_view(inner)
    return guarded_view


def render_page(
    model_admin: Any, request: HttpRequest, template: str, title: str, **context: Any
) -> HttpResponse:
    """Return a page in the look of the site; ``template`` is a name under the app's own folder."""
    request.current_app = model_admin.admin_site.name
    whole = {
        **model_admin.admin_site.each_context(request),
        "opts": model_admin.opts,
        "title": title,
        **context,
    }
    return TemplateResponse(request, f"admin/idempotent_actions/{template}", whole)


def subject_page(site_name: str, label: str, pk: str, act: str = "") -> str:
    """Return the address of a subject's timeline, or of the page that confirms ``act`` on it."""
    name = "subject_act" if act else "subject"
    arguments = [label, quote(pk), *([act] if act else [])]
    return reverse(f"{site_name}:idempotent_actions_{name}", args=arguments)


def host_page(site_name: str, label: str, pk: str) -> str:
    """Return the address of the host's own page of a subject; "" where it has none."""
    app_label, _, model_name = label.partition(".")
    try:
        return reverse(f"{site_name}:{app_label}_{model_name}_change", args=[quote(pk)])
    except NoReverseMatch:
        return ""


class CappedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than the pages go: a million rows are not counted to show a hundred."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, or ``MOST_ROWS`` where there are more."""
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_ROWS].count())


class ActionFilter(admin.SimpleListFilter):
    """Filters by the registered actions: their names are known without reading the table."""

    title = "action"
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the names of all actions and of the passes that run on their own."""
        names = {action.name for action in registry}
        names |= {action.detection.name for action in registry.ladders()}
        return [(name, name) for name in sorted(names)]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[Any]
    ) -> models.QuerySet[Any]:
        """Keep the rows of the chosen action."""
        chosen = self.value()
        if not chosen:
            return queryset
        # A name that the code has lost may be typed in; a NUL in it is nothing to ask a database.
        return queryset.none() if "\0" in chosen else queryset.filter(action=chosen)


class ReadOnlyAdmin(ModelAdmin):
    """Append-only: not even a superuser changes what the app has recorded."""

    show_full_result_count = False
    paginator = CappedPaginator
    list_max_show_all = 200
    sortable_by = ()  # by its newest rows only: an index serves that, at any size

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody deletes."""
        return False


class SubjectLink(ReadOnlyAdmin):
    """A page of rows that are about a subject."""

    @admin.display(description="subject")
    def subject_link(self, row: Any) -> str:
        """Link to the subject's timeline."""
        if not row.subject_model:
            return "-"
        name = f"{row.subject_model}:{row.subject_pk}"
        url = subject_page(self.admin_site.name, row.subject_model, row.subject_pk)
        return format_html('<a href="{}">{}</a>', url, name)
