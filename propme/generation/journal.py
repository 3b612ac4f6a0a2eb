"""What is finished of a generation, kept as it comes: a line of JSON for what ended together.

A line is appended with one write and flushed to the disk. A process that is killed can only tear
the last line, which is then left out. The key of a row changes with anything that decides its
completion, so that a row of another model, prompt or decoding is never taken for this one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from propme.errors import InputError
from propme.generation.protocol import Task
from propme.records import Generation


def key_of(identity: str, task: Task) -> str:
    """Changes with anything that decides the completion of a task."""
    decoding = {k: v for k, v in asdict(task.decoding).items() if k not in ("name", "samples")}
    parts = [identity, task.given, task.prompt.chat, decoding, task.generation_id, task.seed]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class Journal:
    """Finished generations in a file of lines, by key.

    Parameters
    ----------
    path : Path
        Made, with its folder, when the first line is appended.

    Raises
    ------
    InputError
        A line other than the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Generation] = {}
        if path.is_file():
            self._read()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> Generation | None:
        """The generation of a key, or ``None`` if it is not finished."""
        return self._rows.get(key)

    def append(self, rows: Iterable[tuple[str, Generation]]) -> None:
        """Keep generations: after this call they survive a kill and a loss of power."""
        listed = list(rows)
        if not listed:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps([[key, asdict(generation)] for key, generation in listed]) + "\n"
        with self._path.open("ab", buffering=0) as file:
            file.write(line.encode("ascii"))
            os.fsync(file.fileno())
        self._rows.update(listed)

    def _read(self) -> None:
        content = self._path.read_bytes()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                self._rows.update((key, _generation(row)) for key, row in json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(
                    "this is no line of finished generations; remove the file to make all of them"
                    f" again ({error})",
                    str(self._path),
                    number,
                ) from error
        if whole < len(content):  # else the next line would be joined to the torn one
            with self._path.open("r+b") as file:
                file.truncate(whole)
                os.fsync(file.fileno())


def _generation(row: dict[str, Any]) -> Generation:
    return Generation(**row | {"token_ids": tuple(row["token_ids"])})
