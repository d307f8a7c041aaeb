"""Answers in Stripe's shape, and the errors among them."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "Body", "Refused", "error"]

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status, a JSON body, and whether they are an earlier request's."""

    status: int
    body: Body
    replayed: bool = False


class Refused(Exception):
    """The request was turned away before anything was done: its answer is not stored."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body["error"]["message"])
        self.answer = answer


def error(status: int, kind: str, message: str, **more: Any) -> Answer:
    """Return an error that the SDK makes one of its exceptions of.

    Args:
        status: the HTTP status, which chooses the exception.
        kind: Stripe's ``type``, like ``card_error``.
        message: for people.
        more: further members of the error, like ``code``.
    """
    return Answer(status, {"error": {"type": kind, "message": message, **more}})
