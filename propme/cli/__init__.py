"""The command ``propme``: a module for each group of commands, which adds its own to the parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from propme import __version__
from propme.cli import comparing, indexing, measuring, pages, running, tracing
from propme.errors import PropMeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 after an error that was told, 130 on Ctrl-C."""
    options = build_parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except PropMeError as error:
        print(f"propme: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"propme: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("propme: interrupted; what was finished is kept", file=sys.stderr)
        return 130


class _Parser(argparse.ArgumentParser):
    """A parser that refuses itself what it does not know, so that the usage shown is its own."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def build_parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    parser = _Parser(
        prog="propme",
        description="Does a language model leak its training data, or could it only be made to?",
    )
    parser.add_argument("--version", action="version", version=f"propme {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (running, comparing, measuring, tracing, indexing, pages):
        group.add(commands)
    return parser
