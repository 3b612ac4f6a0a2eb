"""What a server is asked, and what its answer must be to be believed and kept.

An answer is *wrong* if it cannot be right: it lacks a field, contradicts itself, the question, or
what is known of the index. It is asked again, and never kept. It is *odd* if it may be right all
the same, as a text that gives other tokens than the index should hold there. It is made use of if
the server says the same twice, some time apart, but never kept, and no count that rests on it is
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from propme.errors import ServerError
from propme.index.remote.http import PassingError

Answer = dict[str, Any]

#: What is kept of an answer, and what is odd about it; empty: nothing.
Checked = tuple[Answer, str]


class WrongAnswerError(PassingError):
    """An answer that cannot be right."""


class DisbelievedError(ServerError):
    """Answers that were believed are not believed any more, nor what was made of them."""


class ContradictionError(DisbelievedError):
    """Two answers of which one must be wrong; ``other``: the question of the earlier one."""

    def __init__(self, told: str, other: Mapping[str, Any]) -> None:
        self.other = other
        super().__init__(told, other)

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes
    ----------
    fields : mapping
        As the API names them, without the index.
    check : callable
        What is kept of an answer, and what is odd about it. Raises `WrongAnswerError`.
    grounds : tuple of Question
        What the server told of the index, and answers are measured by.
    """

    fields: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], Checked]
    grounds: tuple[Question, ...] = ()


def find(ids: Sequence[int], sizes: Sequence[int] | None = None) -> Question:
    """Rank ranges of a sequence; of the empty one, the sizes of the shards.

    Parameters
    ----------
    ids : sequence of int
    sizes : sequence of int, optional
        Tokens of each shard, separators included, where they are known.
    """
    asked = [int(token) for token in ids]
    fields = {"query_type": "find", "query_ids": asked}
    grounds = () if sizes is None else (find(()),)
    return Question(fields, partial(_checked_find, asked, sizes), grounds)


def _checked_find(
    asked: list[int], sizes: Sequence[int] | None, answer: Mapping[str, Any]
) -> Checked:
    ranges = field(answer, "segment_by_shard", list)
    require(bool(ranges) and all(map(_is_range, ranges)), "find", "tells no ranges of ranks")
    require(answer.get("token_ids", asked) == asked, "find", "is about other tokens")
    count = sum(high - low for low, high in ranges)
    require(count == whole_number(answer, "cnt"), "find", "contradicts itself")
    if not asked:
        require(all(low == 0 < high for low, high in ranges), "find", "tells of empty shards")
    if sizes is not None:
        fits = len(ranges) == len(sizes) and all(
            high <= size for (_, high), size in zip(ranges, sizes, strict=True)
        )
        require(fits, "find", "is about other shards than the index had; has the index changed?")
    return {"cnt": count, "segment_by_shard": ranges}, ""


def pointers(
    ids: Sequence[int], counts: Sequence[int], sizes: Sequence[int], width: int
) -> Question:
    """Byte positions of a sequence's occurrences in each shard, in the order of their ranks.

    Parameters
    ----------
    ids : sequence of int
    counts, sizes : sequence of int
        Of each shard, how often the sequence occurs there, and its tokens.
    width : int
        Bytes of a token.
    """
    fields = {"query_type": "find_cnf", "query_ids": [[[int(token) for token in ids]]]}
    return Question(
        fields,
        partial(_checked_pointers, counts, [range(0, size * width, width) for size in sizes]),
        (find(()),),
    )


def _checked_pointers(
    counts: Sequence[int], tokens: Sequence[range], answer: Mapping[str, Any]
) -> Checked:
    told = field(answer, "ptrs_by_shard", list)
    approx = field(answer, "approx", bool)
    if approx:  # of a passage too common for the server, a sample that is of no use
        return {"cnt": whole_number(answer, "cnt"), "approx": True, "ptrs_by_shard": []}, ""
    whole = len(told) == len(counts) and all(
        isinstance(shard, list) and len(shard) == len(set(map(repr, shard))) == count
        for shard, count in zip(told, counts, strict=True)
    )
    require(whole, "find_cnf", "tells not as many positions as find")
    require(whole_number(answer, "cnt") == sum(counts), "find_cnf", "contradicts itself")
    inside = all(
        _is_whole(pointer) and pointer in shard_tokens
        for shard, shard_tokens in zip(told, tokens, strict=True)
        for pointer in shard
    )
    require(inside, "find_cnf", "tells positions where no token is")
    return {"cnt": answer["cnt"], "approx": False, "ptrs_by_shard": told}, ""


def require(condition: bool, query_type: str, wrong: str) -> None:
    """Refuse an answer unless a condition holds."""
    if not condition:
        raise WrongAnswerError(f"its answer to {query_type} {wrong}")


def field(answer: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of an answer, which must be there and of a kind."""
    if not isinstance(answer.get(name), kind):
        raise WrongAnswerError(f"its answer lacks {name}, or it is no {kind.__name__}")
    return answer[name]


def whole_number(answer: Mapping[str, Any], name: str) -> int:
    """A field that is a whole number; JSON's true and 1.0 are none."""
    value = answer.get(name)
    if not _is_whole(value):
        raise WrongAnswerError(f"its answer lacks {name}, or it is no whole number")
    return int(value)  # type: ignore[arg-type]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_range(value: Any) -> bool:
    """Whether it is ``[low, high]``, ranks from ``low`` on up to the one before ``high``."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(_is_whole, value))
        and 0 <= value[0] <= value[1]
    )
