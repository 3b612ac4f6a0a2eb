"""The index, or what building it takes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from propme.errors import PropMeError
from propme.index import is_remote
from propme.run import DEMO, existing, index_folder, require_same_corpus, resolve
from propme.runner.needs.need import Need, told_size
from propme.runner.stages import content_of, known_hashes


def index_needs(effective: Mapping[str, Any]) -> Iterator[Need]:
    """The index: behind a server, named, in the cache, or still to be built."""
    if is_remote(effective["index"]):
        yield Need(f"index {effective['index']}, behind a server")
        if find_spec("httpx") is None:
            yield Need(missing="the package httpx: pip install 'propme[remote]'")
        if not effective["tokenizer"]:
            yield Need(missing="tokenizer: the index's must be named")
        return
    if effective["index"]:
        folder = resolve(effective["index"])
        if not folder.is_dir():
            yield Need(missing=f"index: there is no {effective['index']}")
        else:
            yield Need(f"index {effective['index']} ({told_size(folder)})")
            yield Need(missing=_unfit_index(folder, effective))
        return
    corpus = resolve(effective["corpus"])
    if effective["corpus"] == DEMO or not effective["corpus"] or not corpus.exists():
        return
    tokenizer = existing(effective["tokenizer"] or effective["model"])
    if not tokenizer:
        yield Need(missing="tokenizer: the index's must be named, where no model is")
    else:
        yield from _own_index(effective, corpus, tokenizer)


def _unfit_index(folder: Path, effective: Mapping[str, Any]) -> str:
    """What is wrong with an index that is named: whole, of this corpus, with enough documents."""
    from propme.index import read_manifest

    corpus = effective["corpus"]
    try:
        n_documents = read_manifest(folder)["documents"]
        if corpus and corpus != DEMO and resolve(corpus).is_file():
            digest = content_of("corpus", corpus, known_hashes(effective))
            require_same_corpus(folder, str(resolve(corpus)), digest)
    except PropMeError as error:
        return f"index: {error}"
    wanted = effective["n_prefix"] * max(1, len(effective["strata"]))
    if wanted > n_documents and not effective["prefix_texts"]:
        return f"n_prefix: {wanted} documents are wanted, and the index has {n_documents}"
    return ""


def _own_index(effective: Mapping[str, Any], corpus: Path, tokenizer: str) -> Iterator[Need]:
    """The index in the cache, or what building it takes."""
    from propme.index import Tokenizer

    cache = resolve(effective["cache"])
    if not Path(tokenizer).exists() and tokenizer != "bytes":  # on the hub, and not asked for now
        yield Need(f"an index of the corpus, in {effective['cache']}, unless it is there already")
        return
    try:
        loaded = Tokenizer.load(tokenizer)
    except PropMeError as error:
        yield Need(missing=f"tokenizer: {error}")
        return
    if cache.is_dir() and any(cache.glob("index-*")):  # else no need to read all of the corpus
        digest = content_of("corpus", effective["corpus"], known_hashes(effective))
        fields = (effective["text_field"], effective["id_field"])
        folder = index_folder(digest, loaded, fields, cache)
        if folder.is_dir():
            yield Need(f"index {folder.name}, there in {effective['cache']} ({told_size(folder)})")
            return
    yield Need(f"an index of the corpus, which will be built in {effective['cache']}")
    yield from _room(effective, corpus, loaded, cache)


def _room(effective: Mapping[str, Any], corpus: Path, loaded: Any, cache: Path) -> Iterator[Need]:
    from propme.corpus import Corpus
    from propme.index import estimating

    try:
        needed = estimating.estimate(
            Corpus([corpus], effective["text_field"], effective["id_field"]),
            loaded,
            estimating.default_memory(),
            1,
        )
    except PropMeError:  # told where the corpus is read
        return
    yield Need(f"for building it: {'; '.join(needed.told().splitlines())}")
    free = shutil.disk_usage(next(p for p in (cache, *cache.parents) if p.exists())).free
    if needed.disk_bytes > free:
        yield Need(missing=f"room for it: {estimating.in_bytes(free)} are free")
