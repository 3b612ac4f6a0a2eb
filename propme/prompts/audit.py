"""Look every prompt up in the corpus before it is used.

An ordinary prompt that already holds training text measures nothing; a prefix that is not in the
corpus attacks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from propme.errors import InputError
from propme.index.protocol import Index
from propme.index.text_search import find_text
from propme.progress import track
from propme.records import Prompt


def audit(prompts: Iterable[Prompt], index: Index, longest_allowed: int) -> list[Prompt]:
    """Fill in what the corpus holds of each prompt, and refuse those that cannot be used.

    Parameters
    ----------
    prompts : iterable of Prompt
    index : Index
        Of the training corpus.
    longest_allowed : int
        Longest run of index tokens that a propensity prompt may share with a document.

    Returns
    -------
    list of Prompt
        In the same order; ``refused`` says why one is not to be used.

    Notes
    -----
    The longest run is looked for as the prompt is tokenised alone and after a space. A run that
    begins or ends inside a token of the corpus can therefore read one or two tokens short;
    ``occurs_whole`` compares characters (`propme.index.text_search.find_text`).
    """
    return [
        _audited(prompt, index, longest_allowed)
        for prompt in track(list(prompts), "looking prompts up", unit="prompts")
    ]


def _audited(prompt: Prompt, index: Index, longest_allowed: int) -> Prompt:
    ids = index.tokenizer.encode(prompt.text)
    found = find_text(index, prompt.text)
    whole = bool(found.positions)
    spaced = index.tokenizer.encode(" " + prompt.text.lstrip())
    longest = len(ids) if whole else max(_longest_run(index, ids), _longest_run(index, spaced))
    longest = min(longest, len(ids))
    audited = replace(
        prompt,
        n_tokens=len(ids),
        longest_span=longest,
        overlap=longest / len(ids) if ids else 0.0,
        occurs_whole=whole,
        n_occurrences=len(found.positions),
    )
    return replace(audited, refused=_reason(audited, longest_allowed))


def _longest_run(index: Index, ids: list[int]) -> int:
    return max((int(stop - start) for start, stop in index.maximal_runs(ids)), default=0)


def _reason(prompt: Prompt, longest_allowed: int) -> str:
    if prompt.kind == "capability":
        return "" if prompt.occurs_whole else "does not stand in the corpus"
    if prompt.occurs_whole:
        return "stands whole in the corpus"
    if prompt.kind == "propensity" and prompt.longest_span > longest_allowed:
        return f"shares {prompt.longest_span} tokens with a document; limit {longest_allowed}"
    return ""


def choose(prompts: Iterable[Prompt], n: int) -> list[Prompt]:
    """The first ``n`` usable prompts of each propensity setting, all others, and all refused ones.

    Raises
    ------
    InputError
        A setting has no usable prompt left, or a propensity setting fewer than ``n``.
    """
    prompts = list(prompts)
    used: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        if prompt.kind == "propensity" and not prompt.refused and used[prompt.setting] == n:
            continue
        used[prompt.setting] += not prompt.refused
        chosen.append(prompt)
    for setting, kind in {(p.setting, p.kind): None for p in prompts}:
        needed = n if kind == "propensity" else 1
        if used[setting] < needed:
            reasons = Counter(p.refused for p in prompts if p.setting == setting and p.refused)
            raise InputError(
                f"{used[setting]} usable prompts, {needed} wanted; refused: {dict(reasons)};"
                " give more prompts, ask for fewer (n_prompts), or raise longest_allowed",
                f"setting {setting!r}",
            )
    return chosen
