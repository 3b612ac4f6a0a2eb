"""Files that are whole or not there, made by one process at a time, and known by their hash."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_BLOCK = 1 << 20


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def content_hash(path: Path) -> str:
    """SHA-256 of a file, or of a folder's files and names; empty where there is neither."""
    if path.is_file():
        return sha256_of(path)
    if not path.is_dir():
        return ""
    digest = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file.relative_to(path)}\0{sha256_of(file)}\0".encode())
    return digest.hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a text file so that a reader finds the old or the new one, never a part.

    For one writer at a time: the temporary name is always the same.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def make_whole(folder: Path, make: Callable[[Path], object]) -> None:
    """Have ``make`` fill a temporary folder, and give it its name when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{folder.name}-making-*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-making-"))
    try:
        make(temporary)
        os.chmod(temporary, 0o755)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Make ``target`` in one process at a time; others wait, and find it made."""
    from filelock import FileLock

    lock = target.parent / f".{target.name}.lock"
    with FileLock(lock):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
