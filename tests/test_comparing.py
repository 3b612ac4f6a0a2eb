"""Notebook 5 as a user runs it, on tiny runs: equal ones, and what cannot be compared."""

from __future__ import annotations

import json
import shutil
from html import escape
from pathlib import Path
from typing import Any

import pytest
import tiny
from filelock import FileLock

from propme import across_runs, tables
from propme import run as runs
from propme.across_runs import answers, courses_of, findings
from propme.cli import main
from propme.comparing import NOTEBOOK, compare, effective_parameters
from propme.errors import ParameterError, PropMeError, RunError, TableError
from propme.runner import planned_runs
from propme.runner.locks import run_lock
from propme.runner.stages import outputs_of

#: A table of each of the stages that are compared.
STAGE_TABLES = ("prompts", "generations", "traces")


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, done = tiny.tiny_run()
    assert done.returncode == 0, done.stderr
    return shutil.copytree(folder, tmp_path_factory.mktemp("runs") / "a")


def note_done(run: runs.RunFolder, stage: str, source: dict[str, Any]) -> None:
    """Record a stage as the runner does."""
    entry = {"state": "done", "made_from": source} | outputs_of(stage, run)
    run.update_record(stages=run.record.get("stages", {}) | {stage: entry})


@pytest.fixture(scope="module")
def six(tiny_run: Path) -> list[Path]:
    """The run, and five more that hold the same; the last lacks a setting."""
    copies = [tiny_run.with_name(name) for name in "bcdef"]
    for copy in copies:
        shutil.copytree(tiny_run, copy)
    folder = copies[-1] / "tables"
    prompts = tables.read("prompts", folder)
    gone = prompts.loc[prompts["setting"] == "generic", "prompt_id"]
    tables.write("prompts", prompts[~prompts["prompt_id"].isin(gone)], folder)
    generations = tables.read("generations", folder)
    lost = generations["prompt_id"].isin(gone)
    for name in ("generations", "traces", "spans", "matches"):
        table = tables.read(name, folder)
        of_lost = table["generation_id"].isin(generations.loc[lost, "generation_id"])
        tables.write(name, table[~of_lost], folder)
    last = runs.RunFolder(copies[-1])
    for stage, entry in last.record["stages"].items():
        note_done(last, stage, entry["made_from"])
    return [tiny_run, *copies]


@pytest.fixture(scope="module")
def compared(six: list[Path]) -> Path:
    """Six runs compared, five of them equal, in two courses of training."""
    overrides = {
        "trajectories": ["Danish: a, b, c", "English: a, d, e"],
        "control": "English",
        "pairs": ["f, a"],
        "bootstrap_rounds": 50,
    }
    return compare(six, overrides, str(six[0].with_name("compared"))).path


def test_equal_runs_differ_by_exactly_nothing(compared: Path) -> None:
    table = tables.read("differences", compared / "tables")
    assert len(table) > 50
    defined = table[table["difference"].notna()]
    assert set(defined["difference"]) == {0.0}
    # The six runs are of one model: what it completes greedily is the same by construction.
    same = table["why_untested"] == across_runs.SAME
    assert set(table.loc[same, "decoding"]) == {"greedy"}
    assert set(defined.loc[defined["paired"] & ~same, "p_holm"]) == {1.0}
    assert set(table.loc[~table["paired"], "setting"]) == {"unconditional"}
    assert "generic" not in set(table.loc[table["run_a"] == "f", "setting"])
    shifted = tables.read("shifts", compared / "tables")["shift"].dropna()
    assert len(shifted)
    assert set(shifted) == {0.0}


def test_the_levels_are_those_of_the_runs_own_tables(compared: Path, six: list[Path]) -> None:
    levels = tables.read("run_metrics", compared / "tables")
    traces = tables.read("traces", six[0] / "tables")
    generations = tables.read("generations", six[0] / "tables")
    prompts = tables.read("prompts", six[0] / "tables")
    joined = generations.merge(prompts, on="prompt_id").merge(traces, on="generation_id")
    part = joined[(joined["setting"] == "prefix") & (joined["decoding"] == "greedy")]
    keys = ["run", "setting", "decoding", "metric"]
    value = levels.set_index(keys)["value"].loc[("a", "prefix", "greedy", "ALS")]
    assert value == pytest.approx(part["longest_segment"].astype(float).mean())


