"""Differences of pairs of runs, with their tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from propme import groups, tables
from propme.across_runs.compared_run import ComparedRun
from propme.across_runs.pairing import SAME, Both, counts_tokens, in_both, one_tokenizer
from propme.comparison import Difference, holm, paired_difference, unpaired_difference
from propme.errors import MetricError
from propme.metrics import METRICS, Metric, metric_named
from propme.uncertainty import ROUNDS

#: Rounds of a permutation test for each test of a table: with fewer, the smallest p-value there can
#: be, 1 / (1 + rounds), would not survive Holm's correction however large the difference is.
_ROUNDS_PER_TEST = 40


def require_metrics(names: Sequence[str]) -> None:
    """Refuse names of metrics that cannot be compared.

    Raises
    ------
    MetricError
        There is none, or one is unknown.
    """
    if not names:
        raise MetricError(f"no metric to compare; known are {', '.join(METRICS)}")
    for name in names:
        metric_named(name)


def differences(
    runs: Sequence[ComparedRun],
    pairs: Sequence[tuple[str, str]],
    names: Sequence[str],
    seed: int = 0,
    rounds: int = ROUNDS,
) -> pd.DataFrame:
    """Differences of pairs of runs: the table ``differences``.

    Controls are not tested. Metrics that count tokens are left out between indexes of different
    tokenizers, and a metric that neither run defines (extraction, where there is no true
    continuation) has no row. What one model completes greedily is the same in two runs, and
    nothing that could be tested.

    Parameters
    ----------
    runs : sequence of ComparedRun
    pairs : sequence of (str, str)
        Names of two runs; the second is subtracted.
    names : sequence of str
        Names of metrics.
    seed : int
    rounds : int
        Least number of rounds of bootstrap and permutation test; there are more where the table
        has so many tests that Holm's correction would leave none.

    Returns
    -------
    DataFrame

    Raises
    ------
    MetricError
        A metric is unknown.

    Notes
    -----
    Pairing cancels out the prompts, not the chance of training: two models that were trained with
    different seeds differ too, and one of each does not tell by how much.
    """
    metrics = [metric_named(name) for name in names]
    compared = [
        (both, metric)
        for both in in_both(runs, pairs)
        for metric in metrics
        if _comparable(both, metric)
    ]
    n_tests = sum(not both.why_unpaired and not both.is_one for both, _ in compared)
    enough = max(rounds, _ROUNDS_PER_TEST * n_tests)
    rows = [_difference_row(both, metric, seed, enough) for both, metric in compared]
    table = tables.of_rows("differences", rows)
    tested = table["p"].notna()
    table["p_holm"] = table["p_holm"].astype(object)
    table.loc[tested, "p_holm"] = holm(table.loc[tested, "p"].astype(float))
    return table


def _comparable(both: Both, metric: Metric) -> bool:
    if counts_tokens(metric.name) and not one_tokenizer(both.a, both.b):
        return False
    return any(metric.ratio(part)[1].sum() > 0 for part in (both.of_a, both.of_b))


def _difference_row(both: Both, metric: Metric, seed: int, rounds: int) -> dict[str, Any]:
    first, second = (groups.prompt_sums(metric, p) for p in (both.of_a, both.of_b))
    values = [sums.value if sums.n_prompts else None for sums in (first, second)]
    undefined = None in values
    row = both.labels | {
        "metric": metric.name,
        "value_a": values[0],
        "value_b": values[1],
        "paired": not both.why_unpaired,
        "why_untested": "undefined in one" if undefined else both.why_untested,
        "n_prompts_a": first.n_prompts,
        "n_prompts_b": second.n_prompts,
        "p_holm": None,
    }
    if undefined:
        nothing = dict.fromkeys(("difference", "low", "high", "p"))
        return row | nothing | {"interval": "none"}
    if both.is_one:
        nothing = dict.fromkeys(("low", "high", "p"))
        return row | nothing | {"difference": 0.0, "interval": SAME}
    compare = unpaired_difference if both.why_unpaired else paired_difference
    found: Difference = compare(first, second, seed, rounds)
    return row | {
        "difference": found.value,
        "low": found.interval.low,
        "high": found.interval.high,
        "interval": found.interval.method,
        "p": found.p_value,
    }
