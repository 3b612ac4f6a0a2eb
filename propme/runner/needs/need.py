"""One thing that a stage needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from propme.run import resolve


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


def file_needs(name: str, value: str) -> Iterator[Need]:
    """A file or folder that a parameter names, if it names one."""
    if value and not resolve(value).exists():
        yield Need(missing=f"{name}: there is no {value}")
    elif value:
        yield Need(f"{name} {value} ({told_size(resolve(value))})")


def told_size(path: Path) -> str:
    """Bytes of a file, or of all files of a folder, in words."""
    from propme.index import estimating

    files = path.rglob("*") if path.is_dir() else [path]
    return estimating.in_bytes(sum(file.stat().st_size for file in files if file.is_file()))
