"""The command ``propme``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"propme: {where}{error.strerror or error}", file=sys.stderr)
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
    sensitivity.add_argument("--prompts", type=_positive, default=50, metavar="N")
    sensitivity.set_defaults(command=_sensitivity)
    _add_compare_command(commands)
    _add_trace_command(commands)
    metrics = commands.add_parser(
        "metrics",
        help="recompute every metric from stored tables, without a model or an index",
        description="Recompute the tables of notebook 4_analysis from those of the others.",
    )
    metrics.add_argument("--tables", required=True, type=Path, metavar="DIR")
    metrics.add_argument("--output", type=Path, metavar="DIR", help="default: beside the others")
    metrics.add_argument(
        "--metrics", nargs="+", default=["NVR", "FMR"], metavar="M", help="of propensity scores"
    )
    metrics.add_argument(
        "--by", nargs="*", default=["source", "licence", "language", "category"], metavar="C"
    )
    metrics.add_argument("--boiler-plate", type=_positive, default=100, metavar="DOCUMENTS")
    metrics.add_argument("--rounds", type=_positive, default=10_000, help="of the bootstrap")
    metrics.add_argument("--seed", type=int, default=0)
    metrics.set_defaults(command=_metrics)
    _add_index_commands(commands)
    return parser


def _add_compare_command(commands: Any) -> None:
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


def _add_trace_command(commands: Any) -> None:
    trace = commands.add_parser(
        "trace",
        help="find what of any texts stands in an index",
        description="Trace texts in an index; 'propme trace merge --output DIR' joins shards.",
    )
    trace.add_argument(
        "action", nargs="?", choices=("merge",), help="join the finished shards of --output"
    )
    trace.add_argument("--index", nargs="+", metavar="DIR", help="one, or several opened as one")
    trace.add_argument(
        "--input", nargs="+", metavar="FILE", help=".jsonl (.gz, .zst), .json, .csv, .parquet, .txt"
    )
    trace.add_argument("--output", required=True, type=Path, metavar="DIR")
    trace.add_argument("--mode", default="mixed", help="mixed (default) or text")
    trace.add_argument("--text-field", default="text", metavar="F", help="key of the text")
    trace.add_argument("--id-field", default="id", metavar="F", help="key of the id")
    trace.add_argument("--docs-per-span", type=_positive, default=10, metavar="N")
    trace.add_argument("--merging", default="verified", help="verified (default) or overlap")
    trace.add_argument("--seed", type=int, default=0, metavar="S", help="chooses among documents")
    trace.add_argument("--jsonl", action="store_true", help="write the tables as JSON lines too")
    trace.add_argument(
        "--workers", type=_positive, default=os.cpu_count() or 1, help="default: all cores"
    )
    trace.add_argument(
        "--backend", default="local", help="local (default), dask:ADDRESS or ray:ADDRESS"
    )
    trace.add_argument(
        "--reopen-after", type=_positive, metavar="N", help="generations; bounds page tables"
    )
    trace.add_argument("--shard", type=_shard, metavar="K/N", help="trace the K-th of N shares")
    trace.add_argument("--engine", default="mapped", help="mapped (default) or infini-gram")
    trace.add_argument("--tokenizer", default="", help="of an index that was made elsewhere")
    trace.add_argument("--token-type", default="u16", help="of such an index: u8, u16 or u32")
    trace.set_defaults(command=_trace)


def _shard(text: str) -> tuple[int, int]:
    try:
        k, n = map(int, text.split("/"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N, as 1/8") from error
    if not 1 <= k <= n:
        raise argparse.ArgumentTypeError(f"shard {k} of {n}: they are counted from 1")
    return k, n


def _add_index_commands(commands: Any) -> None:
    index = commands.add_parser("index", help="build, verify, describe an index")
    actions = index.add_subparsers(required=True, metavar="ACTION")
    build = actions.add_parser("build", help="build an index of a corpus and verify it")
    estimate = actions.add_parser("estimate", help="what building would take, from a sample")
    for parser in (build, estimate):
        parser.add_argument(
            "--input",
            nargs="+",
            required=True,
            metavar="PATH",
            help=".jsonl (.gz, .zst), .json, .csv, .parquet, .txt; folders, globs, datasets",
        )
        parser.add_argument("--tokenizer", required=True, help="folder, file, hub name, or 'bytes'")
        parser.add_argument("--shards", type=_positive, help="this many; default: by the memory")
        parser.add_argument("--text-field", default="text", metavar="F", help="key of the text")
        parser.add_argument("--id-field", default="id", metavar="F", help="key of the id")
        parser.add_argument(
            "--workers", type=_positive, default=os.cpu_count() or 1, help="default: all cores"
        )
        parser.add_argument("--memory", type=float, metavar="GB", help="default: half of it")
    build.add_argument("--output", required=True, type=Path, metavar="DIR")
    build.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="stop at a bad row, or leave it out and count it",
    )
    build.set_defaults(command=_index_build)
    estimate.set_defaults(command=_index_estimate)
    verify = actions.add_parser("verify", help="prove that an index is whole and right")
    verify.add_argument("folder", type=Path, metavar="DIR")
    verify.add_argument("--full", action="store_true", help="all of a large suffix array")
    verify.set_defaults(command=_index_verify)
    info = actions.add_parser("info", help="what is in an index")
    info.add_argument("folder", type=Path, metavar="DIR")
    info.set_defaults(command=_index_info)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _index_build(options: argparse.Namespace) -> int:
    from propme.corpus import Corpus
    from propme.index import Tokenizer, build_index, estimating, read_manifest

    tokenizer = Tokenizer.load(options.tokenizer)
    corpus = Corpus(options.input, options.text_field, options.id_field, options.on_error)
    memory = _memory(options)
    if corpus.files and not corpus.hub_names:
        needed = estimating.estimate(corpus, tokenizer, memory, options.workers, options.shards)
        print(needed.told(), flush=True)
        estimating.require_room(needed, memory, options.output)
    build_index(
        corpus,
        tokenizer,
        options.output,
        estimating.shard_size(memory, options.workers),
        n_shards=options.shards,
        workers=options.workers,
    )
    print(f"The index is {options.output}, verified")
    # From the manifest: a build that was gone on with has not read the rows again.
    for reason, times in read_manifest(options.output)["tally"]["skipped"].items():
        print(f"skipped {times}: {reason}")
    return 0


def _index_estimate(options: argparse.Namespace) -> int:
    from propme.corpus import Corpus
    from propme.index import Tokenizer, estimating

    corpus = Corpus(options.input, options.text_field, options.id_field)
    tokenizer = Tokenizer.load(options.tokenizer)
    told = estimating.estimate(
        corpus, tokenizer, _memory(options), options.workers, options.shards
    ).told()
    print(told)
    return 0


def _memory(options: argparse.Namespace) -> int:
    from propme.index import estimating

    return estimating.default_memory() if options.memory is None else int(options.memory * 1e9)


def _index_verify(options: argparse.Namespace) -> int:
    from propme.index import verify_index

    verify_index(options.folder, full=options.full)
    print(f"{options.folder}: whole and right")
    return 0


def _index_info(options: argparse.Namespace) -> int:
    from propme.index import read_manifest

    manifest = read_manifest(options.folder)
    size = sum(file["bytes"] for file in manifest["files"].values())
    print(f"documents  {manifest['documents']:,}")
    print(f"tokens     {manifest['tokens']:,} ({manifest['token_type']})")
    print(f"shards     {manifest['shards']}")
    print(f"size       {size:,} bytes")
    print(f"tokenizer  {manifest['tokenizer']}")
    for name, number in manifest["versions"].items():
        print(f"made with  {name} {number}")
    for file in manifest.get("corpus", []):
        print(f"corpus     {file['path']}  {file.get('sha256', '')}")
    for reason, times in manifest.get("tally", {}).get("skipped", {}).items():
        print(f"skipped    {times}: {reason}")
    return 0


def _trace(options: argparse.Namespace) -> int:
    from propme import tracing

    if options.action == "merge":
        tracing.merge(options.output)
    elif not _trace_texts(options):
        print(f"Shard {options.shard[0]} of {options.shard[1]} is traced")
        return 0
    if options.jsonl:
        tracing.write_jsonl(options.output)
    print("\n".join(tracing.summary(options.output)))
    print(f"The tables are in {options.output / 'tables'}")
    return 0


def _trace_texts(options: argparse.Namespace) -> bool:
    from propme.corpus import Corpus
    from propme.errors import ParameterError
    from propme.simpletrace import IndexAddress, TraceSettings, Workers
    from propme.tracing import trace_files

    for name in ("index", "input"):
        if not getattr(options, name):
            raise ParameterError(f"--{name} is missing")
    settings = TraceSettings(options.docs_per_span, options.merging, options.seed, options.mode)
    address = IndexAddress(
        tuple(options.index), options.engine, options.tokenizer, options.token_type
    )
    workers = Workers(options.workers, options.backend)
    if options.reopen_after:
        workers = replace(workers, reopen_after=options.reopen_after)
    address.open()  # what is wrong with the index is told before the texts are read
    texts = Corpus(options.input, options.text_field, options.id_field)
    return trace_files(texts, address, settings, options.output, workers, options.shard)


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


def _run(options: argparse.Namespace) -> int:
    from propme.parameters import from_text
    from propme.run import run

    overrides = {name: from_text(value) for name, value in options.p}
    folder = run(options.files, overrides, options.output)
    print(f"The report is {folder.report / 'index.html'}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    from propme.comparing import compare
    from propme.parameters import from_text

    overrides = {name: from_text(value) for name, value in options.p}
    folder = compare(options.given, overrides, options.output)
    print(f"The report is {folder.report / 'index.html'}")
    return 0


def _sensitivity(options: argparse.Namespace) -> int:
    from propme.parameters import from_text
    from propme.run import effective_parameters
    from propme.sensitivity import sensitivity

    overrides = {name: from_text(value) for name, value in options.p}
    effective = effective_parameters(options.files, overrides, options.output)
    found = sensitivity(effective, options.prompts)
    print(found.texts.to_string(index=False), end="\n\n")
    print(found.metrics.to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
