"""Corpus files that paths, folders and globs name."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from pathlib import Path

from propme.corpus.rows import KINDS, kind_of, known_kind
from propme.errors import InputError


def find_files(inputs: Sequence[str | Path]) -> list[Path]:
    """Corpus files that paths, folders and globs name, each once, sorted.

    Raises
    ------
    InputError
        Nothing of that name, or nothing of a known kind in it.
    """
    found: set[Path] = set()
    for given in inputs:
        path = Path(given)
        if path.is_file():
            found.add(known_kind(path))
        elif path.is_dir():
            found |= _files_in(path)
        else:
            matched = [Path(name) for name in glob.glob(str(given), recursive=True)]
            if not matched:
                raise InputError("no such file, and no file matches it", str(given))
            found |= {p for p in matched if p.is_file() and kind_of(p)}
            found |= {p for folder in matched if folder.is_dir() for p in _files_in(folder)}
    return sorted({Path(os.path.abspath(path)) for path in found})


def _files_in(folder: Path) -> set[Path]:
    """Corpus files below a folder; of a saved dataset, the files that it lists."""
    found = {p for p in folder.rglob("*") if p.is_file() and kind_of(p) and p.suffix != ".arrow"}
    found -= {p for p in found if _is_hidden(p.relative_to(folder))}
    listed = {p.parent: _saved_files(p) for p in found if p.name == "state.json"}
    datasets = {parent: files for parent, files in listed.items() if files}
    found -= {p for p in found if p.parent in datasets or p.name == "dataset_dict.json"}
    indexes = {p.parent for p in found if p.name == "manifest.json" and _is_index(p.parent)}
    found -= {p for p in found if p.parent in indexes}
    found |= {file for files in datasets.values() for file in files}
    if not found:
        raise InputError(f"no corpus file in this folder; kinds are {KINDS}", str(folder))
    return found


def _is_hidden(path: Path) -> bool:
    """Whether a name begins with a dot: caches, version control, an index half built."""
    return any(part.startswith(".") for part in path.parts)


def _is_index(folder: Path) -> bool:
    """Whether it holds an index of PropMe, which may lie below the corpus that it was made of."""
    return (folder / "shards").is_dir() and (folder / "tokenizer.json").is_file()


def _saved_files(state: Path) -> list[Path]:
    """Files of a saved dataset, as its ``state.json`` lists them; none if it is no such file."""
    try:
        entries = json.loads(state.read_bytes())["_data_files"]
        return [state.parent / entry["filename"] for entry in entries]
    except (OSError, ValueError, KeyError, TypeError):
        return []
