"""The commands on what is measured: ``propme metrics``, ``report`` and ``sensitivity``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from propme.cli.options import positive


def add(commands: Any) -> None:
    """Add the commands to the parser."""
    sensitivity = commands.add_parser(
        "sensitivity",
        help="what another batch size or number type changes",
        description="Complete 50 prompts of a run anew, in other batches and another number type.",
    )
    sensitivity.add_argument("files", nargs="+", type=Path, help="the run's YAML of parameters")
    sensitivity.add_argument(
        "-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="as for run"
    )
    sensitivity.add_argument("--output", metavar="DIR", help="folder of the run")
    sensitivity.add_argument(
        "--prompts", type=positive, default=50, metavar="N", help="that are completed anew"
    )
    sensitivity.set_defaults(command=_sensitivity)
    metrics = commands.add_parser(
        "metrics",
        help="recompute every metric from stored tables, without a model or an index",
        description="Recompute the tables of notebook 4_analysis from those of the others.",
    )
    metrics.add_argument(
        "--tables", required=True, type=Path, metavar="DIR", help="tables of a run"
    )
    metrics.add_argument("--output", type=Path, metavar="DIR", help="default: beside the others")
    metrics.add_argument(
        "--metrics", nargs="+", default=["NVR", "FMR"], metavar="M", help="of propensity scores"
    )
    metrics.add_argument(
        "--by",
        nargs="*",
        default=["source", "licence", "language", "category"],
        metavar="C",
        help="columns or metadata keys to break metrics down by",
    )
    metrics.add_argument(
        "--boiler-plate",
        type=positive,
        default=100,
        metavar="DOCUMENTS",
        help="a passage of more is boiler-plate",
    )
    metrics.add_argument("--rounds", type=positive, default=10_000, help="of the bootstrap")
    metrics.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    metrics.set_defaults(command=_metrics)
    report = commands.add_parser(
        "report",
        help="make the report of a run again from its tables",
        description="Make the report of a run again from its tables and executed notebooks.",
    )
    report.add_argument("run", type=Path, metavar="DIR", help="folder of the run")
    report.set_defaults(command=_report)


def _metrics(options: argparse.Namespace) -> int:
    from propme import analysis, report, tables

    _, made = analysis.measure(
        options.tables,
        options.metrics,
        options.by,
        options.boiler_plate,
        options.seed,
        options.rounds,
    )
    folder = options.output or options.tables
    for name, table in made.items():
        tables.write(name, table, folder)
    print(report.headline_table(made["metrics"]).to_string(index=False))
    print(f"The tables are in {folder}: {', '.join(made)}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from propme.run import RunFolder
    from propme.runner.running import report_again

    print(f"The report is {report_again(RunFolder(options.run))}")
    return 0


def _sensitivity(options: argparse.Namespace) -> int:
    from propme.parameters import from_text
    from propme.runner import effective_parameters
    from propme.sensitivity import sensitivity

    overrides = {name: from_text(value) for name, value in options.p}
    effective = effective_parameters(options.files, overrides, options.output)
    found = sensitivity(effective, options.prompts)
    print(found.texts.to_string(index=False), end="\n\n")
    print(found.metrics.to_string(index=False))
    return 0
