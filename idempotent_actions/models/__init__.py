"""The app's models, and the abstract ``LadderModel`` that a host's own table may inherit."""

from idempotent_actions.models.escalation import Escalation
from idempotent_actions.models.ladder import LadderModel, Status
from idempotent_actions.models.run import Run

__all__ = ["Escalation", "LadderModel", "Run", "Status"]
