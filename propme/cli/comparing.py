"""The command ``propme compare``."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Add the command to the parser."""
    compare = commands.add_parser(
        "compare",
        help="set finished runs side by side: models, checkpoints, corpora, decodings",
        description="Execute notebook 5_comparison for some runs and write its report.",
    )
    compare.add_argument(
        "given", nargs="+", metavar="RUN", help="folders of runs, or a YAML that names them"
    )
    compare.add_argument(
        "-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="as for run"
    )
    compare.add_argument("--output", metavar="DIR", help="folder of the comparison")
    compare.set_defaults(command=_compare)


def _compare(options: argparse.Namespace) -> int:
    from propme.comparing import compare
    from propme.parameters import from_text

    overrides = {name: from_text(value) for name, value in options.p}
    folder = compare(options.given, overrides, options.output)
    print(f"The report is {folder.report / 'index.html'}")
    return 0
