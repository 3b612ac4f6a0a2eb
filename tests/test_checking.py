"""What differs between a run and its record, and between two runs."""

import numpy as np
import pandas as pd
import pytest

from propme import tables
from propme.records import Generation
from propme.runner import checking

ONE = Generation("g/0", "p", "greedy", 0, 0, "x", (1, 2), "stop", 0.0, 1.0, 9)
OTHER = Generation("g/1", "p", "sampled", 0, 7, "y", (3,), "stop", 0.7, 1.0, 9)


def frame(*rows):
    return tables.to_frame("generations", rows)


def test_order_and_circumstances_of_rows_do_not_matter():
    elsewhere = frame(OTHER, ONE).assign(device="cuda", versions="torch 9")
    assert checking.difference("generations", frame(ONE, OTHER), elsewhere) == ""


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        ("text", ["x", "z"], "1 of 2 rows differ, in text"),
        ("token_ids", [(1, 2), (3, 4)], "1 of 2 rows differ, in token_ids"),
        ("temperature", [0.0, 0.7 + 1e-6], "1 of 2 rows differ, in temperature"),
        ("temperature", [0.0, 0.7 + 1e-12], ""),
        ("seed", [1, 8], "2 of 2 rows differ, in seed"),
    ],
)
def test_a_value_that_differs_is_found(column, values, told):
    before = frame(ONE, OTHER)
    assert checking.difference("generations", before, before.assign(**{column: values})) == told


def test_rows_that_are_missing_or_new_are_counted():
    told = checking.difference("generations", frame(ONE, OTHER), frame(ONE))
    assert told == "1 of 2 rows are gone, 0 are new"


def test_what_is_undefined_in_both_is_the_same():
    rows = {"p": [None, -1.5, -np.inf]}
    before = pd.DataFrame(
        {
            "prompt_id": ["a", "b", "c"],
            "decoding": "greedy",
            "n_tokens": 5,
            "log_probability": rows["p"],
            "greedy_tokens": pd.array([None, 1, 2], "Int64"),
            "n_samples": 1,
            "n_extracted": 0,
            "error": "",
        }
    )
    assert checking.difference("extraction", before, before.copy()) == ""
    after = before.assign(greedy_tokens=pd.array([None, None, 2], "Int64"))
    assert checking.difference("extraction", before, after).endswith("in greedy_tokens")
