"""Where a text may be cut so that its pieces are tokenised one by one as they are in the whole.

Most tokenizers split a text at white space before all else, and then nothing to the left of such a
split depends on what stands to its right. Which white space that is depends on the tokenizer: this
module reads it off the tokenizer's description, and knows only what has been thought through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

_WHITE_SPACE = " \t\n\r"

#: What a piece may be put behind where it is encoded alone: letters behind a digit, and anything
#: else behind a letter.
HEADS = ("a", "0")


@dataclass(frozen=True)
class Words:
    """Attributes: whether a run of digits is one word; and a sign with the letters behind it."""

    digits: bool
    sign_before: bool


@dataclass(frozen=True)
class Cuts:
    """Places at which a text may be cut.

    Attributes
    ----------
    before : str
        White space before which a text may be cut, if what precedes is none.
    newlines_join : bool
        A newline may belong to the sign before it. The text may then be cut before one only behind
        an ASCII letter or digit, and also behind the last newline of a run of white space.
    last_space : bool
        It may also be cut before a space that another ASCII character than white space follows.
    in_words : bool
        It may also be cut where ASCII letters end, or digits, unless an apostrophe follows.
    in_signs : bool
        And before an apostrophe; where other signs of ASCII end, unless a contraction may begin
        with the last; and, with `last_space`, behind a newline or tab that stands alone.
    never_with : tuple of str
        A text that holds one of these may not be cut at all.
    words : Words, optional
        Which pieces are one word of a byte-level BPE for certain, beside a run of ASCII letters and
        one of signs, each with a space before it or without.
    """

    before: str
    newlines_join: bool = False
    last_space: bool = False
    in_words: bool = False
    in_signs: bool = False
    never_with: tuple[str, ...] = ()
    words: Words | None = None

    @property
    def rules(self) -> tuple[bool, bool, bool, bool]:
        """Those that are one or the other."""
        return self.newlines_join, self.last_space, self.in_words, self.in_signs


#: Parts of the regular expressions that byte-level tokenizers split by. None of them matches
#: across a place where `Cuts` lets a text be cut, and the only look-ahead is for white space.
_CONTRACTIONS = (
    "'s|'t|'re|'ve|'m|'ll|'d",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    "'(?i:[sdmt]|ll|ve|re)",
)
_LETTERS_AND_DIGITS = (
    r" ?\p{L}+",
    r" ?\p{N}+",
    r"\p{N}",
    r"\p{N}+",
    r"\p{N}{1,3}",
)
_SIGNS_WITH_LETTERS = (
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
)
_SIGNS = (r" ?[^\s\p{L}\p{N}]+",)
_SIGNS_WITH_NEWLINES = (r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]+[\r\n/]*")
_NEWLINES = (r"\s*[\r\n]+", r"\s*[\r\n]")
_SPACES = (r"\s+(?!\S)", r"\s+")

#: For GPT-2's way, which joins nothing but one space to what follows it.
_PLAIN_CUTS = Cuts(
    _WHITE_SPACE,
    last_space=True,
    in_words=True,
    in_signs=True,
    words=Words(digits=False, sign_before=False),
)

_PLAIN_NORMALIZERS = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase"}
_WORD_SPLITTERS = {"Whitespace", "WhitespaceSplit", "BertPreTokenizer"}


def cuts_of(description: dict[str, Any]) -> Cuts | None:
    """Where a tokenizer lets a text be cut; ``None``: nowhere, as far as is known.

    Parameters
    ----------
    description : dict
        Of a Hugging Face fast tokenizer, as in ``tokenizer.json``. Its special tokens count as
        plain text, and its post-processor is left out.
    """
    added = [token for token in description["added_tokens"] if not token["special"]]
    runs_of_spaces = [token for token in added if not token["content"].strip(" ")]
    words = [token for token in added if token["content"].strip(" ")]
    if any(token["lstrip"] or token["rstrip"] for token in runs_of_spaces):
        return None
    if any(token["normalized"] for token in words) and description.get("normalizer"):
        return None  # what a text holds of them is then known only once it is normalised
    # A piece is encoded behind another, and both must not make such a word together.
    if any(re.search(rf"\s|^[{''.join(HEADS)}]", token["content"]) for token in words):
        return None
    cuts = _cuts_without_added_tokens(description)
    if cuts is None:
        return None
    return replace(
        cuts,
        last_space=cuts.last_space and not runs_of_spaces,
        never_with=tuple(token["content"] for token in words),
        words=cuts.words if _merges_plainly(description) else None,
    )


def _merges_plainly(description: dict[str, Any]) -> bool:
    """Whether it is a BPE that makes no other text of ASCII before it merges."""
    model = description["model"]
    subwords = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    kinds = {part["type"] for part in _parts(description.get("normalizer"), "normalizers")}
    return model["type"] == "BPE" and not subwords and kinds <= {"NFC", "NFD", "NFKC", "NFKD"}


def _cuts_without_added_tokens(description: dict[str, Any]) -> Cuts | None:
    model, splitter = description["model"], description.get("pre_tokenizer")
    if model.get("dropout"):
        return None
    if splitter and splitter["type"] == "BertPreTokenizer":
        return Cuts(_WHITE_SPACE) if _is_bert(description["normalizer"]) else None
    space = _space_after(description.get("normalizer"))
    if space is None:
        return None
    if splitter is None or (splitter["type"] == "Metaspace" and not splitter.get("split", True)):
        return _cuts_of_vocabulary(model, space if splitter is None else splitter["replacement"])
    return _cuts_of_splitter(splitter) if space == " " else None


def _parts(component: dict[str, Any] | None, key: str) -> Iterator[dict[str, Any]]:
    """Component of a tokenizer as the sequence that it is."""
    if component is None:
        return
    if component["type"] == "Sequence":
        for part in component[key]:
            yield from _parts(part, key)
    else:
        yield component


def _is_bert(normalizer: dict[str, Any] | None) -> bool:
    return all(part["type"] == "BertNormalizer" for part in _parts(normalizer, "normalizers"))


def _space_after(normalizer: dict[str, Any] | None) -> str | None:
    """What a space is turned into; ``None``: the normalizer is none of those thought through."""
    space = " "
    for part in _parts(normalizer, "normalizers"):
        if part["type"] == "Replace" and part["pattern"] == {"String": " "}:
            space = part["content"]
        elif part["type"] not in _PLAIN_NORMALIZERS | {"Prepend"}:
            return None
    return space if len(space) == 1 else None


def _cuts_of_splitter(splitter: dict[str, Any]) -> Cuts | None:
    parts = list(_parts(splitter, "pretokenizers"))
    kinds = [part["type"] for part in parts]
    if kinds == ["Metaspace"]:
        return Cuts(" ")
    if len(kinds) == 1 and kinds[0] in _WORD_SPLITTERS:
        return Cuts(_WHITE_SPACE)
    if kinds == ["ByteLevel"] and parts[0].get("use_regex", True):
        return replace(_PLAIN_CUTS, words=Words(digits=True, sign_before=False))
    if kinds == ["Digits", "ByteLevel"] and parts[1].get("use_regex", True):
        # What stands before a digit ends there, so a run of spaces before one stays whole.
        return replace(_PLAIN_CUTS, last_space=False)
    if kinds != ["Split", "ByteLevel"] or parts[1].get("use_regex", True):
        return None
    # Each match is a word; what no match covers is another, or is left out.
    if (parts[0]["behavior"], parts[0]["invert"]) in (("Isolated", False), ("Removed", True)):
        return _cuts_of_pattern(parts[0]["pattern"].get("Regex", ""))
    return None


def _cuts_of_pattern(pattern: str) -> Cuts | None:
    """Cuts for a regular expression that is made of known parts, and of nothing else."""
    known = (
        *_CONTRACTIONS,
        *_LETTERS_AND_DIGITS,
        *_SIGNS_WITH_LETTERS,
        *_SIGNS,
        *_SIGNS_WITH_NEWLINES,
        *_NEWLINES,
        *_SPACES,
    )
    found = []
    while pattern:
        fitting = [part for part in known if f"{pattern}|".startswith(f"{part}|")]
        if not fitting:
            return None
        found.append(max(fitting, key=len))
        pattern = pattern[len(found[-1]) + 1 :]
    if not set(found) & set(_SIGNS + _SIGNS_WITH_NEWLINES) or tuple(found[-2:]) != _SPACES:
        return None
    if set(found) & set(_NEWLINES):
        # Some split letters by their case.
        words = None if any(r"\p{Lu}" in part for part in found) else Words(False, True)
        return Cuts(" \t", newlines_join=True, last_space=True, in_words=True, words=words)
    joins = set(found) & {*_SIGNS_WITH_NEWLINES, *_SIGNS_WITH_LETTERS}
    return None if joins else _PLAIN_CUTS


def _cuts_of_vocabulary(model: dict[str, Any], space: str) -> Cuts | None:
    """Cuts where nothing splits the text: merges cannot join what no token holds together."""
    if model["type"] != "BPE" or model.get("ignore_merges"):
        return None
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        return None
    vocabulary, before = model["vocab"], ""
    for sign in _WHITE_SPACE:
        written = space if sign == " " else sign
        in_bytes = model.get("byte_fallback") and f"<0x{ord(sign):02X}>" in vocabulary
        joined = re.compile(rf"[^{re.escape(space)}\s]{re.escape(written)}")
        # One unknown to the model might be fused with an unknown sign before it.
        if (written in vocabulary or in_bytes) and not any(map(joined.search, vocabulary)):
            before += sign
    return Cuts(before) if before else None
