"""Traced completions for the tests of the viewer, and its data read back; no test stands here."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
from helpers import byte_tokenizer, index_of

from propme import tables
from propme.records import Generation, Prompt, Trace
from propme.simpletrace import Tracer

#: Text that is markup, mathematics, a token's name or an entity, turns the direction of writing, or
#: holds characters that are two units of UTF-16 and more than one character each.
HOSTILE = (
    "<script>alert(1)</script></script><!-- $x$ <|endoftext|> &lt;b&gt;"
    " <img src=x onerror=alert(2)> "
    "\u202ert\u202c \u200f\u05d0\u05d1\u05d2 😀𝒳👩‍👩‍👧 ]]> {{ 7 * 7 }} \\u003c"
)

CORPUS = {
    "verse": "In the beginning was the word, and the word was with those who had begun it all.",
    "hostile": f"Before it. 😀😀 {HOSTILE} And after it there is more to read.",
    "danish": "»Hvad hedder æblet?« spurgte hun – og så lo de 🎉🎊 højt, til de ikke kunne mere.",
    "danish, again": "»Hvad hedder æblet?« spurgte hun – og så lo de 🎉🎊 højt. Så gik de hjem.",
    "other": "Nothing of this was ever said by anyone in any language, and nobody minds that.",
}

#: Setting, prompt and completion; the first two of each decoding leak.
COMPLETIONS = (
    ("prefix", "In the beginning", CORPUS["verse"][17:]),
    ("prefix", "Before it.", f" 😀😀 {HOSTILE} And after it something else is told."),
    (
        "generic",
        "Hvad sker der?",
        "👍 Han: »Hvad hedder æblet?« spurgte hun — og så lo de 🎉🎊 højt.",
    ),
    ("generic", HOSTILE, "zzz qqq"),
    ("human", "", "And nobody minds 😀 that the word was with them.\n\nNever said by anyone"),
)


def run_of(
    completions: Any = COMPLETIONS,
    corpus: dict[str, str] = CORPUS,
    decodings: Any = ("greedy",),
    normalizer: Any = None,
) -> dict[str, pd.DataFrame]:
    """The tables of a run whose completions are traced in a corpus; ids are ``g0``, ``g1``, ..."""
    texts = list(corpus.values())
    index = index_of(
        texts,
        byte_tokenizer(texts, 300, normalizer),
        [{"id": name, "source": name.split(",")[0], "licence": "CC0 & <free>"} for name in corpus],
    )
    tracer = Tracer(index)
    prompts, generations, traces = [], [], []
    kinds = {"prefix": "capability", "human": "control"}
    for n, (setting, prompt, text) in enumerate(completions):
        known = {"document_id": "verse", "copies": 4} if setting == "prefix" else {}
        prompts.append(Prompt(f"p{n}", setting, kinds.get(setting, "propensity"), prompt, **known))
        for decoding in decodings:
            name = f"g{len(generations)}"
            generations.append(
                Generation(name, f"p{n}", decoding, 0, 1, text, (), "stop", 0.0, 1.0, 100)
            )
            traces.append(tracer.trace(text, name))
    return frames(prompts, generations, traces)


def frames(
    prompts: list[Prompt], generations: list[Generation], traces: list[Trace]
) -> dict[str, pd.DataFrame]:
    return {
        "prompts": tables.to_frame("prompts", prompts),
        "generations": tables.to_frame("generations", generations),
        "traces": tables.to_frame("traces", [trace.summary for trace in traces]),
        "spans": tables.to_frame("spans", [span for trace in traces for span in trace.spans]),
        "matches": tables.to_frame("matches", [m for trace in traces for m in trace.matches]),
    }


def unpacked(path: Path) -> dict[str, Any]:
    """The data of a viewer's file: each piece by its name."""
    found = re.findall(
        r'<script type="application/octet-stream" id="([\w-]+)">([\w+/=]*)</script>',
        path.read_text(encoding="utf-8"),
    )
    return {name: json.loads(zlib.decompress(base64.b64decode(text))) for name, text in found}
