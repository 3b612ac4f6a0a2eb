"""Whether tokenizer and token type are those of an index behind a server, told by its answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from propme.errors import InputError
from propme.index import layout
from propme.index.remote.http import RefusedError
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


def require_own_token_type(ranks: RankRanges, vocabulary_size: int, address: str) -> None:
    """Refuse a token type that is wider than the index's, for its separators would be missed.

    Of a type that the vocabulary fits into the highest id is a separator, if it occurs.

    Raises
    ------
    InputError
        That of a narrower type occurs.
    """
    for narrower in layout.TOKEN_TYPES:
        separator = layout.separator(narrower)
        if not vocabulary_size <= separator < ranks.separator:
            continue
        try:
            occurs = ranks.find((separator,)).count
        except RefusedError:  # no id of this index
            continue
        if occurs:
            raise InputError(
                f"this token type is not the index's, which is of {narrower} tokens", address
            )


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranks far from each other, one of each shard in turn."""
    for number in range(_TEXTS):
        shard = number % len(sizes)
        yield shard, sizes[shard] * (number + 1) // (_TEXTS + 1)


def _middle(ids: Sequence[int]) -> Sequence[int]:
    start = max(0, (len(ids) - _PASSAGE) // 2)
    return ids[start : start + _PASSAGE]