def test_every_table_and_figure_and_page_is_there(compared: Path) -> None:
    for name in tables.OF_COMPARISON:
        tables.read(name, compared / "tables")
    names = ("levels", "scores", "differences", "trajectories", "shifts")
    assert {path.stem for path in (compared / "figures").glob("*.png")} == set(names)
    exported = {path.name for path in (compared / "report" / "tables").iterdir()}
    assert {"differences.csv", "differences.tex", "run_metrics.md", "shifts.csv"} <= exported
    front = (compared / "report" / "index.html").read_text("utf-8")
    assert 'href="tables/differences.tex"' in front
    differences, shifts, levels, caveats, trajectories = (
        tables.read(name, compared / "tables")
        for name in ("differences", "shifts", "run_metrics", "caveats", "trajectories")
    )
    given = courses_of(trajectories)
    sentences = answers(differences, caveats, given) + findings(differences, shifts, given, levels)
    assert len(sentences) > 5
    assert all(escape(sentence) in front for sentence in sentences)
    assert "may be told of Danish in particular" in front
    assert front.count("data:image/png;base64,") == len(names)
    for page in (compared / "report").glob("*.html"):
        text = page.read_text("utf-8")
        for remote in ('src="http', "src='http", 'src="//', "@import", "import('http"):
            assert remote not in text, f"{page.name}: {remote}"
    record = json.loads((compared / "run.json").read_text())
    assert len(record["compared"]) == 6
    assert record["stages"][NOTEBOOK]["seconds"] > 0


def test_the_setting_that_one_lacks_is_told(compared: Path) -> None:
    table = tables.read("caveats", compared / "tables").set_index("about")
    assert list(table.index) == ["settings"]
    assert table.loc["settings", "runs"].startswith("a, b, c, d, e: ")


