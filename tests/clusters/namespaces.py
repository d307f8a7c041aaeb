"""Hosts of their own: network namespaces with addresses, whose link to the database can be cut.

The database is reached through a forwarder on the bridge's address: it need not listen there.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.db import connection

__all__ = ["Host", "hosts"]

_NET = f"10.213.{os.getpid() % 254 + 1}"
"""Another one for each process, in case one that was killed has left its own behind."""


@dataclass(frozen=True)
class Host:
    """A namespace; `prefix` goes before a command that is to run in it."""

    name: str
    link: str
    database_url: str

    @property
    def prefix(self) -> Sequence[str]:
        """What to put before a command."""
        return ["ip", "netns", "exec", self.name]

    def cut_off(self) -> None:
        """Let nothing come through its link, as if a cable were pulled."""
        _ip("link", "set", self.link, "down")

    def reconnect(self) -> None:
        """Plug the cable in."""
        _ip("link", "set", self.link, "up")


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Make so many hosts that reach the test database; skip the test where that can't be done."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and the command ip")
    tag = f"ia{os.getpid() % 100_000}"
    bridge = f"{tag}b"
    with contextlib.ExitStack() as stack:
        try:
            _ip("link", "add", bridge, "type", "bridge")
            stack.callback(_ip, "link", "del", bridge)
            _ip("addr", "add", f"{_NET}.1/24", "dev", bridge)
            _ip("link", "set", bridge, "up")
            names = [_join(stack, tag, bridge, number) for number in range(count)]
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces can't be made here: {error.stderr.strip()}")
        port = stack.enter_context(_forwarder())
        url = f"postgresql://{connection.settings_dict['USER'] or 'postgres'}@{_NET}.1:{port}"
        url += f"/{connection.settings_dict['NAME']}"
        yield [Host(name, link, url) for name, link in names]


def _join(stack: contextlib.ExitStack, tag: str, bridge: str, number: int) -> tuple[str, str]:
    name, outer, inner = f"{tag}n{number}", f"{tag}o{number}", f"{tag}i{number}"
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "del", name)
    _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
    _ip("link", "set", outer, "master", bridge, "up")
    within = ["-n", name]
    _ip(*within, "addr", "add", f"{_NET}.{number + 2}/24", "dev", inner)
    _ip(*within, "link", "set", inner, "up")
    _ip(*within, "link", "set", "lo", "up")
    return name, outer


def _ip(*arguments: str) -> None:
    command = [shutil.which("ip") or "ip", *arguments]
    subprocess.run(command, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def _forwarder() -> Iterator[int]:
    """Forward connections to the bridge's address to the database's server."""
    listener = socket.create_server((f"{_NET}.1", 0))
    opened: list[socket.socket] = [listener]

    def accept() -> None:
        while True:
            try:
                client, _address = listener.accept()
            except OSError:
                return  # it was closed
            server = _to_server()
            opened.extend([client, server])
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        for each in opened:
            each.close()
        acceptor.join(10)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _to_server() -> socket.socket:
    url = urlsplit(os.environ["DATABASE_URL"])
    host = unquote(url.netloc.rpartition("@")[2].partition(":")[0])
    host = host or parse_qs(url.query).get("host", ["127.0.0.1"])[0]
    if host.startswith("/"):
        local = socket.socket(socket.AF_UNIX)
        local.connect(f"{host}/.s.PGSQL.{url.port or 5432}")
        return local
    return socket.create_connection((host, url.port or 5432))
