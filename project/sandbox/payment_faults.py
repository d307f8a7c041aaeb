"""What goes wrong at the payment sandbox, as a test has told it."""

import threading
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["FAULTS", "Fault", "Faults", "PaymentFault"]

PaymentFault = Literal[
    "",  # all goes well
    "timeout_before",  # hangs before the request gets in; acts if the client still waits then
    "timeout_after",  # acts, then hangs before it answers
    "late",  # hangs with the key in use, and acts after that, though the client may have left
    "drop_before",  # closes the connection, nothing done
    "drop_after",  # acts, then closes the connection without an answer
    "error_500",  # an error of the server, nothing done; the key keeps it
    "rate_limit_429",  # turned away, nothing done; the key doesn't keep it
    "decline",  # the bank says no; the key keeps it
]
FAULTS: tuple[PaymentFault, ...] = get_args(PaymentFault)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: how often it is still to happen (None: always), for how long, and to whom."""

    name: PaymentFault = ""
    times: int | None = None
    seconds: float = 60
    method: str = "POST"

    def __post_init__(self) -> None:
        if self.name not in FAULTS:
            raise ValueError(f"There is no fault {self.name!r}, only: {', '.join(FAULTS[1:])}")


class Faults:
    """The one fault that is set. It is the process's own: a server started again has none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._fault = Fault()
        self._left: int | None = 0

    def set(self, fault: Fault) -> None:
        """Replace the fault that was set."""
        with self._changed:
            self._fault, self._left = fault, fault.times
            self._changed.notify_all()

    def take(self, name: PaymentFault, method: str) -> Fault | None:
        """Return the fault if it is to happen now, and count that.

        Args:
            name: the fault whose place in the handling of a request this is.
            method: the request's HTTP method.
        """
        with self._changed:
            if (self._fault.name, self._fault.method) != (name, method) or self._left == 0:
                return None
            if self._left is not None:
                self._left -= 1
            return self._fault

    def sit_out(self, fault: Fault) -> None:
        """Wait the fault's seconds, or until another fault, or none, is set."""
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not fault, timeout=fault.seconds)
