"""The app's admin pages. Nobody changes there what the app has recorded."""

from idempotent_actions.admin.base import ReadOnlyAdmin
from idempotent_actions.admin.captures import CaptureAdmin
from idempotent_actions.admin.trail import EscalationAdmin, RunAdmin

__all__ = ["CaptureAdmin", "EscalationAdmin", "ReadOnlyAdmin", "RunAdmin"]
