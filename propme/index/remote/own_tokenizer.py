"""Whether a tokenizer is that of an index behind a server, told by texts that the server shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from propme.errors import InputError
from propme.index.remote.ranks import RankRanges
from propme.index.remote.reading import DocumentReader

#: Texts that are looked at before a tokenizer is refused, and tokens that are asked for of each.
_TEXTS, _SHOWN = 5, 256

#: Tokens that must stand in the index one behind the other: too many to do so by chance.
_PASSAGE = 8


def require_own_tokenizer(ranks: RankRanges, documents: DocumentReader, address: str) -> None:
    """Refuse a tokenizer that is not the index's: with it all that is sought is something else.

    The tokens of a text out of the index stand in the index. The first text of which that is so
    will do, so that as a rule two requests are made, once; documents that are blocked or of a few
    words tell nothing.

    Raises
    ------
    InputError
        There are texts, and of none it is so.
    """
    n_others = 0
    for shard, rank in _places(ranks.sizes):
        shown = documents.shown((shard, rank, ()), _SHOWN)
        passage = _middle(shown.certain)
        if len(passage) < _PASSAGE:
            continue
        if ranks.find(passage).count:
            return
        n_others += 1
    if n_others:
        raise InputError(
            f"this tokenizer is not the index's: of {n_others} texts that the server shows none"
            " gives tokens that stand in the index; name its own (those of the public API are of"
            " Llama 2's)",
            address,
        )


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranks far from each other, one of each shard in turn."""
    for number in range(_TEXTS):
        shard = number % len(sizes)
        yield shard, sizes[shard] * (number + 1) // (_TEXTS + 1)


def _middle(ids: Sequence[int]) -> Sequence[int]:
    start = max(0, (len(ids) - _PASSAGE) // 2)
    return ids[start : start + _PASSAGE]
