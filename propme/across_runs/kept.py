"""Whether copying went from verbatim to near-verbatim between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from propme import groups, tables
from propme.across_runs.compared_run import ComparedRun
from propme.across_runs.pairing import Both, counts_tokens, in_both, one_tokenizer
from propme.metrics import METRICS, Metric
from propme.uncertainty import ROUNDS, Floats, percentile_interval, ratios, resampled_sums

#: Verbatim metrics, and near-verbatim ones, whose decline is set against one another.
VERBATIM, NEAR_VERBATIM = ("FMR", "ALS"), ("NVR", "NVR_max")


def shifts(
    runs: Sequence[ComparedRun],
    pairs: Sequence[tuple[str, str]],
    seed: int = 0,
    rounds: int = ROUNDS,
) -> pd.DataFrame:
    r"""Whether copying went from verbatim to near-verbatim: the table ``shifts``.

    .. math:: S = \frac{n_a}{n_b} - \frac{v_a}{v_b}

    with a verbatim metric v (FMR, ALS) and a near-verbatim one n (NVR, NVR_max) of the runs a and
    b. Above 0, of what b copied nearly verbatim a has kept more than of what it copied verbatim:
    it still knows the texts, and no longer to the letter.

    Parameters
    ----------
    runs, pairs, seed, rounds
        As `differences`.

    Returns
    -------
    DataFrame
        Where a metric is 0 in ``run_b``, or undefined, ``shift`` is empty. What is the same in both
        by construction has no row.

    Notes
    -----
    A ratio of small numbers moves far by chance; rounds in which it is undefined are counted and
    left out. ALS of any text is above 0, since common phrases stand in any corpus, so it never
    falls to 0 and makes a shift away from verbatim look smaller than FMR does.
    """
    rows = []
    for both in (each for each in in_both(runs, pairs) if not each.is_one):
        for verbatim in VERBATIM:
            if counts_tokens(verbatim) and not one_tokenizer(both.a, both.b):
                continue
            for near in NEAR_VERBATIM:
                row = _shift_row(both, METRICS[verbatim], METRICS[near], seed, rounds)
                rows.append(row)
    return tables.of_rows("shifts", rows)


def _shift_row(
    both: Both, verbatim: Metric, near: Metric, seed: int, rounds: int
) -> dict[str, Any]:
    of_a, of_b = (
        np.concatenate(
            [groups.prompt_sums(metric, part).sums for metric in (verbatim, near)], axis=1
        )
        for part in (both.of_a, both.of_b)
    )
    kept_verbatim, kept_near = (values[0] for values in _kept(of_a.sum(0)[None], of_b.sum(0)[None]))
    rng = np.random.default_rng(seed)
    if both.why_unpaired:
        drawn = [resampled_sums(sums, rng, rounds) for sums in (of_a, of_b)]
    else:
        together = resampled_sums(np.concatenate([of_a, of_b], 1), rng, rounds)
        drawn = [together[:, :4], together[:, 4:]]
    verbatim_rounds, near_rounds = _kept(*drawn)
    interval = percentile_interval(near_rounds - verbatim_rounds)
    defined = np.isfinite(kept_near - kept_verbatim)
    spread = defined and min(len(of_a), len(of_b)) > 1
    return both.labels | {
        "verbatim": verbatim.name,
        "near_verbatim": near.name,
        "kept_verbatim": _or_none(kept_verbatim),
        "kept_near_verbatim": _or_none(kept_near),
        "shift": _or_none(kept_near - kept_verbatim),
        "low": interval.low if spread else None,
        "high": interval.high if spread else None,
        "paired": not both.why_unpaired,
        "n_prompts": min(len(of_a), len(of_b)),
        "n_rounds": rounds,
        "n_rounds_undefined": int(np.isnan(near_rounds - verbatim_rounds).sum()),
    }


def _kept(of_a: Floats, of_b: Floats) -> tuple[Floats, Floats]:
    """Each metric in a, of that in b: of rows of (numerator, denominator) of both metrics."""
    values = [
        [ratios(sums[:, columns]) for columns in (slice(0, 2), slice(2, 4))]
        for sums in (of_a, of_b)
    ]
    kept = [ratios(np.stack([a, b], 1)) for a, b in zip(*values, strict=True)]
    return kept[0], kept[1]


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
