"""The command ``propme``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from propme import __version__
from propme.errors import PropMeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 after an error that was told, 130 on Ctrl-C."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except PropMeError as error:
        print(f"propme: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("propme: interrupted; what was finished is kept", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="propme",
        description="Does a language model leak its training data, or could it only be made to?",
    )
    parser.add_argument("--version", action="version", version=f"propme {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="execute the notebooks in order and write the report",
        description="Execute the four notebooks in order and write the report of the run.",
    )
    run.add_argument("files", nargs="+", type=Path, help="YAML of parameters; a later file wins")
    run.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a single parameter; wins over the files; may be given several times",
    )
    run.add_argument("--output", metavar="DIR", help="folder of the run; wins over the parameter")
    run.set_defaults(command=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    from propme.parameters import from_text
    from propme.run import run

    overrides = {name: from_text(value) for name, value in options.p}
    folder = run(options.files, overrides, options.output)
    print(f"The report is {folder.report / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
