"""Seam 1: a tokenised corpus that can be searched exactly."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from propme.errors import BrokenIndexError, ParameterError, ServerError
from propme.index import layout
from propme.index.build import build_index
from propme.index.mapped import MappedIndex
from propme.index.protocol import Index, Occurrences, Position
from propme.index.remote.settings import RemoteSettings, is_remote
from propme.index.tokenizer import Tokenizer
from propme.index.verify import check_shape, read_manifest, read_tokenizer, verify_index

ENGINES = ("mapped", "infini-gram")

__all__ = [
    "ENGINES",
    "Index",
    "Occurrences",
    "Position",
    "RemoteSettings",
    "Tokenizer",
    "UnverifiedIndexWarning",
    "build_index",
    "describe_remote",
    "is_remote",
    "open_index",
    "read_manifest",
    "require_engine",
    "size_of",
    "verify_index",
]


class UnverifiedIndexWarning(UserWarning):
    """An index without a manifest of PropMe was opened: only its sizes were checked."""


def open_index(
    path: str | Path | Sequence[str | Path],
    engine: str = "mapped",
    *,
    tokenizer: str = "",
    token_type: str = "u16",
    remote: RemoteSettings | None = None,
) -> Index:
    """Open an index after its cheap checks: the manifest, and the size of every file.

    Parameters
    ----------
    path : str, Path or a sequence of them
        Folder of the index; several are searched as one. Or ``https://server/#name``, an index
        behind infini-gram's HTTP API.
    engine : str
        ``mapped``: compiled search in the memory-mapped suffix array, the fast one.
        ``infini-gram``: the same answers from infini-gram's own engine.
    tokenizer, token_type : str
        Of a ready-made index (infini-gram's version 4) that has no manifest of PropMe: its
        tokenizer (folder, file, name on the hub, or ``bytes``) and ``u8``, ``u16`` or ``u32``. So
        too of one behind a server, where a vocabulary too large for the type widens it.
    remote : RemoteSettings, optional
        How a server is asked.

    Raises
    ------
    BrokenIndexError
        A folder holds no finished index or a file of another size than was written, or folders
        were made with different tokenizers.
    InputError
        The tokenizer is not that of an index behind a server, of which some texts are read.

    Warns
    -----
    UnverifiedIndexWarning
        The index has no manifest, so nothing tells whether its suffix array is right.
    """
    require_engine(engine)
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if any(map(is_remote, paths)):
        return _open_remote([str(p) for p in paths], tokenizer, token_type, remote)
    folders = [Path(p) for p in paths]
    opened = [_checked(folder, tokenizer, token_type) for folder in folders]
    if len({(kind, loaded.fingerprint) for _, kind, loaded in opened}) != 1:
        raise BrokenIndexError(
            f"{', '.join(map(str, folders))}: not made with one tokenizer, so no one index"
        )
    shards, (_, kind, loaded) = [files for files, _, _ in opened], opened[0]
    if engine == "mapped":
        return MappedIndex(shards, kind, loaded)
    from propme.index.engine import EngineIndex

    return EngineIndex(shards, kind, loaded)


def _open_remote(
    paths: Sequence[str], tokenizer: str, token_type: str, settings: RemoteSettings | None
) -> Index:
    from propme.index.remote.remote_index import RemoteIndex

    if len(paths) > 1:
        raise ParameterError(f"{', '.join(paths)}: an index behind a server is opened alone")
    if not tokenizer:
        raise ParameterError(f"{paths[0]}: name the tokenizer of this index (parameter tokenizer)")
    _require_token_type(token_type)
    loaded = Tokenizer.load(tokenizer)
    if loaded.vocabulary_size > layout.separator(token_type):  # the index cannot hold it so
        token_type = layout.token_type_for(loaded.vocabulary_size)
    index = RemoteIndex(paths[0], loaded, token_type, settings)
    if not (settings and settings.offline):
        index.require_own_tokenizer()
    return index


def describe_remote(address: str, tokenizer: str, answers: Path) -> dict[str, str]:
    """What a run records of an index behind a server.

    Parameters
    ----------
    address, tokenizer : str
        As for `open_index`.
    answers : Path
        File in which the run keeps answers.

    Returns
    -------
    dict of str
        ``path``, ``sha256`` (of the address, the sizes that the server tells and the tokenizer),
        ``tokenizer`` and ``answers``.
    """
    from propme.index.remote.remote_index import RemoteIndex

    index = open_index(address, tokenizer=tokenizer, remote=RemoteSettings(str(answers)))
    identity = index.identity if isinstance(index, RemoteIndex) else ""
    return {
        "path": address,
        "sha256": identity,
        "tokenizer": tokenizer,
        "answers": str(answers),
    }


def size_of(index: Index) -> dict[str, int | str]:
    """Documents and tokens; a server may not tell the documents."""
    try:
        documents: int | str = index.n_documents
    except ServerError:
        documents = "not told"
    return {"documents": documents, "tokens": index.n_tokens}


def _require_token_type(token_type: str) -> None:
    if token_type not in layout.TOKEN_TYPES:
        raise ParameterError(
            f"token_type {token_type!r} is unknown; it is one of {', '.join(layout.TOKEN_TYPES)}"
        )


def require_engine(engine: str) -> None:
    """Refuse a name that is no engine's, with a `ParameterError` that names them."""
    if engine not in ENGINES:
        raise ParameterError(f"engine {engine!r} is unknown; it is one of {', '.join(ENGINES)}")


def _checked(folder: Path, tokenizer: str, token_type: str) -> tuple[Path, str, Tokenizer]:
    """Folder of the files, token type and tokenizer of an index, after its cheap checks."""
    ready_made = not (folder / layout.MANIFEST).is_file() and layout.shard_suffixes(folder)
    if not ready_made:
        manifest = read_manifest(folder)
        return folder / layout.SHARDS, manifest["token_type"], read_tokenizer(folder, manifest)
    if not tokenizer:
        raise BrokenIndexError(
            f"{folder}: an index that was made elsewhere; name its tokenizer (and token_type)"
        )
    _require_token_type(token_type)
    check_shape(folder, token_type)
    warnings.warn(
        f"{folder}: no manifest of PropMe; its sizes fit, and nothing else is known of it",
        UnverifiedIndexWarning,
        stacklevel=3,
    )
    return folder, token_type, Tokenizer.load(tokenizer)
