"""What a run is about: its corpus, model and index, found or made, and known by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from propme.corpus import Corpus
from propme.errors import BrokenIndexError, InputError, ParameterError
from propme.files import alone, content_hash, sha256_of
from propme.known_hashes import KnownHashes
from propme.run.folder import RunFolder
from propme.run.paths import existing, portable, resolve

if TYPE_CHECKING:
    from propme.index import Tokenizer

#: Given as ``corpus``, ``heldout``, ``human`` or ``model``: the demonstration's.
DEMO = "demo"


def prepare_inputs(
    run: RunFolder,
    *,
    corpus: str,
    heldout: str,
    human: str,
    model: str,
    tokenizer: str,
    index: str,
    text_field: str,
    id_field: str,
    cache: str,
) -> pd.DataFrame:
    """Find or make the inputs and the index of the corpus, and record them in ``run.json``.

    Parameters
    ----------
    corpus, heldout, human, model : str
        Paths (a hub name for the model), or ``demo``. ``heldout`` and ``human`` may be empty.
    tokenizer : str
        Tokenizer of the index: a folder, file or hub name. Empty: the model's.
    index : str
        Folder of a ready index of this corpus, or the address of one behind a server (see
        `propme.index.open_index`), for which ``corpus`` may be empty. Empty: built once, and found
        again by content.
    text_field, id_field : str
        Keys of text and id in the corpus.
    cache : str
        Folder for the demonstration's files and for indexes.

    Returns
    -------
    DataFrame
        ``path`` and ``sha256`` of each input, by name.
    """
    from propme.index import describe_remote, is_remote, open_index

    given = {"corpus": corpus, "heldout": heldout, "human": human, "model": model}
    paths = _input_paths(given, resolve(cache))
    if not (index or tokenizer or model):
        raise ParameterError(
            "no model is given (a server or a file has the completions), so the tokenizer of the"
            " index must be named: parameter tokenizer, or index for a ready one"
        )
    known = KnownHashes(resolve(cache))
    hashes = {name: content_hash(Path(path), known.sha256_of) for name, path in paths.items()}
    inputs = {
        name: {"path": portable(path), "sha256": hashes[name]} for name, path in paths.items()
    }
    if is_remote(index):
        answers = resolve(cache) / "answers.sqlite"
        described = describe_remote(index, existing(tokenizer), answers)
        inputs["index"] = {name: portable(value) for name, value in described.items()}
        run.update_record(inputs=inputs)
        return pd.DataFrame.from_dict(inputs, orient="index")[["path", "sha256"]]
    if index:
        folder = resolve(index)
        require_same_corpus(folder, paths["corpus"], hashes["corpus"])
    else:
        source = existing(tokenizer or paths["model"])
        fields = (text_field, id_field)
        folder = _ensure_index(
            Path(paths["corpus"]), hashes["corpus"], source, fields, resolve(cache)
        )
    searchable = open_index(folder)
    inputs["index"] = {"path": portable(str(folder)), "sha256": index_hash(folder)}
    inputs["tokenizer"] = {
        "path": portable(tokenizer or paths.get("model", "")),
        "sha256": searchable.tokenizer.fingerprint,
    }
    run.update_record(inputs=inputs)
    return pd.DataFrame.from_dict(inputs, orient="index")


def require_same_corpus(index: Path, corpus: str, corpus_hash: str) -> None:
    """Refuse a ready index that says it was built from another corpus.

    Raises
    ------
    InputError
        It says so; where it does not tell, or the corpus is a folder, nothing is known.
    BrokenIndexError
        It is no index.
    """
    from propme.index import read_manifest

    built_from = [file.get("sha256") for file in read_manifest(index).get("corpus", [])]
    if len(built_from) == 1 and Path(corpus).is_file() and built_from[0] != corpus_hash:
        raise InputError(f"this index was built from another corpus than {corpus}", str(index))


def require_together(given: Mapping[str, str]) -> None:
    """Refuse inputs of which some are the demonstration's and others are not.

    Raises
    ------
    InputError
        They are mixed.
    """
    paths = {name: value for name, value in given.items() if value}
    if len({value == DEMO for value in paths.values()}) > 1:
        raise InputError(
            f"'{DEMO}' stands for the demonstration's corpus, held-out documents, texts and model,"
            f" which belong together; here they are {paths}: name your own, or leave heldout and"
            " human empty",
            DEMO,
        )


def _input_paths(given: Mapping[str, str], cache: Path) -> dict[str, str]:
    require_together(given)
    paths = {name: value for name, value in given.items() if value}
    if DEMO in paths.values():
        from propme.demo import ensure_demo

        demo = ensure_demo(cache)
        paths = {n: str(getattr(demo, n)) if v == DEMO else v for n, v in paths.items()}
    for name, path in paths.items():
        paths[name] = existing(path)
        if name != "model" and not Path(paths[name]).exists():
            raise InputError(f"no such file; give it as parameter {name!r}", path)
    return paths


def index_hash(folder: Path) -> str:
    """What an index is known by: the hash of its manifest, which holds those of its files.

    Raises
    ------
    BrokenIndexError
        There is none.
    """
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        raise BrokenIndexError(
            f"{folder}: this is no index, for it has no {manifest.name}; build one with 'propme"
            " index build --input CORPUS --tokenizer MODEL --output FOLDER'"
        )
    return sha256_of(manifest)


def index_folder(
    corpus_hash: str, tokenizer: Tokenizer, fields: tuple[str, str], cache: Path
) -> Path:
    """Where the index of a corpus lies in the cache, or will lie."""
    key = hashlib.sha256("\0".join([corpus_hash, tokenizer.fingerprint, *fields]).encode())
    return cache / f"index-{key.hexdigest()[:12]}"


def _ensure_index(
    corpus: Path, corpus_hash: str, tokenizer: str, fields: tuple[str, str], cache: Path
) -> Path:
    from propme.index import Tokenizer, build_index

    loaded = Tokenizer.load(tokenizer)
    folder = index_folder(corpus_hash, loaded, fields, cache)
    cache.mkdir(parents=True, exist_ok=True)
    with alone(cache / f"{folder.name}.wanted"):  # two runs may want it at once
        if not folder.exists():
            build_index(Corpus([corpus], *fields), loaded, folder)
    return folder
