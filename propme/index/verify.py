"""Prove an index: its bytes, its order, its documents, and counts taken another way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from propme.errors import BrokenIndexError, InputError
from propme.files import sha256_of
from propme.index import kernels, layout
from propme.index.mapped import MappedIndex, Shard
from propme.index.tokenizer import Tokenizer
from propme.progress import track

#: Shards of up to this many tokens are checked whole; of larger ones, this many neighbours.
CHECKED_NEIGHBOURS = 5_000_000
#: Tokens of two neighbours that are compared where only some are.
COMPARED_TOKENS = 1000
#: N-grams whose count is compared with a scan of the tokens, per shard.
CHECKED_COUNTS = 50

_KEYS = {"token_type", "shards", "documents", "tokens", "tokenizer_file", "files"}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Manifest of an index folder, after its cheap checks: files there, sizes as written.

    Raises
    ------
    BrokenIndexError
        There is no manifest, it is damaged, or a file is missing or of another size.
    """
    path = folder / layout.MANIFEST
    if not folder.is_dir():
        raise BrokenIndexError(f"{folder}: there is no such folder; name that of an index")
    if not path.is_file():
        raise BrokenIndexError(
            f"{folder}: no {layout.MANIFEST} here, so this is no finished index; build it with"
            " 'propme index build'"
        )
    manifest = _parsed(path)
    for name, expected in manifest["files"].items():
        file = folder / layout.SHARDS / name
        size = file.stat().st_size if file.is_file() else None
        if size != expected["bytes"]:
            raise BrokenIndexError(
                f"{file}: {'missing' if size is None else f'{size} bytes'}, but the manifest says"
                f" {expected['bytes']} bytes; build the index again"
            )
    return manifest


