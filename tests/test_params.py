"""Every file in ``params/`` is planned: its names, types and values are right, its files agree."""

from pathlib import Path

import pytest
import yaml

from propme import across_runs, comparing
from propme.cli import main
from propme.run import STAGES
from propme.runner import planned_runs
from propme.runner.foreseen import foresee
from propme.runner.running import Which

FILES = sorted((Path(__file__).parent.parent / "params").glob("*.yaml"))
COMPARISONS = [file for file in FILES if "runs" in yaml.safe_load(file.read_text("utf-8"))]
RUNS = [file for file in FILES if file not in COMPARISONS]

named = {"ids": lambda file: file.stem}


@pytest.mark.parametrize("file", RUNS, **named)
def test_a_file_of_runs_is_foreseen(file, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert main(["run", "--dry-run", str(file), "--output", str(tmp_path / "new")]) in (0, 1)
    told = capsys.readouterr().out
    runs = planned_runs([file])
    assert told.count("would run: not run yet") == len(runs)
    for stage in STAGES:
        assert told.count(f"  {stage} ") == len(runs)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", COMPARISONS, **named)
def test_a_comparison_is_of_runs_that_files_ask_for(file):
    effective = comparing.effective_parameters([str(file)], {}, None)
    planned = {run.effective["output"] for run in planned_runs(RUNS)}
    assert set(effective["runs"]) <= planned
    names = [Path(run).name for run in effective["runs"]]
    found = across_runs.courses(effective["trajectories"], effective["control"], names)
    assert across_runs.pairs_of(names, effective["pairs"], found)


def test_the_papers_runs_say_what_is_missing_here(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    papers = [f for f in RUNS if f.stem.startswith(("comma-", "dfm-", "olmo3-"))]
    assert len(papers) == 4
    for run in planned_runs(papers):
        missing = foresee(run.effective, Which()).missing
        assert any("OPENAI_BASE_URL" in each for each in missing)
        parameters = run.effective
        assert (parameters["temperature"], parameters["top_p"]) == (0.7, 0.95)
        assert (parameters["max_new_tokens"], parameters["merging"]) == (256, "overlap")
    assert len({run.effective["served_model"] for run in planned_runs(papers)}) == 5
