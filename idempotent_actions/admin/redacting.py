"""What may be shown of a capture: never a parameter that its effect declares secret.

Of an effect that the code no longer declares nobody knows which they are: all of them count as
secret. Errors and results quote what was sent, so a secret's text is blotted out of them, too.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from idempotent_actions.effects import Effect
from idempotent_actions.models import Capture
from idempotent_actions.parameters import thaw
from idempotent_actions.running import HIDDEN

__all__ = ["Redacted"]

_MOST_SHOWN = 20_000
"""Characters of one value: more than that says nothing in a page."""


class Redacted:
    """A capture as its page may show it. ``effect``: None where the code has lost it."""

    def __init__(self, capture: Capture, effect: Effect | None) -> None:
        params: Mapping[str, Any] = capture.params
        self._effect = effect
        self._capture = capture
        self._secret = {name for name in params if effect is None or name in effect.secret}
        texts = {text for name in self._secret for text in _leaves(_thawed(params[name]))}
        self._blots = sorted(texts, key=len, reverse=True)  # first what holds another

    @property
    def params(self) -> str:
        """The frozen parameters as JSON, the secret ones hidden."""
        shown = {
            name: HIDDEN if name in self._secret else _thawed(value)
            for name, value in self._capture.params.items()
        }
        return _json(shown)

    @property
    def result(self) -> str:
        """What the effect brought back, as JSON; "" for nothing."""
        result = self._capture.result
        if result is None:
            return ""
        if self._effect is None:
            return HIDDEN
        return _json(self._without(result))

    @property
    def error(self) -> dict[str, str]:
        """Class, code and message of the last error; nothing where there is none."""
        return self.of_error(self._capture.error)

    @property
    def hook_error(self) -> str:
        """The error of the host's own hook; "" where there is none."""
        return self.text(self._capture.hook_error)

    def of_error(self, error: Any) -> dict[str, str]:
        """Return a stored error, this capture's or an attempt's, as texts."""
        stored = error if isinstance(error, dict) else {}
        return {name: self.text(value) for name, value in stored.items()}

    def text(self, value: Any) -> str:
        """Return ``value`` as text, with each secret in it blotted out."""
        text = str(value)
        for secret in self._blots:
            text = text.replace(secret, HIDDEN)
        return text[:_MOST_SHOWN]

    def _without(self, value: Any) -> Any:
        # Before it is JSON: there a quote in a secret would be written in another way.
        match value:
            case dict():
                return {self.text(name): self._without(each) for name, each in value.items()}
            case list():
                return [self._without(each) for each in value]
            case None | bool():
                return value
        text = self.text(value)
        return value if text == str(value) else text


def _leaves(value: Any) -> Iterator[str]:
    """Yield the texts in which a parameter may be quoted."""
    match value:
        case dict():
            for each in value.values():
                yield from _leaves(each)
        case list():
            for each in value:
                yield from _leaves(each)
        case None | bool() | "":
            return
        case date():  # and datetime
            yield from (str(value), value.isoformat())
        case _:
            yield str(value)


def _thawed(value: Any) -> Any:
    try:
        return thaw(value)
    except Exception:  # what was written by other means than ours may be anything
        return value


def _json(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text[:_MOST_SHOWN]
