"""The app's models, and the abstract ``LadderModel`` that a host's own table may inherit."""

from idempotent_actions.models.attempt import CaptureAttempt, CaptureDecision
from idempotent_actions.models.capture import Capture, CaptureState
from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel, Status
from idempotent_actions.models.lease import DeferredCall, Lease
from idempotent_actions.models.overview import Overview
from idempotent_actions.models.pause import Pause, PauseScope
from idempotent_actions.models.run import Run

__all__ = [
    "Capture",
    "CaptureAttempt",
    "CaptureDecision",
    "CaptureState",
    "DeferredCall",
    "Escalation",
    "LadderModel",
    "Lease",
    "Overview",
    "Pause",
    "PauseScope",
    "Run",
    "Status",
]
