"""Every error of this app. One base class; the docstring is the message unless one is given."""

from inspect import cleandoc

__all__ = [
    "IdempotentActionsError",
    "InsideTransaction",
    "InvalidAction",
    "InvalidEffect",
    "InvalidInput",
    "InvalidKey",
    "InvalidLadder",
    "InvalidParameters",
    "InvalidSetting",
    "KeyReused",
    "LadderExhausted",
    "SubjectNotSaved",
    "UnknownAction",
    "UnknownRung",
]


class IdempotentActionsError(Exception):
    """Something went wrong in idempotent_actions."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or cleandoc(self.__doc__ or ""))


class InsideTransaction(IdempotentActionsError):
    """An effect can't be performed inside a transaction: a rollback would forget that it happened.

    Call request() there, and leave the effect to delivery after the commit.
    """


class InvalidAction(IdempotentActionsError):
    """An action can't work as it is declared. Raised at registration."""


class InvalidEffect(IdempotentActionsError):
    """An effect can't work as it is declared, or as an action yields it."""


class InvalidInput(IdempotentActionsError, ValueError):
    """A service was called with an argument it can't take. Nothing was written."""


class InvalidKey(IdempotentActionsError, ValueError):
    """An idempotency key can't be made from these parts. Nothing was written."""


class InvalidLadder(IdempotentActionsError, ValueError):
    """A ladder or one of its rungs is declared wrongly."""


class InvalidParameters(IdempotentActionsError, ValueError):
    """An effect's parameters can't be stored and compared. Nothing was written."""


class InvalidSetting(IdempotentActionsError):
    """The setting IDEMPOTENT_ACTIONS holds an unknown name or a value of the wrong kind."""


class KeyReused(IdempotentActionsError):
    """The idempotency key was used before for another effect, or with other parameters."""


class LadderExhausted(IdempotentActionsError):
    """The subject stands on the last rung: there is nothing left to climb."""


class UnknownAction(IdempotentActionsError, LookupError):
    """No action is registered under this name."""


class UnknownRung(IdempotentActionsError, LookupError):
    """The subject stands on a rung that its ladder no longer declares."""


class SubjectNotSaved(IdempotentActionsError):
    """The database accepted the UPDATE of a locked subject but changed no row.

    A trigger or a rule stands in the way; the audit row was not written either.
    """
