"""The attendance register: what a teacher notes, and when that starts the ladder."""

from idempotent_actions import services
from tests.hosts.noshow.models import Enrolment, Session

__all__ = ["attended", "excused", "missed"]


def missed(session: Session) -> None:
    """Note that the student stayed away. The first time begins the ladder, or begins it again."""
    _note(session, Session.Outcome.MISSED)
    enrolment = Enrolment.objects.get(pk=session.enrolment_id)
    if _has_come_back(enrolment):  # and no tick has noticed yet
        services.resolve(enrolment, by="register", reason="attended")
    if services.reopen(enrolment, by="register", reason="missed again") or not enrolment.due_at:
        Enrolment.objects.filter(pk=enrolment.pk).update(due_at=session.starts_at)


def excused(session: Session) -> None:
    """Note that the student stayed away with an excuse, perhaps after it was noted as missed."""
    _note(session, Session.Outcome.EXCUSED)


def attended(session: Session) -> None:
    """Note that the student came."""
    _note(session, Session.Outcome.ATTENDED)


def _has_come_back(enrolment: Enrolment) -> bool:
    came = enrolment.sessions.filter(outcome=Session.Outcome.ATTENDED)
    return enrolment.due_at is not None and came.filter(starts_at__gt=enrolment.due_at).exists()


def _note(session: Session, outcome: str) -> None:
    session.outcome = outcome
    session.save(update_fields=["outcome"])
