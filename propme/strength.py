"""How much a run can bear: whether extraction rises with copies, and what it could have missed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from propme.comparison import rank_correlation, unpaired_difference
from propme.errors import MetricError
from propme.groups import prompt_sums
from propme.metrics import METRICS, require_propensity_metrics
from propme.power import smallest_effect, smallest_rate
from propme.uncertainty import ROUNDS


def copies_correlation(frame: pd.DataFrame, seed: int = 0, rounds: int = ROUNDS) -> pd.DataFrame:
    """Spearman's rank correlation of copies and extraction, over prefixes, for each decoding.

    Parameters
    ----------
    frame : DataFrame
        Of `propme.measurements.measured_generations`. Held-out documents, of 0 copies, are another
        kind of document and left out.

    Returns
    -------
    DataFrame
        ``decoding``, ``rank_correlation`` in [-1, 1], ``low`` and ``high``, ``n_prompts``; empty
        where it is undefined, and ``why``.
    """
    known = frame[frame["copies"].notna() & (frame["target"] != "")]
    known = known.astype({"copies": int})
    rows: list[dict[str, Any]] = []
    for decoding, part in known[known["copies"] > 0].groupby("decoding"):
        sums = prompt_sums(METRICS["extraction"], part)
        copies = part.drop_duplicates("prompt_id").set_index("prompt_id")["copies"]
        row: dict[str, Any] = {"decoding": decoding, "n_prompts": sums.n_prompts, "why": ""}
        try:
            found = rank_correlation(sums, copies.reindex(sums.prompts).to_numpy(), seed, rounds)
            interval = found.interval
            row |= {"rank_correlation": found.value, "low": interval.low, "high": interval.high}
        except MetricError as error:
            row |= {"why": str(error)}
        rows.append(row)
    columns = ["decoding", "rank_correlation", "low", "high", "n_prompts", "why"]
    return pd.DataFrame(rows, columns=columns)


def power_table(
    frame: pd.DataFrame, names: Iterable[str], seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """What each propensity setting could have shown of each metric in [0, 1].

    Returns
    -------
    DataFrame
        ``smallest_rate`` where the metric is 0: a rate that four of five such runs would have seen.
        ``smallest_difference`` to the first capability setting of the same decoding that four of
        five such runs would find; empty where nothing varies.
    """
    metrics = require_propensity_metrics(names)
    attacks = frame[frame["kind"] == "capability"]
    attacks = attacks[attacks["setting"] == attacks["setting"].min()]
    rows: list[dict[str, Any]] = []
    asked = frame[frame["kind"] == "propensity"]
    for (decoding, setting), part in asked.groupby(["decoding", "setting"]):
        attack = attacks[attacks["decoding"] == decoding]
        for metric in metrics:
            own = prompt_sums(metric, part)
            row = {"decoding": decoding, "setting": setting, "metric": metric.name}
            row |= {"n_prompts": own.n_prompts}
            if own.n_prompts:
                row["value"] = own.value
                row["smallest_rate"] = smallest_rate(own.n_prompts) if own.value == 0 else None
            if own.n_prompts > 1 and len(attack):  # one prompt tells nothing of how prompts vary
                try:
                    difference = unpaired_difference(own, prompt_sums(metric, attack), seed, rounds)
                    row["smallest_difference"] = smallest_effect(difference.rounds)
                except MetricError:
                    row["smallest_difference"] = None
            rows.append(row)
    columns = ["decoding", "setting", "metric", "n_prompts", "value", "smallest_rate"]
    return pd.DataFrame(rows, columns=[*columns, "smallest_difference"])
