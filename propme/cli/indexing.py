"""The commands ``propme index build | estimate | verify | info``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from propme.cli.options import positive


def add(commands: Any) -> None:
    """Add the commands to the parser."""
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
        parser.add_argument("--shards", type=positive, help="this many; default: by the memory")
        parser.add_argument("--text-field", default="text", metavar="F", help="key of the text")
        parser.add_argument("--id-field", default="id", metavar="F", help="key of the id")
        parser.add_argument(
            "--workers", type=positive, default=os.cpu_count() or 1, help="default: all cores"
        )
        parser.add_argument(
            "--memory",
            type=float,
            metavar="GB",
            help="of the sorts together; default: half of the machine's",
        )
    build.add_argument(
        "--output", required=True, type=Path, metavar="DIR", help="folder of the index"
    )
    build.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="stop at a bad row, or leave it out and count it",
    )
    build.set_defaults(command=_index_build)
    estimate.set_defaults(command=_index_estimate)
    verify = actions.add_parser("verify", help="prove that an index is whole and right")
    verify.add_argument("folder", type=Path, metavar="DIR", help="folder of the index")
    verify.add_argument("--full", action="store_true", help="all of a large suffix array")
    verify.set_defaults(command=_index_verify)
    info = actions.add_parser("info", help="what is in an index")
    info.add_argument("folder", type=Path, metavar="DIR", help="folder of the index")
    info.set_defaults(command=_index_info)


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
