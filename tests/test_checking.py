"""What differs between a run and its record, and between two runs."""

import json

import numpy as np
import pandas as pd
import pytest
from small_project import InsteadOfNotebooks

from propme import report, runner, tables
from propme import run as runs
from propme.errors import RunError
from propme.records import Generation
from propme.runner import checking, running

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


@pytest.fixture
def notebooks(monkeypatch):
    instead = InsteadOfNotebooks()
    monkeypatch.setattr(running, "execute", instead)
    monkeypatch.setattr(running, "needs_of", lambda *_: [])  # of what would not be executed
    monkeypatch.setattr(report, "write_report", write_front_page)
    return instead


def write_front_page(_, stages, report):
    report.mkdir()
    (report / "index.html").write_text("front")


@pytest.fixture
def finished(notebooks, tmp_path):
    """A run of tables without a row."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "a"}\n')
    asked = {"corpus": str(corpus), "heldout": "", "human": "", "cache": str(tmp_path / "cache")}
    run = runner.run([], asked | {"output": str(tmp_path / "out")})
    notebooks.new()
    return run


def test_a_run_is_run_again_and_compared_once(finished, notebooks, tmp_path):
    again = str(tmp_path / "again")
    assert not [finding for finding in checking.reproduce(finished, again) if finding.problem]
    assert notebooks.new() == list(runs.STAGES)
    told = "again: the folder holds a repetition that is finished, .*; remove it, or name another"
    with pytest.raises(RunError, match=told):
        checking.reproduce(finished, again)


def test_a_repetition_that_was_stopped_is_gone_on_with(finished, notebooks, tmp_path):
    notebooks.fails = {runs.STAGES[2]: KeyboardInterrupt()}  # as abrupt as can be
    with pytest.raises(KeyboardInterrupt):
        checking.reproduce(finished, str(tmp_path / "again"))
    notebooks.new(), notebooks.fails.clear()
    assert len(checking.reproduce(finished, str(tmp_path / "again"))) >= 14
    assert notebooks.new() == list(runs.STAGES[2:])


@pytest.mark.parametrize("last", [runs.STAGES[1], runs.STAGES[3]])
def test_a_run_that_somebody_made_is_not_taken_for_a_repetition(
    finished, notebooks, tmp_path, last
):
    """It has the same parameters, and would be compared as if it had been run again."""
    given = finished.record["parameters"] | {"output": str(tmp_path / "again")}
    runner.run([], given, which=running.Which(last=last))
    notebooks.new()
    with pytest.raises(RunError, match="again: the folder holds a run that is no repetition"):
        checking.reproduce(finished, str(tmp_path / "again"))
    assert notebooks.new() == []


def test_a_run_without_parameters_cannot_be_run_again(finished, tmp_path):
    record = json.loads((finished.path / "run.json").read_text())
    del record["parameters"]
    (finished.path / "run.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match=r"out: run\.json says no parameters"):
        checking.reproduce(finished, str(tmp_path / "again"))
    assert not (tmp_path / "again").exists()


def test_an_empty_record_is_no_repetition(finished, tmp_path):
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "run.json").write_text("{}")
    with pytest.raises(RunError, match="again: this folder holds other things than a run"):
        checking.reproduce(finished, str(tmp_path / "again"))