def test_a_dry_run_says_which_runs_are_there_and_changes_nothing(
    tiny_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["compare", str(tiny_run), str(tmp_path / "none"), "--output", str(tmp_path / "out")]
    assert main([*given, "--dry-run"]) == 1
    told = capsys.readouterr().out
    assert f"{tiny_run} is there" in told
    assert f"missing {tmp_path / 'none'}: no run" in told
    copied = shutil.copytree(tiny_run, tmp_path / "copied")
    given[2] = str(copied)
    assert main([*given, "--dry-run"]) == 0
    assert "missing" not in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_one_run_is_refused_before_anything_runs(tiny_run: Path, tmp_path: Path) -> None:
    for given in ([tiny_run], []):
        with pytest.raises(ParameterError, match="two runs or more"):
            compare(given, {}, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_no_run_is_refused(tiny_run: Path, tmp_path: Path, compared: Path) -> None:
    with pytest.raises(RunError, match=r"no run \(it has no run.json"):
        compare([tiny_run, tmp_path], {}, str(tmp_path / "out"))
    with pytest.raises(RunError, match="a comparison, and no run"):
        compare([tiny_run, compared], {}, str(tmp_path / "out"))


def test_a_run_without_a_table_is_refused(tiny_run: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished"
    shutil.copytree(tiny_run, unfinished)
    (unfinished / "tables" / "matches.parquet").unlink()
    with pytest.raises(TableError, match="unfinished: the run has no table 'matches'"):
        compare([tiny_run, unfinished], {}, str(tmp_path / "out"))


@pytest.fixture
def copy(tiny_run: Path, tmp_path: Path) -> runs.RunFolder:
    return runs.RunFolder(shutil.copytree(tiny_run, tmp_path / "copy"))


@pytest.mark.parametrize(("stage", "table"), list(zip(runs.STAGES[:3], STAGE_TABLES, strict=True)))
@pytest.mark.parametrize("state", ["running", "failed", ""])
def test_a_run_that_is_not_finished_is_refused(
    tiny_run: Path, copy: runs.RunFolder, stage: str, table: str, state: str
) -> None:
    """Killed after a stage had begun anew, its table is of a parameter that it no longer names."""
    stages = copy.record["stages"]
    begun = stages.pop(stage)
    begun["made_from"]["parameters"] |= {"temperature": 0.9}
    if state:
        stages[stage] = begun | {"state": state}
    copy.update_record(stages=stages)
    told = f"copy: the stage that makes table '{table}' is not done; finish the run first"
    with pytest.raises(RunError, match=told):
        compare([tiny_run, copy.path], {}, str(copy.path.with_name("out")))
    with pytest.raises(RunError, match=told):  # as notebook 5 that is run by hand
        across_runs.read_runs([tiny_run, copy.path])


@pytest.mark.parametrize("content", ["{}", '{"stages": {}}'])
def test_a_record_of_nothing_is_no_run(tiny_run: Path, copy: runs.RunFolder, content: str) -> None:
    (copy.path / "run.json").write_text(content)
    with pytest.raises(RunError, match=r"copy: (no run|the stage that makes table 'prompts')"):
        compare([tiny_run, copy.path], {}, str(copy.path.with_name("out")))


def test_a_table_that_the_run_did_not_write_is_refused(
    tiny_run: Path, copy: runs.RunFolder
) -> None:
    spans = copy.read("spans")
    tables.write("spans", spans[1:], copy.tables)
    with pytest.raises(RunError, match="copy: table 'spans' is not as the run wrote it"):
        compare([tiny_run, copy.path], {}, str(copy.path.with_name("out")))


def test_a_run_at_which_a_process_is_at_work_is_refused(
    tiny_run: Path, copy: runs.RunFolder
) -> None:
    with (
        FileLock(run_lock(copy)),
        pytest.raises(RunError, match="copy: another process is running it now; wait for it"),
    ):
        compare([tiny_run, copy.path], {}, str(copy.path.with_name("out")))


def test_a_run_is_not_overwritten_by_a_comparison(six: list[Path]) -> None:
    with pytest.raises(RunError, match="a run; give another folder"):
        compare(six[:2], {}, str(six[0]))


def test_two_comparisons_do_not_write_into_one_folder(six: list[Path], tmp_path: Path) -> None:
    folder = runs.RunFolder(tmp_path / "out")
    folder.path.mkdir()
    with FileLock(run_lock(folder)), pytest.raises(RunError, match="another process"):
        compare(six[:2], {}, str(folder.path))
    assert not folder.record


def test_a_file_names_runs_and_folders_stand_in_their_place(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("runs: [outputs/x, outputs/y]\nmetrics: [FMR]\noutput: outputs/z\n")
    effective = effective_parameters([file], {}, None)
    assert effective["runs"] == ["outputs/x", "outputs/y"]
    assert (effective["metrics"], effective["output"]) == (["FMR"], "outputs/z")
    effective = effective_parameters([file, "outputs/p", "outputs/q"], {"seed": 3}, "outputs/o")
    assert effective["runs"] == ["outputs/p", "outputs/q"]
    assert (effective["seed"], effective["output"]) == (3, "outputs/o")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"metric": ["NVR"]}, "unknown parameter 'metric'; did you mean 'metrics'"),
        ({"metrics": ["NVRR"]}, "unknown metric 'NVRR'"),
        ({"propensity_metrics": ["ALS"]}, "ALS is not in"),
        ({"bootstrap_rounds": 0}, "must be at least 1"),
    ],
)
def test_a_wrong_parameter_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(PropMeError, match=message):
        effective_parameters([], given, None)


def test_the_demonstrations_comparisons_name_the_runs_of_its_sweeps() -> None:
    params = runs.project_root() / "params"
    for compared, swept in (
        ("compare-demo", "demo-continued"),
        ("compare-demo-second", "demo-continued-second"),
    ):
        made = [run.effective["output"] for run in planned_runs([params / f"{swept}.yaml"])]
        assert effective_parameters([params / f"{compared}.yaml"], {}, None)["runs"] == made
