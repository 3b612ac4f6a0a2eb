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
    compare.add_argument(
        "--dry-run", action="store_true", help="say which runs are there, and what is missing"
    )
    compare.set_defaults(command=_compare)


def _compare(options: argparse.Namespace) -> int:
    from propme.comparing import compare, what_is_missing
    from propme.parameters import from_text

    overrides = {name: from_text(value) for name, value in options.p}
    if options.dry_run:
        output, missing = what_is_missing(options.given, overrides, options.output)
        print(f"{output}: {len(missing)} runs would be compared")
        for run, what in missing.items():
            print(f"  missing {what}" if what else f"  {run} is there")
        return int(any(missing.values()))
    folder = compare(options.given, overrides, options.output)
    print(f"The report is {folder.report / 'index.html'}")
    return 0
