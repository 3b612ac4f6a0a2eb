"""The command ``propme sensitivity``: what another batch size or number type changes.

Neither decides anything on paper; both change the last bits of the logits, and with them now and
then a token, and all that follow it. The same prompts are completed anew each way, by the seeds of
the run, and traced in its index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from propme import tables
from propme.errors import ParameterError
from propme.generation import TransformersGenerator, complete
from propme.index import Index
from propme.measurements import measured_generations
from propme.metrics import METRICS
from propme.records import Decoding, Generation, Prompt, decodings, in_order
from propme.run import RunFolder, open_run
from propme.simpletrace import IndexAddress, TraceSettings, trace_all

N_PROMPTS = 50
_METRICS = ("ALS", "FMR", "NVR_max", "extraction")


@dataclass(frozen=True)
class Sensitivity:
    """What changed.

    Attributes
    ----------
    texts : DataFrame
        A row for each variation and decoding: completions, how many of them changed, and the mean
        number of tokens before the first that did.
    metrics : DataFrame
        A row for each variation, decoding, kind of prompt and metric: its value as the run has
        batch size and number type, its value here, and by how much it moved.
    """

    texts: pd.DataFrame
    metrics: pd.DataFrame


def sensitivity(effective: Mapping[str, Any], n_prompts: int = N_PROMPTS) -> Sensitivity:
    """Complete prompts of a run in another batch size, in another number type, and in both.

    Parameters
    ----------
    effective : mapping
        Parameters of a run whose prompts are there, see `propme.runner.effective_parameters`.
    n_prompts : int
        So many, from all settings alike.

    Raises
    ------
    ParameterError
        The backend is not ``transformers``.
    TableError
        The run has no prompts yet.
    """
    if effective["backend"] != "transformers":
        raise ParameterError(
            f"backend {effective['backend']!r} decides batch size and number type by itself; only"
            " those of 'transformers' can be varied"
        )
    run = open_run(effective["output"])
    prompts = _spread(tables.to_records("prompts", run.read("prompts")), n_prompts)
    names = ("greedy", "samples", "temperature", "top_p", "max_new_tokens", "top_k")
    chosen = [replace(each, samples=1) for each in decodings(*(effective[n] for n in names))]
    index = IndexAddress((run.input_path("index"),), effective["engine"]).open()
    settings = TraceSettings(
        *(effective[name] for name in ("docs_per_span", "merging", "seed", "mode"))
    )
    found = {
        name: (made, _values(prompts, made, index, settings))
        for name, made in _variations(run, effective, prompts, chosen)
    }
    base, *others = found
    return Sensitivity(
        pd.DataFrame([row for n in others for row in _changes(n, found[base][0], found[n][0])]),
        pd.concat([_moves(n, found[base][1], found[n][1]) for n in others], ignore_index=True),
    )


def _spread(prompts: Sequence[Prompt], n: int) -> list[Prompt]:
    """So many of those that a model is asked, in turn of each setting, each asked once."""
    used = [p for p in prompts if not p.refused and p.setting != "human"]
    by_setting = [
        [p for p in used if p.setting == setting] for setting in in_order(p.setting for p in used)
    ]
    longest = max(map(len, by_setting), default=0)
    turns = (group[i] for i in range(longest) for group in by_setting if i < len(group))
    return [replace(prompt, samples=None) for prompt, _ in zip(turns, range(n), strict=False)]


def _variations(
    run: RunFolder,
    effective: Mapping[str, Any],
    prompts: Sequence[Prompt],
    chosen: Sequence[Decoding],
) -> Iterator[tuple[str, list[Generation]]]:
    """Completions as in the run, then otherwise, by what is otherwise; a model at a time."""
    size = effective["batch_size"]
    other_size = size // 4 if size >= 4 else 4 * size
    dtypes = [effective["dtype"]]
    for dtype in dtypes:
        for batch_size in (size, other_size):
            generator = TransformersGenerator(
                run.input_path("model"),
                effective["device"],
                dtype,
                batch_size,
                effective["trust_remote_code"],
                run.inputs["model"]["sha256"],
            )
            own = generator.describe()["dtype"]
            if len(dtypes) == 1:
                dtypes.append("bfloat16" if own == "float32" else "float32")
            name = f"{own}, batches of {batch_size}"
            yield name, complete(generator, prompts, chosen, effective["seed"])


def _changes(
    name: str, before: Sequence[Generation], after: Sequence[Generation]
) -> Iterator[dict[str, Any]]:
    for decoding in dict.fromkeys(g.decoding for g in before):
        pairs = [
            (a.token_ids, b.token_ids)
            for a, b in zip(before, after, strict=True)
            if a.decoding == decoding
        ]
        same = [_common(a, b) for a, b in pairs if a != b]
        yield {
            "variation": name,
            "decoding": decoding,
            "completions": len(pairs),
            "changed": len(same),
            "share": len(same) / len(pairs),
            "tokens before the change": float(np.mean(same)) if same else None,
        }


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Tokens at the beginning that two completions share."""
    shorter = min(len(a), len(b))
    return next((n for n in range(shorter) if a[n] != b[n]), shorter)


def _values(
    prompts: Sequence[Prompt], made: Sequence[Generation], index: Index, settings: TraceSettings
) -> pd.DataFrame:
    """Metrics of each decoding and kind of prompt."""
    traced = trace_all(made, index, settings)
    frame = measured_generations(
        tables.to_frame("prompts", prompts),
        tables.to_frame("generations", made),
        traced["traces"],
        traced["spans"],
        traced["matches"],
    )
    rows = []
    for (decoding, kind), group in frame.groupby(["decoding", "kind"]):
        for metric in _METRICS:
            top, bottom = (each.sum() for each in METRICS[metric].ratio(group))
            value = top / bottom if bottom else None
            rows.append({"decoding": decoding, "kind": kind, "metric": metric, "value": value})
    return pd.DataFrame(rows)


def _moves(name: str, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    both = before.merge(after, on=["decoding", "kind", "metric"], suffixes=(" in the run", " here"))
    both.insert(0, "variation", name)
    both["moved by"] = both["value here"] - both["value in the run"]
    return both.dropna(ignore_index=True)
