"""Look every prompt up in the corpus before it is used.

An ordinary prompt that already holds training text measures nothing; a prefix that is not in the
corpus attacks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from propme.errors import InputError, TooLongError
from propme.index.protocol import Index
from propme.index.text_search import find_text
from propme.model_tokenizer import ModelTokenizer
from propme.progress import track
from propme.records import PROMPT_FREE, Prompt

#: Settings that have as many prompts as were given; of other propensity settings, as many as asked.
_ALL_ARE_USED = (*PROMPT_FREE, "file")

#: Share of the prefix set's median overlap that a propensity set's must stay below.
_CONTRAST = 0.5


def audit(
    prompts: Iterable[Prompt], index: Index, longest_allowed: int, enough: int | None = None
) -> list[Prompt]:
    """Fill in what the corpus holds of each prompt, and refuse those that cannot be used.

    Parameters
    ----------
    prompts : iterable of Prompt
        Those that are refused already, as by `fit`, stay so.
    index : Index
        Of the training corpus.
    longest_allowed : int
        Longest run of index tokens that a propensity prompt may share with a document.
    enough : int, optional
        Usable prompts of a set of requests after which the rest of it is left out, where to look
        one up is dear: those that `choose` would take are the same.

    Returns
    -------
    list of Prompt
        In the same order; ``refused`` says why one is not to be used. Of prompts with equal text in
        one setting the first is used.

    Notes
    -----
    White space at a prompt's ends is left out. ``longest_span`` is the longest run of its tokens
    that stands in one document. A run that reaches an end of the prompt is compared as characters
    there, for its first or last word may be tokenised otherwise in the document. ``occurs_whole``
    compares characters too (`propme.index.text_search.find_text`). Prompts that ask for nothing are
    counted and never refused: a frequent word of the corpus is meant to stand in it.
    """
    first: dict[tuple[str, str], str] = {}
    audited = []
    usable: Counter[str] = Counter()
    for prompt in track(list(prompts), "looking prompts up", unit="prompts"):
        if enough is not None and _is_of_set(prompt) and usable[prompt.setting] == enough:
            continue
        found = _audited(prompt, index)
        if not found.refused and found.setting not in PROMPT_FREE:
            same = first.setdefault((found.setting, found.text), found.prompt_id)
            repeats = f"the same text as {same}" if same != found.prompt_id else ""
            found = replace(found, refused=repeats or _reason(found, longest_allowed))
        usable[found.setting] += not found.refused
        audited.append(found)
    return audited


def _is_of_set(prompt: Prompt) -> bool:
    """Whether it is one of a set of requests, of which as many are used as are asked for."""
    return prompt.kind == "propensity" and prompt.setting not in _ALL_ARE_USED


def _audited(prompt: Prompt, index: Index) -> Prompt:
    # As the index holds it: some tokenizers compose accents, or make capitals small.
    text = index.tokenizer.kept(prompt.text).strip()
    ids, offsets = index.tokenizer.encode_with_offsets(text)
    whole = find_text(index, text)
    longest = len(ids) if whole.positions else _longest_run(index, text, ids, offsets)
    return replace(
        prompt,
        n_tokens=len(ids),
        longest_span=longest,
        overlap=longest / len(ids) if ids else 0.0,
        occurs_whole=bool(whole.positions),
        n_occurrences=len(whole.positions),
        n_documents=len(whole.documents),
        documents_exact=whole.exact,
    )


def _longest_run(index: Index, text: str, ids: list[int], offsets: list[tuple[int, int]]) -> int:
    longest = max((int(stop - start) for start, stop in index.maximal_runs(ids)), default=0)
    beginnings = [(text[:stop], (start, stop)) for start, stop in offsets]
    ends = [(text[start:], (start, stop)) for start, stop in reversed(offsets)]
    for passages in (beginnings, ends):
        for size, (passage, (start, stop)) in enumerate(passages, start=1):
            # A blank token inside the prompt ends no passage: it would be looked up without it.
            if size <= longest or not text[start:stop].strip():
                continue
            if not find_text(index, passage).positions:
                break  # what is longer and occurs, occurs shortened too
            longest = size
    return longest


def _reason(prompt: Prompt, longest_allowed: int) -> str:
    if prompt.kind == "capability":
        return "" if prompt.occurs_whole else "does not stand in the corpus"
    if prompt.occurs_whole:
        return "stands whole in the corpus"
    if prompt.kind == "propensity" and prompt.longest_span > longest_allowed:
        return f"shares {prompt.longest_span} tokens with a document; limit {longest_allowed}"
    return ""


def fit(
    prompts: Iterable[Prompt], model: ModelTokenizer | None, max_new_tokens: int
) -> list[Prompt]:
    """Fill in the length of what the model is given, and refuse what leaves its completion no room.

    Without the model's tokenizer, as with a server, nothing is known and nothing refused.

    Raises
    ------
    InputError
        A chat prompt for a model without a chat template, or an empty prompt for one without a
        start token.
    """
    if model is None:
        return list(prompts)
    fitted = []
    for prompt in prompts:
        if prompt.setting == "human":  # nobody is asked
            fitted.append(prompt)
            continue
        refused = prompt.refused
        try:
            model.require_room(prompt, max_new_tokens)
        except TooLongError as error:
            refused = refused or error.message
        n_tokens = len(model.prompt_ids(prompt))
        fitted.append(replace(prompt, n_model_tokens=n_tokens, refused=refused))
    return fitted


def choose(prompts: Iterable[Prompt], n: int) -> list[Prompt]:
    """The first ``n`` usable prompts of each set of requests, all others, and all refused ones.

    Raises
    ------
    InputError
        A setting has no usable prompt left, or a set of requests fewer than ``n``.
    """
    prompts = list(prompts)
    used: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        if _is_of_set(prompt) and not prompt.refused and used[prompt.setting] == n:
            continue
        used[prompt.setting] += not prompt.refused
        chosen.append(prompt)
    for setting, kind in {(p.setting, p.kind): None for p in prompts}:
        needed = n if kind == "propensity" and setting not in _ALL_ARE_USED else 1
        if used[setting] < needed:
            reasons = Counter(p.refused for p in prompts if p.setting == setting and p.refused)
            raise InputError(
                f"{used[setting]} usable prompts, {needed} wanted; refused: {dict(reasons)};"
                " give more prompts, ask for fewer (n_prompts), or raise longest_allowed",
                f"setting {setting!r}",
            )
    return chosen


def require_contrast(prompts: Iterable[Prompt]) -> None:
    """Refuse a set of ordinary prompts that overlaps with the corpus as an attack does.

    The median share of a prompt that its longest span takes must be below half of that of the
    capability prompts. Where there are none, nothing is compared.

    Raises
    ------
    InputError
        It is not, so that what is measured would be no propensity.
    """
    overlaps: dict[tuple[str, str], list[float]] = {}
    for prompt in prompts:
        if not prompt.refused and prompt.setting not in PROMPT_FREE:
            overlaps.setdefault((prompt.kind, prompt.setting), []).append(prompt.overlap)
    attacks = [median(shares) for (kind, _), shares in overlaps.items() if kind == "capability"]
    limit = _CONTRAST * min(attacks, default=float("inf"))
    for (kind, setting), shares in overlaps.items():
        if kind == "propensity" and median(shares) >= limit:
            raise InputError(
                f"half of its prompts share {median(shares):.0%} or more of their length with a"
                f" document, and less than {limit:.0%} is wanted: too near to the prefix attack to"
                " be ordinary; give other prompts, or lower longest_allowed",
                f"setting {setting!r}",
            )
