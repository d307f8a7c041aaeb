"""When a sandbox server ends: told by a signal, or left alone by its parent."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType

__all__ = ["say_listening", "stop_event"]


def stop_event(with_parent: bool) -> threading.Event:
    """Return an event that SIGTERM and SIGINT set. Call it in the main thread.

    Args:
        with_parent: also when standard input ends. The parent holds the other end of the pipe, so
            it ends with the parent, whatever ended that.
    """
    stop = threading.Event()

    def tell(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    if with_parent:
        threading.Thread(target=_wait_for_end_of_input, args=[stop], daemon=True).start()
    return stop


def _wait_for_end_of_input(stop: threading.Event) -> None:
    # Not sys.stdin: a thread that waits with its lock held would spoil the interpreter's end.
    while os.read(0, 4096):
        pass
    stop.set()


def say_listening(address: str) -> None:
    """Print the line that tells a parent that it may begin."""
    with suppress(BrokenPipeError):  # the parent is gone; standard input says so too
        print(f"listening on {address}", flush=True)  # noqa: T201 - the server's own output