def _parsed(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        missing = _KEYS - manifest.keys()
    except (ValueError, AttributeError) as error:
        raise BrokenIndexError(f"{path}: damaged ({error}); build the index again") from error
    if missing:
        raise BrokenIndexError(f"{path}: lacks {sorted(missing)}; build the index again")
    return manifest


def read_tokenizer(folder: Path, manifest: dict[str, Any]) -> Tokenizer:
    """Tokenizer of an index folder.

    Raises
    ------
    BrokenIndexError
        It is missing, damaged, or not the one that the index was built with.
    """
    path = folder / layout.TOKENIZER
    if not path.is_file():
        raise BrokenIndexError(f"{path}: missing; build the index again")
    if sha256_of(path) != manifest["tokenizer_file"]:
        raise BrokenIndexError(f"{path}: not the tokenizer that the index was built with")
    try:
        return Tokenizer.load(str(path))
    except InputError as error:
        raise BrokenIndexError(f"{error.path}: {error.message}") from error


def verify_index(folder: Path, seed: int = 0, *, full: bool = False, hashes: bool = True) -> None:
    """Check every shard of an index, and raise at the first thing that is wrong.

    Parameters
    ----------
    folder : Path
    seed : int
        Decides which neighbours of large suffix arrays and which n-grams are looked at.
    full : bool
        Whether to check all of a large suffix array and not a sample. Takes eight bytes of memory
        for each token of a shard.
    hashes : bool
        Whether to read every file and compare its SHA-256.

    Raises
    ------
    BrokenIndexError
        Says which file is wrong, and how.
    """
    manifest = read_manifest(folder)
    if hashes:
        _check_bytes(folder / layout.SHARDS, manifest["files"])
    tokenizer = read_tokenizer(folder, manifest)
    index = MappedIndex([folder / layout.SHARDS], manifest["token_type"], tokenizer)
    if (index.n_documents, index.n_tokens) != (manifest["documents"], manifest["tokens"]):
        raise BrokenIndexError(
            f"{folder}: {index.n_documents} documents and {index.n_tokens} tokens, but the"
            f" manifest says {manifest['documents']} and {manifest['tokens']}"
        )
    rng = np.random.default_rng(seed)
    suffixes = layout.shard_suffixes(folder / layout.SHARDS)
    for suffix in track(suffixes, "verifying", unit="shards"):
        shard = Shard(folder / layout.SHARDS, suffix, manifest["token_type"])
        where = f"{folder / layout.SHARDS}, shard {suffix}"
        _check_documents(shard, layout.separator(manifest["token_type"]), where)
        _check_order(shard, rng, where, full)
        _check_counts(shard, layout.separator(manifest["token_type"]), rng, where)


def check_shape(folder: Path, token_type: str) -> None:
    """Check what can be checked of an index without a manifest in no time: that its sizes fit.

    Raises
    ------
    BrokenIndexError
        A file is missing, or its size does not fit the others.
    """
    separator = layout.separator(token_type)
    for suffix in layout.shard_suffixes(folder):
        shard = Shard(folder, suffix, token_type)
        where = f"{folder}, shard {suffix}"
        if not shard.tokens.size or int(shard.tokens[0]) != separator:
            raise BrokenIndexError(
                f"{where}: does not begin with the separator of {token_type}; is it of another"
                " token_type, or truncated?"
            )
        last = int(shard.offsets[-1]) // shard.itemsize if shard.offsets.size else -1
        if not 0 <= last < shard.tokens.size or int(shard.tokens[last]) != separator:
            raise BrokenIndexError(f"{where}: the offsets are not those of the tokens")
        _check_metadata_lines(shard, where)
        try:
            json.loads(shard.metadata_line(shard.metadata_lines - 1))
        except ValueError as error:
            raise BrokenIndexError(f"{where}: the metadata is truncated: {error}") from error


def _check_bytes(shards: Path, files: dict[str, Any]) -> None:
    """Every file is, byte for byte, what was written."""
    for name, expected in track(files.items(), "hashing", unit="files"):
        if sha256_of(shards / name) != expected["sha256"]:
            raise BrokenIndexError(
                f"{shards / name}: its SHA-256 is not that in the manifest; build the index again"
            )


def _check_metadata_lines(shard: Shard, where: str) -> None:
    if shard.metadata_lines != shard.offsets.size:
        raise BrokenIndexError(
            f"{where}: {shard.metadata_lines} lines of metadata for {shard.offsets.size} documents"
        )


def _check_documents(shard: Shard, separator: int, where: str) -> None:
    """Every separator has its offset and metadata line, and nothing else has."""
    _check_metadata_lines(shard, where)
    starts = np.flatnonzero(shard.tokens == separator) * shard.itemsize
    if not np.array_equal(starts, shard.offsets):
        raise BrokenIndexError(f"{where}: offsets are not the separators of the tokens")
    for document in range(shard.offsets.size):
        try:
            json.loads(shard.metadata_line(document))
        except ValueError as error:
            raise BrokenIndexError(f"{where}: metadata of document {document}: {error}") from error


def _check_order(shard: Shard, rng: np.random.Generator, where: str, full: bool) -> None:
    """The suffix array holds every suffix, and they ascend."""
    n = shard.tokens.size
    if full or n <= CHECKED_NEIGHBOURS:
        wrong = kernels.first_disorder(shard.tokens, shard.table, shard.width)
    else:
        ranks = np.sort(rng.integers(0, n - 1, CHECKED_NEIGHBOURS))
        wrong = kernels.first_disorder_among(
            shard.tokens, shard.table, shard.width, ranks, COMPARED_TOKENS
        )
    if wrong >= 0:
        raise BrokenIndexError(f"{where}: the suffix array is out of order at rank {wrong}")


def _check_counts(shard: Shard, separator: int, rng: np.random.Generator, where: str) -> None:
    """Counts by binary search equal counts by a scan."""
    scan = shard.tokens[: 4 * CHECKED_NEIGHBOURS]
    whole = scan.size == shard.tokens.size
    for _ in range(CHECKED_COUNTS):
        start = int(rng.integers(0, scan.size))
        ngram = scan[start : start + int(rng.integers(1, 5))]
        if separator in ngram:
            continue
        expected = _scan_count(scan, ngram)
        query = kernels.keys(ngram, shard.itemsize)
        low, high = kernels.rank_range(shard.tokens, shard.table, shard.width, query, 0, query.size)
        if high - low < expected or (whole and high - low != expected):
            raise BrokenIndexError(
                f"{where}: n-gram {ngram.tolist()} counts {high - low}, a scan finds {expected}"
            )


def _scan_count(tokens: layout.Array, ngram: layout.Array) -> int:
    n = tokens.size - ngram.size + 1
    hits = np.ones(n, bool)
    for k in range(ngram.size):
        hits &= tokens[k : k + n] == ngram[k]
    return int(hits.sum())
