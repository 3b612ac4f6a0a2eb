"""Files that a run leaves below a folder: which there are, and which of them are new."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from propme.files import sha256_of


def when_written(folder: Path) -> dict[str, int]:
    """When each file below a folder was written, in ns, by its path from there."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in files}


def hashes_since(before: Mapping[str, int], folder: Path) -> dict[str, str]:
    """SHA-256 of the files below a folder that were written since `when_written` was asked."""
    now = when_written(folder)
    return {name: sha256_of(folder / name) for name in sorted(now) if before.get(name) != now[name]}


def files_named(folder: Path, names: Collection[str]) -> list[Path]:
    """Files below a folder that have one of the names; none elsewhere, whatever a record names."""
    return [folder / name for name in when_written(folder) if name in names]
