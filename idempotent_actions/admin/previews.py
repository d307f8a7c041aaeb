"""The preview: what the next tick does, row by row, as a page and as CSV."""

import csv
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from django.utils.http import content_disposition_header
from django.utils.text import slugify

from idempotent_actions import clock
from idempotent_actions.actions import Action
from idempotent_actions.admin.base import guarded, render_page, subject_page
from idempotent_actions.exceptions import UnknownAction
from idempotent_actions.pausing import paused_by
from idempotent_actions.previews import PreviewRow, preview_rows
from idempotent_actions.registry import registry
from idempotent_actions.reports import describe_error

__all__ = ["urls"]

MOST_ROWS = 200
"""Rows on a page; the CSV has them all."""

_COLUMNS = ("subject", "name", "transition", "rung", "effects", "reason", "error")

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula
(https://owasp.org/www-community/attacks/CSV_Injection)."""


def urls(model_admin: Any) -> list[Any]:
    """Return the addresses of the preview's pages."""
    return [
        path(
            "preview/",
            guarded(model_admin, partial(_index, model_admin), "view_overview"),
            name="idempotent_actions_preview_index",
        ),
        # An action's name may hold a slash.
        path(
            "preview/<path:action>/csv/",
            guarded(model_admin, _csv, "view_overview", "export_preview"),
            name="idempotent_actions_preview_csv",
        ),
        path(
            "preview/<path:action>/",
            guarded(model_admin, partial(_preview, model_admin), "view_overview"),
            name="idempotent_actions_preview",
        ),
    ]


def _index(model_admin: Any, request: HttpRequest) -> HttpResponse:
    actions = [(each, each.model._meta.label) for each in registry]  # no template reads _meta
    return render_page(model_admin, request, "preview_index.html", "Preview", actions=actions)


def _preview(model_admin: Any, request: HttpRequest, action: str) -> HttpResponse:
    chosen = _find(action)
    now = clock.now(chosen.using)
    rows: list[PreviewRow] = []
    error = ""
    try:
        with transaction.atomic(using=chosen.using):  # an error must not end the page's own
            polled = bool(chosen.branches(now))
            rows = list(islice(preview_rows(chosen, now), MOST_ROWS + 1))
    except Exception as raised:
        polled, error = True, describe_error(raised)
    site = model_admin.admin_site.name
    return render_page(
        model_admin,
        request,
        "preview.html",
        f"Preview of {chosen.name}",
        action=chosen,
        now=now,
        polled=polled,
        error=error,
        pause=paused_by(chosen.using, now, action=chosen.audit_name),
        rows=[(row, _page_of(site, row)) for row in rows[:MOST_ROWS]],
        is_cut=len(rows) > MOST_ROWS,
        most_rows=MOST_ROWS,
        exports=request.user.has_perm("idempotent_actions.export_preview"),
    )


def _page_of(site: str, row: PreviewRow) -> str:
    return subject_page(site, row.label, row.pk) if row.pk else ""


def _csv(request: HttpRequest, action: str) -> Any:
    chosen = _find(action)
    name = f"preview-{slugify(chosen.name.replace(':', '-')) or 'action'}.csv"
    disposition = content_disposition_header(True, name)
    return StreamingHttpResponse(
        _lines(chosen),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": str(disposition)},
    )


class _Echo:
    """A file for the csv module that hands back each line instead of keeping it."""

    def write(self, line: str) -> str:
        return line


def _lines(action: Action) -> Iterator[str]:
    """Yield the file line by line: no more than a batch of rows is held at a time."""
    writer = csv.writer(_Echo())
    yield writer.writerow(_COLUMNS)
    try:
        for row in preview_rows(action, clock.now(action.using)):
            yield writer.writerow([_harmless(cell) for cell in _cells(row)])
    except Exception as error:  # the status is sent already: the file itself has to say so
        yield writer.writerow([f"INCOMPLETE, the rest is missing: {describe_error(error)}"])


def _cells(row: PreviewRow) -> tuple[str, ...]:
    effects = ", ".join(row.effect_names)
    return row.ref, row.text, row.transition, row.rung, effects, row.reason, row.error


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _find(name: str) -> Action:
    try:
        return registry.get(name)
    except UnknownAction as error:
        raise Http404(str(error)) from error
