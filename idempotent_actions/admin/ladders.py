"""What a host's own admin page of a model on a ladder inherits."""

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch

from idempotent_actions.admin.acts import links
from idempotent_actions.admin.base import ModelAdmin, subject_page
from idempotent_actions.models.ladder import OWN_COLUMNS

__all__ = ["LadderAdminMixin"]

if TYPE_CHECKING:
    Base = ModelAdmin
else:
    Base = object


class LadderAdminMixin(Base):
    """Shows where a subject stands, read-only, and links to its timeline and to a person's acts.

    Put it before ``ModelAdmin``. The ladder's columns get a fieldset of their own at the end, so an
    edit form that was opened before a tick can't write back an old rung or state. A host with a
    ``change_form_template`` of its own includes ``admin/idempotent_actions/ladder_tools.html`` in
    the block ``object-tools-items``.
    """

    change_form_template = "admin/idempotent_actions/ladder_change_form.html"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Add the ladder's columns to the host's own."""
        own = tuple(super().get_readonly_fields(request, obj))
        return (*own, *[name for name in _columns(self.model) if name not in own])

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Move the ladder's columns to a fieldset at the end; a new row has none."""
        sets = [
            (title, {**options, "fields": _without_own(options["fields"])})
            for title, options in super().get_fieldsets(request, obj)
        ]
        return sets if obj is None else [*sets, ("Ladder", {"fields": _columns(self.model)})]

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Hand the links to the template, as far as the person may follow them."""
        subject = kwargs.get("obj")
        if subject is not None and request.user.has_perm("idempotent_actions.view_overview"):
            site = self.admin_site.name
            try:
                page = subject_page(site, subject._meta.label_lower, str(subject.pk))
                acts = links(request.user, subject, site)
                context["ladder_tools"] = [("Timeline", page), *acts]
            except NoReverseMatch:
                pass  # a site of the host's own, without the app's pages
        return super().render_change_form(request, context, *args, **kwargs)


def _columns(model: Any) -> list[str]:
    return [field.name for field in model._meta.concrete_fields if field.name in OWN_COLUMNS]


def _without_own(fields: Any) -> list[Any]:
    """Leave out the ladder's columns, also in the rows of several fields that Django allows."""
    kept: list[Any] = []
    for each in fields:
        if isinstance(each, list | tuple):
            row = tuple(name for name in each if name not in OWN_COLUMNS)
            kept += [row] if row else []
        elif each not in OWN_COLUMNS:
            kept.append(each)
    return kept
