"""Files that are whole or not there, made by one process at a time, and known by their hash."""

from __future__ import annotations

import hashlib
import os
import secrets
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


def content_hash(path: Path, of_file: Callable[[Path], str] = sha256_of) -> str:
    """SHA-256 of a file, or of a folder's files and names; empty where there is neither.

    ``of_file`` gives the hash of one file.
    """
    if path.is_file():
        return of_file(path)
    if not path.is_dir():
        return ""
    digest = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file.relative_to(path)}\0{of_file(file)}\0".encode())
    return digest.hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a text file so that a reader finds the old or the new one, never a part.

    Of several writers at once the last one wins: each has a temporary file of its own.
    """
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
