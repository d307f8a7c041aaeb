"""The pauses, and the pages that set one and lift one."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import Case, Q, QuerySet, Value, When
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.utils.html import format_html

from idempotent_actions import clock, services
from idempotent_actions.admin.base import ReadOnlyAdmin, guarded, render_page
from idempotent_actions.delivering import home
from idempotent_actions.effects import all_effects
from idempotent_actions.exceptions import IdempotentActionsError
from idempotent_actions.models import Pause, PauseScope
from idempotent_actions.registry import registry

__all__ = ["PauseAdmin"]


class ReasonForm(forms.Form):
    """Why: asked of everybody."""

    reason = forms.CharField(
        max_length=255, widget=AdminTextInputWidget, help_text="Kept with the pause."
    )


class PauseForm(ReasonForm):
    """What stands still, why, and until when."""

    what = forms.ChoiceField(help_text="An action with its effects, an effect, or all of them.")
    until = forms.DateTimeField(
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        help_text="It ends by itself then; left empty, when somebody lifts it.",
    )
    field_order = ("what", "reason", "until")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        what: Any = self.fields["what"]
        what.choices = [
            ("", "---------"),
            (PauseScope.EVERYTHING.value, "Everything"),
            ("Actions", _choices(PauseScope.ACTION, registry)),
            ("Effects", _choices(PauseScope.EFFECT, all_effects())),
        ]

    @property
    def chosen(self) -> tuple[str, str]:
        """The scope and the name."""
        scope, _, name = self.cleaned_data["what"].partition(":")
        return scope, name


def _choices(scope: PauseScope, declared: Any) -> list[tuple[str, str]]:
    return [(f"{scope.value}:{name}", name) for name in sorted(each.name for each in declared)]


@admin.register(Pause)
class PauseAdmin(ReadOnlyAdmin):
    """What was paused, by whom and why; set and lifted on pages of their own."""

    change_list_template = "admin/idempotent_actions/pause_list.html"
    list_display = (
        "paused_at",
        "state",
        "scope",
        "name",
        "reason",
        "actor",
        "until",
        "lifted_at",
        "lifted_by",
    )
    list_filter = ("scope",)
    readonly_fields = ("state",)

    def get_urls(self) -> list[Any]:
        """Add the pages that set and lift."""
        needed = ("view_pause", "set_pause")
        return [
            path(
                "set/",
                guarded(self, self.set_view, *needed),
                name="idempotent_actions_pause_set",
            ),
            path(
                "<int:pk>/lift/",
                guarded(self, self.lift_view, *needed),
                name="idempotent_actions_pause_lift",
            ),
            *super().get_urls(),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Tell of each row what has become of it by now."""
        over = When(until__lte=clock.now(home()), then=Value("ended"))
        lifted = When(~Q(lifted_at=None), then=Value("lifted"))
        state = Case(lifted, over, default=Value("active"))
        rows: QuerySet[Any] = super().get_queryset(request).annotate(state=state)
        return rows

    def get_list_display(self, request: HttpRequest) -> Any:
        """Offer to lift to those who may."""
        return [*self.list_display, *(["lift"] if _may_set(request) else [])]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, with the button for those who may."""
        context = {"may_set": _may_set(request), **(extra_context or {})}
        return super().changelist_view(request, context)

    @admin.display(description="state")
    def state(self, pause: Any) -> str:
        """Say ``active``, ``ended`` by itself, or ``lifted``."""
        return str(pause.state)

    @admin.display(description="lift")
    def lift(self, pause: Any) -> str:
        """Link to the page that lifts it, while there is something to lift."""
        if pause.state != "active":
            return "-"
        url = self._address("lift", pause.pk)
        return format_html('<a href="{}" aria-label="Lift the pause of {}">Lift</a>', url, pause)

    def set_view(self, request: HttpRequest) -> HttpResponse:
        """Ask what to pause and why, then pause it."""
        form = PauseForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            given = form.cleaned_data
            try:
                made = services.pause(
                    *form.chosen, reason=given["reason"], until=given["until"], by=request.user
                )
            except IdempotentActionsError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, f"Paused: {made}.")
                return HttpResponseRedirect(self._address("changelist"))
        back = self._address("changelist")
        return render_page(self, request, "pause_set.html", "Pause", form=form, back=back)

    def lift_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask why, then lift."""
        pause = self.get_queryset(request).filter(pk=pk).first()
        if pause is None:
            raise Http404(f"There is no pause {pk}.")
        form = ReasonForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                lifted = services.lift(pause, reason=form.cleaned_data["reason"], by=request.user)
            except IdempotentActionsError as error:
                form.add_error(None, str(error))
            else:
                if lifted:
                    messages.success(request, f"No longer paused: {pause}.")
                else:
                    messages.warning(request, "That pause was over already: nothing was done.")
                return HttpResponseRedirect(self._address("changelist"))
        return render_page(
            self,
            request,
            "pause_lift.html",
            "Lift a pause",
            form=form,
            pause=pause,
            back=self._address("changelist"),
        )

    def _address(self, page: str, *arguments: Any) -> str:
        name = f"{self.admin_site.name}:idempotent_actions_pause_{page}"
        return reverse(name, args=arguments)


def _may_set(request: HttpRequest) -> bool:
    return request.user.has_perm("idempotent_actions.set_pause")
