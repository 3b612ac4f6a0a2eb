"""Tokenise much text fast: each word once, and then from memory.

A corpus repeats its words, and where the tokenizer lets a text be cut (`word_boundaries`), a piece
has the same tokens wherever it stands. So every piece that was seen is kept with its tokens, and
only new ones are given to the tokenizer. The result is the tokenizer's own, token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from propme.index.tokenizer import Tokenizer
from propme.index.word_boundaries import HEADS, Cuts
from propme.index.word_merging import WordMerges

#: Pieces and bytes of them that are kept; then all are forgotten, and a new memory begun.
_MOST_PIECES = 1 << 19
_MOST_BYTES = 1 << 26

#: A document with a longer piece, for want of white space, is left to the tokenizer as a whole.
_LONGEST_PIECE = 4096

#: Characters of new pieces that are given to the tokenizer as one text.
_JOINED_CHARACTERS = 20_000

#: What a piece may depend on besides its characters: that a text begins with it, or that it ends in
#: the white space that ends a text.
_FIRST, _LAST = 1, 2

_SPACE, _TAB, _NEWLINE, _RETURN, _SLASH, _APOSTROPHE = 0x20, 0x09, 0x0A, 0x0D, 0x2F, 0x27

_FNV_OFFSET, _FNV_PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
_MIXING, _IS_HASH = np.uint64(0x9E3779B97F4A7C15), np.uint64(1 << 63)

Bytes = npt.NDArray[np.uint8]
Tokens = npt.NDArray[Any]
Lengths = npt.NDArray[np.int64]


class WordCache:
    """Encodes documents as a tokenizer does, and remembers the pieces they are made of.

    Parameters
    ----------
    tokenizer : Tokenizer
    cuts : Cuts
        Where it lets a text be cut.
    dtype : dtype
        Of the tokens that are returned.
    merges : WordMerges, optional
        Of the same tokenizer: for words that it need not be asked about.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        cuts: Cuts,
        dtype: np.dtype[Any],
        merges: WordMerges | None = None,
    ) -> None:
        self._tokenizer, self._dtype, self._merges = tokenizer, dtype, merges
        self._before = np.zeros(256, np.bool_)
        self._before[[ord(sign) for sign in cuts.before]] = True
        self._rules = cuts.rules
        self._never_with = cuts.never_with
        # There may be hundreds, of which most begin alike.
        self._begins = sorted({content[:4] for content in cuts.never_with})
        self._slots = np.zeros((2 * _MOST_PIECES, 4), np.uint64)
        self._key_starts = np.zeros(_MOST_PIECES + 1, np.int32)
        self._keys = np.empty(_MOST_BYTES, np.uint8)
        self._id_starts = np.zeros(_MOST_PIECES + 1, np.int64)
        self._ids = np.empty(1 << 16, dtype)
        self._n_pieces = 0
        self._pieces, self._owners = np.empty((2, _MOST_PIECES), np.int32)
        letter, _ = HEADS
        # With newlines joined, an apostrophe is cut off behind a newline alone.
        self._before_apostrophe = letter + "\n" if cuts.newlines_join else letter
        heads = {"", *HEADS, self._before_apostrophe}
        self._n_tokens = {head: len(tokenizer.encode(head)) for head in heads}

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """Token ids of each text, as the bytes of an array."""
        raw = [text.encode("utf-8") for text in texts]
        joined = np.frombuffer(b"".join(raw), np.uint8)
        stops = np.cumsum([len(text) for text in raw], dtype=np.int64)
        left_out = np.array([self._may_not_be_cut(text) for text in texts], np.bool_)
        counts = np.zeros(len(texts), np.int64)
        tokens = self._encode_pieces(joined, stops, left_out, counts)
        found = _cut_up(tokens, counts)
        whole = np.flatnonzero(left_out).tolist()
        encoded = self._tokenizer.encode_batch([texts[n] for n in whole])
        for number, ids in zip(whole, encoded, strict=True):
            found[number] = np.array(ids, self._dtype).tobytes()
        return found

    def _may_not_be_cut(self, text: str) -> bool:
        return any(begin in text for begin in self._begins) and any(
            content in text for content in self._never_with
        )

    def _encode_pieces(
        self, text: Bytes, stops: npt.NDArray[np.int64], left_out: Any, counts: Any
    ) -> npt.NDArray[Any]:
        pieces, owners = self._pieces, self._owners
        at = document = 0
        parts = []
        while document < stops.size:
            known = self._n_pieces
            at, document, n, self._n_pieces = _look_up(
                text, stops, at, document, left_out, self._before, self._rules,
                self._slots, self._key_starts, self._keys, known, pieces, owners,
            )  # fmt: skip
            self._encode_new(known)
            parts.append(_gathered(pieces[:n], owners[:n], self._id_starts, self._ids, counts))
            if document < stops.size or self._n_pieces > _MOST_PIECES * 3 // 4:
                self._slots[:] = 0
                self._n_pieces = 0
        return np.concatenate(parts) if parts else np.empty(0, self._dtype)

    def _encode_new(self, known: int) -> None:
        """Encode the pieces that were met for the first time."""
        starts = self._key_starts[known : self._n_pieces + 1]
        if starts.size == 1:
            return
        merged, lengths = self._merged(starts)
        rest = np.flatnonzero(lengths < 0)
        raw, first = self._keys[starts[0] : starts[-1]].tobytes(), int(starts[0])
        bounds = zip(
            (starts[rest] - first).tolist(), (starts[rest + 1] - first).tolist(), strict=True
        )
        keys = [raw[start:stop] for start, stop in bounds]
        texts, flags = [key[1:].decode("utf-8") for key in keys], [key[0] for key in keys]
        middle = [n for n, flag in enumerate(flags) if not flag]
        edges = [n for n, flag in enumerate(flags) if flag]
        of_middle, lengths[rest[middle]] = self._encoded_middle([texts[n] for n in middle])
        of_edges, lengths[rest[edges]] = self._encoded_edges(
            [texts[n] for n in edges], [flags[n] for n in edges]
        )
        source = np.zeros(lengths.size, np.int8)
        source[rest[middle]], source[rest[edges]] = 1, 2
        sources = np.repeat(source, lengths)
        ids = np.empty(lengths.sum(), self._dtype)
        for number, found in enumerate((merged, of_middle, of_edges)):
            ids[sources == number] = found
        self._keep(known, ids, lengths)

    def _merged(self, starts: npt.NDArray[np.int32]) -> tuple[Tokens, Lengths]:
        if self._merges is None:
            return np.empty(0, self._dtype), np.full(starts.size - 1, -1)
        return self._merges.encode(self._keys, starts)

    def _keep(self, known: int, ids: Tokens, lengths: Lengths) -> None:
        first = self._id_starts[known]
        stops = first + np.cumsum(lengths)
        self._id_starts[known + 1 : known + 1 + lengths.size] = stops
        if stops[-1] > self._ids.size:
            self._ids = np.concatenate([self._ids[:first], np.empty(2 * stops[-1], self._dtype)])
        self._ids[first : stops[-1]] = ids

    def _encoded_edges(
        self, pieces: Sequence[str], flags: Sequence[int]
    ) -> tuple[Tokens, list[int]]:
        """Tokens of pieces at the edges of a text, one after another, and how many each has."""
        heads = [
            "" if flag & _FIRST else self._head_of(piece)
            for piece, flag in zip(pieces, flags, strict=True)
        ]
        texts = [head + piece for head, piece in zip(heads, pieces, strict=True)]
        batch = self._tokenizer.encode_batch(texts)
        found = [ids[self._n_tokens[head] :] for head, ids in zip(heads, batch, strict=True)]
        return np.array([*chain(*found)], self._dtype), [len(ids) for ids in found]

    def _encoded_middle(self, pieces: Sequence[str]) -> tuple[Tokens, Lengths]:
        """The same for pieces that stand between others.

        Many are given to the tokenizer as one text, with a word between any two that the text may
        be cut around; which tokens are whose is told by their characters.
        """
        groups, borders = self._joined(pieces)
        tokens, lengths = [np.empty(0, self._dtype)], [np.empty(0, np.int64)]
        encodings = self._tokenizer.encode_batch_with_offsets(groups)
        for (ids, offsets), at in zip(encodings, borders, strict=True):
            begins = np.fromiter((start for start, _ in offsets), np.int64, len(offsets))
            # Tokens between two borders are by turns those of a word between and of a piece.
            counts = np.diff(np.searchsorted(begins, at), prepend=0, append=len(ids))
            is_piece = np.repeat(np.arange(counts.size) % 2 == 1, counts)
            tokens.append(np.array(ids, self._dtype)[is_piece])
            lengths.append(counts[1::2])
        return np.concatenate(tokens), np.concatenate(lengths)

    def _head_of(self, piece: str) -> str:
        """What a piece that only follows others may be put behind, and still be cut off."""
        if piece[0] == "'":
            return self._before_apostrophe
        letter, digit = HEADS
        return digit if piece[0].isalpha() else letter

    def _joined(self, pieces: Sequence[str]) -> tuple[list[str], list[list[int]]]:
        """Texts of many pieces each, and the characters at which each piece starts and stops."""
        texts: list[str] = []
        borders: list[list[int]] = []
        parts: list[str] = []
        at: list[int] = [0]
        for number, piece in enumerate(pieces):
            follows = bool(parts) and piece[0] == " " and "!" <= parts[-1][-1] <= "~"
            head = "" if follows else " " + self._head_of(piece)
            start = at[-1] + len(head)
            at += [start, start + len(piece)]
            parts += [head, piece]
            if at[-1] >= _JOINED_CHARACTERS or number == len(pieces) - 1:
                texts.append("".join([*parts, f" {HEADS[0]}"]))
                borders.append(at[1:])
                parts, at = [], [0]
        return texts, borders


