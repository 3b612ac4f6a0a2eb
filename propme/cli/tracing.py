"""The command ``propme trace``."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propme.cli.options import positive, shard

if TYPE_CHECKING:
    from propme.simpletrace import IndexAddress, TraceSettings


def add(commands: Any) -> None:
    """Add the command to the parser."""
    trace = commands.add_parser(
        "trace",
        help="find what of any texts stands in an index",
        description="Trace texts in an index; 'propme trace merge --output DIR' joins shards.",
    )
    trace.add_argument(
        "action", nargs="?", choices=("merge",), help="join the finished shards of --output"
    )
    trace.add_argument(
        "--index",
        nargs="+",
        metavar="DIR",
        help="one, several opened as one, or https://server/#name",
    )
    trace.add_argument(
        "--input", nargs="+", metavar="FILE", help=".jsonl (.gz, .zst), .json, .csv, .parquet, .txt"
    )
    trace.add_argument("--output", required=True, type=Path, metavar="DIR", help="for the tables")
    trace.add_argument("--mode", default="mixed", help="mixed (default) or text")
    trace.add_argument("--text-field", default="text", metavar="F", help="key of the text")
    trace.add_argument("--id-field", default="id", metavar="F", help="key of the id")
    trace.add_argument(
        "--docs-per-span", type=positive, default=10, metavar="N", help="most documents of a span"
    )
    trace.add_argument("--merging", default="verified", help="verified (default) or overlap")
    trace.add_argument("--seed", type=int, default=0, metavar="S", help="chooses among documents")
    trace.add_argument("--jsonl", action="store_true", help="write the tables as JSON lines too")
    trace.add_argument(
        "--workers", type=positive, default=os.cpu_count() or 1, help="default: all cores"
    )
    trace.add_argument(
        "--backend", default="local", help="local (default), dask:ADDRESS or ray:ADDRESS"
    )
    trace.add_argument(
        "--reopen-after", type=positive, metavar="N", help="generations; bounds page tables"
    )
    trace.add_argument("--shard", type=shard, metavar="K/N", help="trace the K-th of N shares")
    trace.add_argument("--engine", default="mapped", help="mapped (default) or infini-gram")
    trace.add_argument("--tokenizer", default="", help="of an index that was made elsewhere")
    trace.add_argument("--token-type", default="u16", help="of such an index: u8, u16 or u32")
    remote = trace.add_argument_group("an index behind a server (see docs/remote-index.md)")
    remote.add_argument("--rate", type=float, default=8.0, metavar="R", help="requests a second")
    remote.add_argument(
        "--at-once", type=positive, default=4, metavar="N", help="requests under way at a time"
    )
    remote.add_argument(
        "--most-read", type=positive, default=20, metavar="N", help="occurrences read of a passage"
    )
    remote.add_argument("--answers", default="", metavar="FILE", help="kept, and never asked again")
    remote.add_argument(
        "--dry-run", action="store_true", help="say how many requests it needs, and ask none"
    )
    trace.set_defaults(command=_trace)


def _trace(options: argparse.Namespace) -> int:
    from propme import tracing

    if options.dry_run:
        return _dry_run(options)
    if options.action == "merge":
        tracing.merge(options.output)
    elif not _trace_texts(options):
        print(f"Shard {options.shard[0]} of {options.shard[1]} is traced")
        return 0
    if options.jsonl:
        tracing.write_jsonl(options.output)
    print("\n".join(tracing.summary(options.output)))
    print("\n".join(tracing.whereabouts(options.output, options.jsonl)))
    return 0


def _trace_texts(options: argparse.Namespace) -> bool:
    from propme.corpus import Corpus
    from propme.simpletrace import Workers
    from propme.tracing import trace_files

    address, settings = _what_is_traced(options)
    workers = Workers(options.workers, options.backend)
    if options.reopen_after:
        workers = replace(workers, reopen_after=options.reopen_after)
    address.open()  # what is wrong with the index is told before the texts are read
    texts = Corpus(options.input, options.text_field, options.id_field)
    return trace_files(texts, address, settings, options.output, workers, options.shard)


def _what_is_traced(options: argparse.Namespace) -> tuple[IndexAddress, TraceSettings]:
    from propme.errors import ParameterError
    from propme.index import RemoteSettings
    from propme.simpletrace import IndexAddress, TraceSettings

    for name in ("index", "input"):
        if not getattr(options, name):
            raise ParameterError(f"--{name} is missing")
    settings = TraceSettings(options.docs_per_span, options.merging, options.seed, options.mode)
    remote = RemoteSettings(options.answers, options.rate, options.at_once, options.most_read)
    address = IndexAddress(
        tuple(options.index), options.engine, options.tokenizer, options.token_type, remote
    )
    return address, settings


def _dry_run(options: argparse.Namespace) -> int:
    from propme.corpus import Corpus
    from propme.simpletrace import requests_needed

    address, settings = _what_is_traced(options)
    texts = Corpus(options.input, options.text_field, options.id_field)
    pairs = ((document.id, document.text) for document in texts)
    print(requests_needed(pairs, address, settings).told())
    return 0
