"""The payment sandbox: a server that speaks the part of Stripe's HTTP API that moves money.

It keeps Stripe's rules of idempotency: the first answer to a key is stored and repeated, also an
error; a key belongs to one endpoint and one set of parameters; two requests with one key at once
are one too many. It knows no key's age: `POST /_sandbox/forget_keys` ages them all.

``python -m project.sandbox.payments`` starts it, with no Django and no database.
"""

import json
import secrets
import select
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from project.sandbox import command_line
from project.sandbox.lifetime import say_listening, stop_event
from project.sandbox.payment_acts import cancel, capture, create_intent, refund
from project.sandbox.payment_book import Call, PaymentBook
from project.sandbox.payment_errors import Answer, Refused, error
from project.sandbox.payment_faults import Fault, Faults
from project.sandbox.payment_lookups import list_objects, retrieve, search_intents

__all__ = ["FILE", "PORT", "serve"]

PORT = 12111
FILE = Path("payments.sqlite3")


class PaymentServer(ThreadingHTTPServer):
    """One server on one book."""

    daemon_threads = True  # a request that hangs doesn't hold up the end
    request_queue_size = 128  # more wait for a moment than the standard library expects

    def __init__(self, port: int, file: Path) -> None:
        self.book = PaymentBook(file)
        self.faults = Faults()
        self._lock = threading.Lock()
        self._keys_in_use: set[str] = set()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def in_use(self, key: str) -> Iterator[None]:
        """Hold a key; a second request with it is refused meanwhile. A kill lets go of all."""
        with self._lock:
            if key and key in self._keys_in_use:
                message = f"A request with the key {key!r} is still running."
                raise Refused(
                    error(409, "idempotency_error", message, code="idempotency_key_in_use")
                )
            self._keys_in_use.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._keys_in_use.discard(key)

    def control(self, call: Call, body: str) -> Answer:
        """Do what the demo or a test tells the sandbox itself."""
        match call.method, call.path:
            case "GET", "/_sandbox/counts":
                return Answer(200, asdict(self.book.counts()))
            case "POST", "/_sandbox/faults":
                given = json.loads(body)
                try:
                    self.faults.set(Fault(given.pop("fault"), **given))
                except (KeyError, TypeError, ValueError) as wrong:
                    return error(400, "sandbox_error", str(wrong))
            case "POST", "/_sandbox/forget_keys":
                self.book.forget_keys()
            case "POST", "/_sandbox/reset":
                self.book.reset()
                self.faults.set(Fault())
            case _:
                return _unknown(call)
        return Answer(200, {})


class Dropped(Exception):
    """The connection ends without an answer."""


class Handler(BaseHTTPRequestHandler):
    """One request. HTTP/1.0, so no connection outlives its answer."""

    server: PaymentServer

    def do_GET(self) -> None:
        """Tell something."""
        self._handle()

    def do_POST(self) -> None:
        """Do something."""
        self._handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Be silent: standard error is for what goes wrong."""

    def _handle(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        form = parse_qsl(url.query if self.command == "GET" else body, keep_blank_values=True)
        key = self.headers.get("Idempotency-Key", "") if self.command == "POST" else ""
        call = Call(self.command, url.path, key, dict(form))
        if url.path.startswith("/_sandbox/"):
            self._send(self.server.control(call, body), call)
            return
        self.server.book.note(call)
        try:
            self._send(self._answer(call), call)
        except (Dropped, ConnectionError):  # or it was the client that left
            self.close_connection = True

    def _answer(self, call: Call) -> Answer:
        try:
            return self._do(call)
        except Refused as refused:
            return refused.answer

    def _do(self, call: Call) -> Answer:
        take, method = self.server.faults.take, call.method
        if not self.headers.get("Authorization", "").startswith("Bearer "):
            return error(401, "invalid_request_error", "You did not provide an API key.")
        if take("rate_limit_429", method):
            message = "Too many requests."
            return error(429, "invalid_request_error", message, code="rate_limit")
        if take("drop_before", method):
            raise Dropped
        if (fault := take("timeout_before", method)) and self._client_leaves_in(fault.seconds):
            raise Dropped
        with self.server.in_use(call.key):
            if fault := take("late", method):
                self.server.faults.sit_out(fault)
            answer = self.server.book.answer(call, lambda db: self._act(db, call))
        if take("drop_after", method):
            raise Dropped
        if (fault := take("timeout_after", method)) and self._client_leaves_in(fault.seconds):
            raise Dropped
        return answer

    def _act(self, db: sqlite3.Connection, call: Call) -> Answer:
        take, method = self.server.faults.take, call.method
        if take("error_500", method):
            return error(500, "api_error", "Something went wrong at the sandbox.")
        match method, call.path.split("/")[2:]:
            case "POST", ["payment_intents"]:
                return create_intent(db, call, declined=take("decline", method) is not None)
            case "POST", ["payment_intents", intent, "capture"]:
                return capture(db, call, intent)
            case "POST", ["payment_intents", intent, "cancel"]:
                return cancel(db, call, intent)
            case "POST", ["refunds"]:
                return refund(db, call)
            case "GET", ["payment_intents"]:
                return list_objects(db, call, "payment_intent")
            case "GET", ["payment_intents", "search"]:
                return search_intents(db, call)
            case "GET", ["payment_intents", intent]:
                return retrieve(db, "payment_intent", intent)
            case "GET", ["refunds"]:
                return list_objects(db, call, "refund")
            case "GET", ["refunds", made]:
                return retrieve(db, "refund", made)
        raise Refused(_unknown(call))

    def _client_leaves_in(self, seconds: float) -> bool:
        """Wait, and tell whether the client has closed the connection meanwhile."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _send(self, answer: Answer, call: Call) -> None:
        body = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Request-Id", f"req_{secrets.token_hex(7)}")
        if version := self.headers.get("Stripe-Version"):
            self.send_header("Stripe-Version", version)
        if call.key:
            self.send_header("Idempotency-Key", call.key)
        if answer.replayed:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(body)


def _unknown(call: Call) -> Answer:
    return error(404, "invalid_request_error", f"Unrecognized request: {call.method} {call.path}")


def serve(port: int, file: Path, with_parent: bool = False) -> None:
    """Serve until SIGTERM or SIGINT; the first line printed says where.

    Args:
        port: TCP port; 0 takes a free one.
        file: the SQLite file with what was done; made if there is none.
        with_parent: stop as well when standard input ends.
    """
    stop = stop_event(with_parent)
    with PaymentServer(port, file) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        say_listening(server.url)
        stop.wait()
        server.shutdown()
        serving.join()


if __name__ == "__main__":
    command_line.run("project.sandbox.payments", __doc__, serve, PORT, FILE)
