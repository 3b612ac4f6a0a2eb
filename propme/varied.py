"""How the headlines move over the thresholds of tracing, from completions that were traced anew.

`propme.simpletrace.variants` has traced some completions with other values of each threshold; here
their metrics are taken. The tables of one trace alone would tell little: neither documents of spans
that were left out nor wider windows are in them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import pandas as pd

from propme import tables
from propme.errors import MetricError
from propme.metric_tables import metric_table
from propme.uncertainty import ROUNDS

#: Metrics that a threshold of tracing can move.
METRICS = ("ALS", "NVR", "NVR_max", "NVR_hits", "FMR", "FMR_norm", "R20", "R50")

_KEYS = ["threshold", "choice", "own"]


def sensitivity_table(
    frame: pd.DataFrame,
    variants: pd.DataFrame,
    names: Iterable[str] = METRICS,
    seed: int = 0,
    rounds: int = ROUNDS,
) -> pd.DataFrame:
    """Metrics of each setting over each threshold: the table ``sensitivity``.

    Parameters
    ----------
    frame : DataFrame
        Of `propme.measurements.measured_generations`.
    variants : DataFrame
        The table of that name. A completion that could not be traced with one of the values is left
        out of all, with a warning, so that every value is of the same completions.

    Returns
    -------
    DataFrame
        Empty where nothing was traced anew.

    Raises
    ------
    MetricError
        A metric is unknown, or a completion is not in ``frame``.

    Notes
    -----
    *How it misleads.* Values of one threshold are of the same completions, so they move together:
    that their intervals overlap does not mean that the threshold moves nothing.
    """
    failed = set(variants.loc[variants["error"] != "", "generation_id"])
    if failed:
        warnings.warn(
            f"{len(failed)} completions could not be traced with every threshold; left out",
            stacklevel=2,
        )
    used = variants[~variants["generation_id"].isin(failed)]
    unknown = sorted(set(used["generation_id"]) - set(frame["generation_id"]))
    if unknown:
        raise MetricError(
            f"{len(unknown)} generations of table 'variants' are not measured, the first being"
            f" {unknown[0]!r}; run notebook 3_tracing again"
        )
    chosen = list(names)
    found = [column for column in used.columns if column not in (*_KEYS, "error")]
    rest = frame.drop(columns=[column for column in found if column != "generation_id"])
    measured = [
        metric_table(
            rest.merge(part[found], on="generation_id"), chosen, seed, rounds, subsets=("all",)
        ).assign(threshold=str(threshold), choice=str(choice), own=bool(own))
        for (threshold, choice, own), part in used.groupby(_KEYS, sort=False)
    ]
    columns = list(tables.TABLES["sensitivity"].columns)
    return pd.concat(measured)[columns] if measured else pd.DataFrame(columns=columns)
