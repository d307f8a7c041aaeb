"""What both sandbox servers take from their command line, by themselves or under manage.py."""

import argparse
from collections.abc import Callable
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, port: int, file: Path) -> None:
    """Take what a server's `serve` takes; `port` and `file` are the defaults."""
    parser.add_argument("--port", type=int, default=port, help="0 takes a free one")
    parser.add_argument("--file", type=Path, default=file, help="SQLite file of what was done")
    parser.add_argument("--with-parent", action="store_true", help="stop when standard input ends")


def run(module: str, about: str | None, serve: Callable[..., None], port: int, file: Path) -> None:
    """Serve as the command line says.

    Args:
        module: the server's dotted name, for its usage.
        about: what it is, in the help.
        serve: takes `port`, `file` and `with_parent`.
        port: the default TCP port.
        file: the default SQLite file.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    add_arguments(parser, port, file)
    serve(**vars(parser.parse_args()))
