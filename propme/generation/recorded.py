"""Generations that were made elsewhere, and texts that people wrote: no model is asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from propme.corpus import read_documents
from propme.errors import InputError, ParameterError
from propme.files import sha256_of
from propme.generation.protocol import Made, Task, readable
from propme.generation.scoring import Pair, Score
from propme.records import Decoding, Document, Generation, Prompt

#: What a column of the file can be of ours; the first two it must have.
COLUMNS = ("prompt_id", "text", "sample", "decoding", "token_ids", "finish_reason")

#: How servers and libraries call the two ways in which a text ends.
_FINISHES = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_length": "length",
}


def as_written(prompts: Sequence[Prompt], decodings: Sequence[Decoding]) -> list[Generation]:
    """The control ``human``: what a person wrote stands as the completion of its prompt.

    One row for each decoding, so that each can be compared with its floor. No model is asked.
    """
    return [
        Task(prompt, decoding, 0, 0, prompt.text).generation(
            text=prompt.text, token_ids=(), finish_reason="stop", backend="recorded"
        )
        for prompt in prompts
        for decoding in decodings
    ]


class RecordedGenerator:
    """A file of generations, replayed.

    Parameters
    ----------
    path : str
        ``.jsonl`` (also ``.gz``, ``.zst``), ``.json`` or ``.parquet``; a row a generation.
    columns : sequence of str
        ``ours=theirs`` for each of `COLUMNS` that the file calls otherwise. Without ``sample`` the
        rows of a prompt are numbered as they come; without ``decoding`` they are of the run's only
        one; without ``finish_reason`` each ended by itself.

    Raises
    ------
    ParameterError
        A column is not one of `COLUMNS`.
    InputError
        The file is not readable, or a row lacks prompt or text.

    Notes
    -----
    What the file says is taken for what was asked: temperature, top-p and limit are those of the
    run, which therefore must be those with which the file was made.
    """

    def __init__(self, path: str, columns: Sequence[str] = ()) -> None:
        self._path = Path(path)
        self._columns = _mapping(columns)
        self._rows: dict[tuple[str, str, int], Document] = {}
        self._decodings: set[str] = set()
        self._read()
        self._hash = sha256_of(self._path)
        self._asked: set[tuple[str, str, int]] = set()

    @property
    def identity(self) -> str:
        """The file's content and how its columns are read."""
        return f"recorded {self._hash} {sorted(self._columns.items())}"

    def describe(self) -> dict[str, Any]:
        """What made the generations, as far as it is known."""
        return {"backend": "recorded", "model": self._path.name, "revision": self._hash}

    def noticed(self) -> dict[str, Any]:
        """What was noticed: rows that no prompt asked for."""
        return {
            "recorded generations that no prompt asked for": len(self._rows.keys() - self._asked)
        }

    @property
    def tokenizer(self) -> None:
        """None: texts are all there is."""

    def can_score(self, decoding: Decoding) -> bool:
        """Whether probabilities can be told: never, for there is no model."""
        return False

    def score(self, pairs: Sequence[Pair], decodings: Sequence[Decoding]) -> Iterator[list[Score]]:
        """Nothing."""
        return iter(())

    def given(self, prompt: Prompt, max_new_tokens: int) -> str:
        """Text of the prompt."""
        return prompt.text

    def batches(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """All together.

        Raises
        ------
        ParameterError
            The file does not tell the run's decodings apart.
        InputError
            It holds none of the prompts.
        """
        names = {task.decoding.name for task in tasks}
        if len(names) > 1 and not self._decodings:
            raise ParameterError(
                f"{self._path} has no column 'decoding', and the run has {sorted(names)}: name the"
                " column in recorded_columns, or set samples to 0 or greedy to false"
            )
        if tasks and not any(self._key(task) in self._rows for task in tasks):
            raise InputError(
                f"it holds none of the {len(tasks)} generations that are asked for; the first of"
                f" them is {self._key(tasks[0])}, the file's first {next(iter(self._rows), None)}"
                " (prompt, decoding, sample); see the parameter recorded_columns",
                str(self._path),
            )
        return [list(tasks)] if tasks else []

    def generate(self, batches: Sequence[Sequence[Task]]) -> Iterator[list[Made]]:
        """The recorded text of each task, or a row that says it is missing."""
        for batch in batches:
            yield [self._made(task) for task in batch]

    def _key(self, task: Task) -> tuple[str, str, int]:
        decoding = task.decoding.name if self._decodings else ""
        return task.prompt.prompt_id, decoding, task.sample

    def _made(self, task: Task) -> Made:
        self._asked.add(self._key(task))
        columns = self.describe()
        row = self._rows.get(self._key(task))
        if row is None:
            told = f"not in {self._path.name}: no such prompt, decoding and sample"
            return Made(task, task.failed(told, **columns), passing=True)
        text, note = readable(row.text)
        reason = row.metadata.get(self._columns["finish_reason"])
        finish = _FINISHES.get(str(reason or "stop"))
        if finish is None:
            finish, note = "stop", f"{note}; it ended by {reason!r}".strip("; ")
        ids = row.metadata.get(self._columns["token_ids"])
        return Made(
            task,
            task.generation(
                text=text,
                token_ids=() if ids is None else tuple(map(int, ids)),
                finish_reason=finish,
                note=note,
                **columns,
            ),
        )

    def _read(self) -> None:
        numbers: dict[tuple[str, str], int] = defaultdict(int)
        for row in read_documents(self._path, self._columns["text"], self._columns["prompt_id"]):
            decoding = row.metadata.get(self._columns["decoding"])
            place = (row.id, "" if decoding is None else str(decoding))
            sample = row.metadata.get(self._columns["sample"], numbers[place])
            numbers[place] += 1
            if not isinstance(sample, int) or isinstance(sample, bool):
                raise InputError(f"sample {sample!r} is no number", str(row.path), row.line)
            if (*place, sample) in self._rows:
                raise InputError(f"{(*place, sample)} stands twice", str(row.path), row.line)
            self._rows[(*place, sample)] = row
            self._decodings |= {place[1]} - {""}


def _mapping(columns: Sequence[str]) -> dict[str, str]:
    mapping = {name: name for name in COLUMNS}
    for column in columns:
        ours, equals, theirs = str(column).partition("=")
        if ours not in COLUMNS or not equals or not theirs:
            raise ParameterError(
                f"recorded_columns: {column!r} is not ours=theirs, with ours one of"
                f" {', '.join(COLUMNS)}"
            )
        mapping[ours] = theirs
    return mapping