def _cut_up(tokens: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> list[bytes]:
    raw, size = tokens.tobytes(), tokens.itemsize
    stops = (np.cumsum(counts) * size).tolist()
    return [raw[a:b] for a, b in zip([0, *stops], stops, strict=False)]


@njit(cache=True, inline="always")
def _ends_in_white_space(text, start, stop):  # type: ignore[no-untyped-def]
    """Whether text[start:stop] may end in white space, or in what tokenizers write for a space."""
    last = text[stop - 1]
    if last < 0x80:
        return last == _SPACE or 0x09 <= last <= 0x0D or 0x1C <= last <= 0x1F
    if stop - start >= 2 and text[stop - 2] == 0xC2:
        return True
    if stop - start < 3:
        return False
    lead, middle = text[stop - 3], text[stop - 2]
    if lead == 0xE1:
        return middle == 0x9A or middle == 0xA0
    if lead == 0xE2:
        if middle == 0x80:
            return last <= 0x8F or 0xA8 <= last <= 0xAF
        return (middle == 0x81 and last == 0x9F) or (middle == 0x96 and last == 0x81)
    return lead == 0xE3 and middle == 0x80 and last == 0x80


@njit(cache=True, inline="always")
def _is_letter(sign):  # type: ignore[no-untyped-def]
    return 0x41 <= (sign & 0xDF) <= 0x5A


@njit(cache=True, inline="always")
def _is_digit(sign):  # type: ignore[no-untyped-def]
    return 0x30 <= sign <= 0x39


@njit(cache=True, inline="always")
def _is_visible(sign):  # type: ignore[no-untyped-def]
    return 0x20 < sign < 0x7F


@njit(cache=True, inline="always")
def _begins_contraction(sign):  # type: ignore[no-untyped-def]
    """Whether one of 's, 't, 'm, 'd, 're, 've and 'll may begin with ``sign``, in any case."""
    letter = sign | 0x20
    return (
        letter == 0x73 or letter == 0x74 or letter == 0x6D or letter == 0x64
        or letter == 0x72 or letter == 0x76 or letter == 0x6C
    )  # fmt: skip


@njit(cache=True, inline="always")
def _ends_word(text, start, at, in_signs, last_space):  # type: ignore[no-untyped-def]
    """Whether a run of ASCII letters or digits ends before ``at``, or what else `Cuts` says."""
    sign, last = text[at], text[at - 1]
    if not _is_visible(sign) or (sign == _APOSTROPHE and not in_signs):
        return False
    if _is_letter(last):
        return not _is_letter(sign)
    if _is_digit(last):
        return not _is_digit(sign)
    if not in_signs:
        return False
    if _is_visible(last):
        contracted = last == _APOSTROPHE and _begins_contraction(sign)
        return (_is_letter(sign) or _is_digit(sign)) and not contracted
    if not last_space or last not in (_NEWLINE, _RETURN, _TAB):
        return False
    return at - start >= 2 and _is_visible(text[at - 2])


@njit(cache=True)
def _begins_line(text, at, stop):  # type: ignore[no-untyped-def]
    """Whether only blanks stand between a newline before ``at`` and a sign that begins a word."""
    if text[at] == _SLASH:  # which a few tokenizers join to newlines
        return False
    while at < stop and (text[at] == _SPACE or text[at] == _TAB):
        at += 1
    return at < stop and _is_visible(text[at])


@njit(cache=True, inline="always")
def _next_cut(text, start, at, stop, before, rules):  # type: ignore[no-untyped-def]
    """First place behind ``at`` where the document text[start:stop] may be cut, or its end."""
    newlines_join, last_space, in_words, in_signs = rules
    for end in range(at + 1, stop):
        sign, last = text[end], text[end - 1]
        if before[sign] and not _ends_in_white_space(text, start, end):
            return end
        if sign == _SPACE:
            if last_space and _is_visible(text[end + 1]):
                return end
        elif in_words and _ends_word(text, start, end, in_signs, last_space):
            return end
        if not newlines_join:
            continue
        if sign in (_NEWLINE, _RETURN):
            if _is_letter(last) or _is_digit(last):
                return end
        elif last in (_NEWLINE, _RETURN) and _begins_line(text, end, stop):
            return end
    return stop


@njit(cache=True)
def _text_end(text, start, stop):  # type: ignore[no-untyped-def]
    """Where the white space at the end of a document begins: no cut is made there or behind."""
    while stop > start and _ends_in_white_space(text, start, stop):
        stop -= 1
        while stop > start and 0x80 <= text[stop] < 0xC0:  # the rest of a sign of several bytes
            stop -= 1
    return stop


@njit(cache=True, inline="always")
def _short_slot(text, start, stop, slots):  # type: ignore[no-untyped-def]
    """The slot that holds a short piece, or the empty one that it would go to; and its name.

    A slot is three numbers: the two of a name and one more than the number of a piece. The name of
    a piece of up to 15 bytes is these bytes.
    """
    low, high = np.uint64(0), np.uint64(stop - start)
    for i in range(start, min(stop, start + 8)):
        low = (low << np.uint64(8)) | np.uint64(text[i])
    for i in range(start + 8, stop):
        high = (high << np.uint64(8)) | np.uint64(text[i])
    mask = np.uint64(slots.shape[0] - 1)
    slot = (((low ^ (high * _MIXING)) * _MIXING) >> np.uint64(20)) & mask
    while slots[slot, 2] and (slots[slot, 0] != low or slots[slot, 1] != high):
        slot = (slot + np.uint64(1)) & mask
    return slot, low, high


@njit(cache=True)
def _long_slot(text, start, stop, flag, slots, key_starts, keys):  # type: ignore[no-untyped-def]
    """The same for any other piece, whose name is a hash: its bytes are compared."""
    low = _FNV_OFFSET ^ np.uint64(flag)
    for i in range(start, stop):
        low = (low ^ np.uint64(text[i])) * _FNV_PRIME
    mask = np.uint64(slots.shape[0] - 1)
    slot = ((low * _MIXING) >> np.uint64(20)) & mask
    while slots[slot, 2]:
        if slots[slot, 0] == low and slots[slot, 1] == _IS_HASH:
            piece = np.int64(slots[slot, 2]) - 1
            first, size = key_starts[piece], key_starts[piece + 1] - key_starts[piece]
            if size == stop - start + 1 and keys[first] == flag:
                i = 0
                while start + i < stop and text[start + i] == keys[first + 1 + i]:
                    i += 1
                if start + i == stop:
                    break
        slot = (slot + np.uint64(1)) & mask
    return slot, low, _IS_HASH


@njit(cache=True, nogil=True)
def _look_up(  # type: ignore[no-untyped-def]
    text, stops, at, document, left_out, before, rules,
    slots, key_starts, keys, n_known, pieces, owners,
):  # fmt: skip
    """Cut documents from byte ``at`` on into pieces, and add those that are new to the memory.

    Writes the number of each piece and of its document. Returns where it stopped, because all is
    done or something is full: the byte and its document, and how many pieces were written and are
    known.
    """
    n = 0
    while document < stops.size:
        first = stops[document - 1] if document else 0
        stop = stops[document]
        text_end = _text_end(text, first, stop)
        if left_out[document]:
            at = stop
        while at < stop:
            end = _next_cut(text, first, at, text_end, before, rules)
            if end == text_end:
                end = stop
            if end - at > _LONGEST_PIECE:
                left_out[document] = True
                at = stop
                break
            if n == pieces.size:
                return at, document, n, n_known
            flag = (_FIRST if at == first else 0) | (_LAST if end > text_end else 0)
            if end - at < 16 and not flag:
                slot, low, high = _short_slot(text, at, end, slots)
            else:
                slot, low, high = _long_slot(text, at, end, flag, slots, key_starts, keys)
            if not slots[slot, 2]:
                used = key_starts[n_known]
                if n_known == key_starts.size - 1 or used + 1 + end - at > keys.size:
                    return at, document, n, n_known
                keys[used] = flag
                keys[used + 1 : used + 1 + end - at] = text[at:end]
                n_known += 1
                key_starts[n_known] = used + 1 + end - at
                slots[slot, 0], slots[slot, 1], slots[slot, 2] = low, high, n_known
            pieces[n] = np.int64(slots[slot, 2]) - 1
            owners[n] = document
            n += 1
            at = end
        document += 1
    return at, document, n, n_known


@njit(cache=True, nogil=True)
def _gathered(pieces, owners, id_starts, ids, counts):  # type: ignore[no-untyped-def]
    """Tokens of the pieces in a row; how many each document has is added to ``counts``."""
    size = 0
    for i in range(pieces.size):
        size += id_starts[pieces[i] + 1] - id_starts[pieces[i]]
    found = np.empty(size, ids.dtype)
    at = 0
    for i in range(pieces.size):
        first, last = id_starts[pieces[i]], id_starts[pieces[i] + 1]
        for k in range(first, last):
            found[at + k - first] = ids[k]
        at += last - first
        counts[owners[i]] += last - first
    return found
