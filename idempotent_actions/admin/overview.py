"""The overview: what happened last night, and what needs a person. First thing under the app."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from idempotent_actions.admin import overview_parts as parts
from idempotent_actions.admin import previews, subjects
from idempotent_actions.admin.base import ReadOnlyAdmin, render_page
from idempotent_actions.funnels import MOST_SUBJECTS
from idempotent_actions.models import Overview
from idempotent_actions.overviews import MOST_ACTS, survey

__all__ = ["OverviewAdmin"]


@admin.register(Overview)
class OverviewAdmin(ReadOnlyAdmin):
    """The overview, with the pages that are about no single table under it."""

    def get_urls(self) -> list[Any]:
        """Add the pages of subjects and of the next tick."""
        return [*subjects.urls(self), *previews.urls(self), *super().get_urls()]

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow the page, but none of its rows: the runs' own page has another permission."""
        return obj is None and super().has_view_permission(request)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the overview."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found = survey()
        links = parts.Links(request.user, self.admin_site.name)
        return render_page(
            self,
            request,
            "overview.html",
            "Overview",
            found=found,
            needs=list(parts.needs(found, links)),
            runs=[parts.last_run(each, links) for each in found.ran],
            funnels=[parts.drawn(each) for each in found.funnels],
            states=parts.states(found.captures, links),
            effects=parts.effects(found.captures),
            chart=parts.chart_of_days(found.days),
            most_acts=MOST_ACTS,
            most_subjects=MOST_SUBJECTS,
        )
