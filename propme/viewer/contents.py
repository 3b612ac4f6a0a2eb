"""What the page shows of each completion, out of a run's tables, within a number of bytes.

Every completion, its prompt and its kept passages are always there. The documents take most of the
place, so those of the completions of which most leaked come first, and what is left out is counted.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propme import personal_data
from propme.records import TIERS, in_order
from propme.viewer.documents import documents
from propme.viewer.excerpts import Excerpts
from propme.viewer.run import FOUND, Completion, Limits, Run, run_of, shown_recall

_PER_TRACE = (
    *("n_tokens", "n_spans", "n_kept", "longest_segment"),
    *("n_whole", "n_whole_documents", "whole_exact", "degenerate"),
)
_PER_GENERATION = (
    *("prompt_id", "sample", "seed", "finish_reason", "temperature", "top_p", "max_new_tokens"),
    "model",
)
_PER_PROMPT = ("kind", "category", "language", "document_id", "source", "licence", "chat")


@dataclass(frozen=True)
class Contents:
    """The page's contents, in the order in which completions are listed.

    ``index`` is a column for each thing that is listed or filtered by; ``texts`` is what is
    searched; ``details`` the rest of each completion; ``left_out`` counts what is not there.
    """

    index: dict[str, Any]
    texts: list[dict[str, Any]]
    details: list[dict[str, Any]]
    left_out: Counter[str]


def contents(
    tables: Mapping[str, pd.DataFrame], mask: bool, limits: Limits | None = None
) -> Contents:
    """Everything that the page shows.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        The tables of `NAMES`.
    mask : bool
        Whether personal data is masked; with the extra ``privacy`` only.
    limits : Limits, optional

    Raises
    ------
    TableError
        A generation's prompt or trace, or a match's span, is in no table.
    """
    limits = limits or Limits()
    mask = mask and personal_data.available()
    run = run_of(tables, mask)
    excerpts = Excerpts(mask, limits.context, limits.match)
    found = [Completion(generation, run) for generation in run.generations]
    held = _documents(found, excerpts, limits, run)
    texts = [_text(one, limits, run) for one in found]
    details = [
        _facts(one, excerpts, limits, run) | {"documents": listed}
        for one, listed in zip(found, held, strict=True)
    ]
    return Contents(_index(found, texts, run, limits), texts, details, run.left_out)


def _text(found: Completion, limits: Limits, run: Run) -> dict[str, Any]:
    """Prompt and completion, as they are searched and shown, and the documents' names."""
    texts = {"text": found.text, "prompt": run.texts.prompts[found.prompt.prompt_id]}
    for name, whole in texts.items():
        run.left_out[f"characters of the {name}"] += max(0, len(whole.text) - limits.text)
    named = (run.shown(match, "document_id", "source").values() for match in found.matches)
    names = dict.fromkeys(name for names in named for name in names if name)
    return {name: whole.text[: limits.text] for name, whole in texts.items()} | {
        "documents": " ".join(names)
    }


def _index(
    found: list[Completion], texts: list[dict[str, Any]], run: Run, limits: Limits
) -> dict[str, Any]:
    settings = in_order(one.prompt.setting for one in found)
    decodings = sorted({one.generation.decoding for one in found})
    of_each = [
        dict.fromkeys(run.shown(match, "source")["source"] for match in one.matches)
        for one in found
    ]
    counted = Counter(source for sources in of_each for source in sources)
    sources = sorted(source for source, _ in counted.most_common(limits.sources))
    number = {source: n for n, source in enumerate(sources)}
    return {
        "settings": settings,
        "decodings": decodings,
        "found": FOUND,
        "sources": sources,
        "other_sources": len(counted) - len(sources),
        "rarity": run.rarity,
        "id": [run.shown(one.generation, "generation_id")["generation_id"] for one in found],
        "setting": [settings.index(one.prompt.setting) for one in found],
        "decoding": [decodings.index(one.generation.decoding) for one in found],
        "tier": [one.tier for one in found],
        "longest": [one.trace.longest_segment for one in found],
        "recall": [shown_recall(one.trace.recall_max) for one in found],
        "source": [[number[s] for s in listed if s in number] for listed in of_each],
        "begin": [" ".join(text["text"][:400].split())[:90] for text in texts],
    }


def _documents(
    found: list[Completion], excerpts: Excerpts, limits: Limits, run: Run
) -> list[list[dict[str, Any]]]:
    """Of each completion as many documents as the size allows, what leaked most first."""
    order = sorted(
        range(len(found)), key=lambda n: (found[n].tier, -found[n].trace.longest_segment, n)
    )
    held: list[list[dict[str, Any]]] = [[] for _ in found]
    size = 0
    for n in order:
        left_out = Counter[str]()
        if size <= limits.size:
            held[n], left_out = documents(found[n], excerpts, limits, run)
            size += len(zlib.compress(json.dumps(held[n]).encode())) * bool(held[n])
        if size > limits.size:  # neither for this one nor for any after it
            held[n], left_out = [], Counter({"documents": len(found[n].matches)})
            left_out["completions without documents"] = int(bool(found[n].matches))
        run.left_out += left_out
    return held


def _facts(found: Completion, excerpts: Excerpts, limits: Limits, run: Run) -> dict[str, Any]:
    """All of a completion but its texts and its documents."""
    generation, prompt, trace = found.generation, found.prompt, found.trace
    whole, target = found.text, run.texts.targets[prompt.prompt_id].text
    note, error = (excerpts.whole(text).text for text in (generation.note, trace.error))
    listed = [span for span in found.spans if not span.dropped or found.documents[span.span]]
    dropped = [span for span in found.spans if span.dropped and not found.documents[span.span]]
    return {
        "generation": run.shown(generation, *_PER_GENERATION)
        | {"note": note, "cut": max(0, len(whole.text) - limits.text)},
        "prompt": run.shown(prompt, *_PER_PROMPT)
        | {"copies": None if pd.isna(prompt.copies) else int(prompt.copies)}
        | {"target": target[: limits.text]},
        "trace": run.shown(trace, *_PER_TRACE)
        | {"recall_max": shown_recall(trace.recall_max), "error": error},
        "spans": [
            {
                "span": span.span,
                "at": [whole.start(span.char_start), whole.stop(span.char_stop)],
                "characters": [span.char_start, span.char_stop],
                "tokens": span.stop - span.start,
                "occurrences": span.n_occurrences,
                "documents": span.n_documents,
                "exact": span.documents_exact,
                "log_probability": (
                    round(span.log_probability, 1) if np.isfinite(span.log_probability) else None
                ),
                "rare": sum(span.log_probability <= value for value in run.rarity),
                "tier": min(TIERS.index(m.tier) for m in documents) if documents else len(TIERS),
                "dropped": span.dropped,
                "fetched": len(documents),
            }
            for span in listed
            for documents in [found.documents[span.span]]
        ],
        # Columns, for there are many.
        "left_out": {
            "start": [whole.start(span.char_start) for span in dropped],
            "stop": [whole.stop(span.char_stop) for span in dropped],
            "tokens": [span.stop - span.start for span in dropped],
            "occurrences": [span.n_occurrences for span in dropped],
            "why": [span.dropped for span in dropped],
        },
    }
