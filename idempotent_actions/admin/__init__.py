"""The app's admin pages. Nobody changes there what the app has recorded."""

from idempotent_actions.admin.base import ReadOnlyAdmin, subject_page
from idempotent_actions.admin.captures import CaptureAdmin
from idempotent_actions.admin.ladders import LadderAdminMixin
from idempotent_actions.admin.leases import DeferredCallAdmin, LeaseAdmin
from idempotent_actions.admin.overview import OverviewAdmin
from idempotent_actions.admin.pauses import PauseAdmin
from idempotent_actions.admin.trail import EscalationAdmin, RunAdmin

__all__ = [
    "CaptureAdmin",
    "DeferredCallAdmin",
    "EscalationAdmin",
    "LadderAdminMixin",
    "LeaseAdmin",
    "OverviewAdmin",
    "PauseAdmin",
    "ReadOnlyAdmin",
    "RunAdmin",
    "subject_page",
]
