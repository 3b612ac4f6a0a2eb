"""The command ``propme run``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Add the command to the parser."""
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


def _run(options: argparse.Namespace) -> int:
    from propme.parameters import from_text
    from propme.run import run

    overrides = {name: from_text(value) for name, value in options.p}
    folder = run(options.files, overrides, options.output)
    print(f"The report is {folder.report / 'index.html'}")
    return 0
