"""Which stages of a run are executed, what is recorded of them, and what stops them."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import yaml
from filelock import FileLock
from small_project import InsteadOfNotebooks, copied_notebooks, small_parameters, small_project

from propme import report, runner
from propme import run as runs
from propme.errors import ParameterError, RunError
from propme.runner import code, running, shards, stages, status
from propme.runner.locks import run_lock
from propme.runner.running import Which

ALL = list(runs.STAGES)


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
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "a"}\n')
    return path


@pytest.fixture
def asked(tmp_path, corpus):
    return {"output": str(tmp_path / "out"), "corpus": str(corpus), "heldout": "", "human": ""}


def record_of(asked):
    return runs.open_run(asked["output"]).record


def test_a_rerun_does_nothing_while_nothing_has_changed(notebooks, asked):
    folder = runner.run([], asked)
    assert notebooks.new() == ALL
    written = (folder.report / "index.html").stat().st_mtime_ns
    runner.run([], asked)
    assert notebooks.new() == []
    assert (folder.report / "index.html").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ({"bootstrap_rounds": 5}, ALL[3:]),
        ({"n_varied": 3}, ALL[2:]),
        ({"temperature": 0.5}, ALL[1:]),
        ({"n_prompts": 7}, ALL),
        ({"seed": 7}, ALL),
        ({"workers": 2, "concurrency": 3, "patience": 1}, []),
        ({"time_limit": 3}, []),
    ],
)
def test_a_parameter_has_its_stage_run_again_and_all_after_it(notebooks, asked, changed, again):
    runner.run([], asked)
    notebooks.new()
    runner.run([], asked | changed)
    assert notebooks.new() == again


def test_another_cache_makes_no_stage_stale(notebooks, asked, tmp_path):
    runner.run([], asked)
    notebooks.new()
    runner.run([], asked | {"cache": str(tmp_path / "elsewhere")})
    assert notebooks.new() == []


@pytest.mark.parametrize(
    ("damage", "again"),
    [
        (lambda run, _: (run.tables / "traces.parquet").unlink(), ALL[2:]),
        (lambda run, _: (run.tables / "prompts.parquet").write_bytes(b"half"), ALL),
        (lambda run, _: run.notebook(ALL[3]).unlink(), ALL[3:]),
        (lambda run, _: run.notebook(ALL[2]).write_text('{"cells": [1]}'), ALL[2:]),
        (lambda run, _: run.notebook(ALL[3]).write_bytes(b"half"), ALL[3:]),
        (lambda run, _: (run.figures / f"{ALL[1]}.png").unlink(), ALL[1:]),
        (lambda run, _: (run.figures / f"{ALL[3]}.png").write_text("forged"), ALL[3:]),
        (lambda _, corpus: corpus.write_text('{"text": "b"}\n'), ALL),
        (lambda run, _: (run.report / "index.html").unlink(), []),
    ],
)
def test_what_is_no_longer_whole_or_the_same_is_made_again(notebooks, asked, corpus, damage, again):
    folder = runner.run([], asked)
    notebooks.new()
    damage(folder, corpus)
    runner.run([], asked)
    assert notebooks.new() == again
    assert (folder.report / "index.html").is_file()


def test_what_is_no_longer_whole_is_told(notebooks, asked, capsys):
    folder = runner.run([], asked)
    folder.notebook(ALL[2]).write_text("half")
    (folder.figures / f"{ALL[3]}.png").unlink()
    capsys.readouterr()
    runner.run([], asked)
    told = "3_tracing ... (its executed notebook is not as it was written)"
    assert told in capsys.readouterr().out
    (folder.figures / f"{ALL[3]}.png").unlink()
    runner.run([], asked)
    assert f"4_analysis ... (figure {ALL[3]}.png is missing)" in capsys.readouterr().out


def test_figures_whose_hash_was_not_kept_need_only_be_there(notebooks, asked):
    folder = runner.run([], asked)
    entries = folder.record["stages"]
    for entry in entries.values():
        entry["figures"] = list(entry["figures"])  # as in schema 1
    folder.update_record(stages=entries)
    notebooks.new()
    (folder.figures / f"{ALL[0]}.png").write_text("drawn again")
    runner.run([], asked)
    assert notebooks.new() == []
    (folder.figures / f"{ALL[2]}.png").unlink()
    runner.run([], asked)
    assert notebooks.new() == ALL[2:]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (f"{ALL[1]}.ipynb", "2_generation: its executed notebook is not as it was written"),
        (f"figures/{ALL[3]}.png", f"4_analysis: figure {ALL[3]}.png is not as it was written"),
        ("tables/spans.parquet", "3_tracing: table spans is not as it was written"),
    ],
)
def test_no_report_is_made_of_what_is_no_longer_whole(notebooks, asked, path, told):
    folder = runner.run([], asked)
    (folder.path / path).write_text("forged")
    with pytest.raises(RunError, match=f"out: {told}; 'propme run' makes it again"):
        running.report_again(folder)
    assert (folder.report / "index.html").read_text() == "front"


def test_a_file_counts_by_its_content_wherever_it_lies(notebooks, asked, corpus, tmp_path):
    runner.run([], asked)
    notebooks.new()
    moved = shutil.move(corpus, tmp_path / "moved.jsonl")
    runner.run([], asked | {"corpus": str(moved)})
    assert notebooks.new() == []


def test_a_notebook_counts_by_its_cells(notebooks, asked, tmp_path, monkeypatch):
    monkeypatch.chdir(copied_notebooks(tmp_path / "project"))
    runner.run([], asked)
    notebooks.new()
    path = runs.notebook_path(ALL[2])
    content = json.loads(path.read_text("utf-8"))
    content["metadata"]["opened_with"] = "an editor"
    content["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
    path.write_text(json.dumps(content), "utf-8")
    runner.run([], asked)
    assert notebooks.new() == []
    content["cells"][0]["source"] = "# Another heading"
    path.write_text(json.dumps(content), "utf-8")
    runner.run([], asked)
    assert notebooks.new() == ALL[2:]


def test_code_counts_where_a_notebook_imports_it(tmp_path, monkeypatch):
    copy = shutil.copytree(code._PACKAGE, tmp_path / "propme")
    monkeypatch.setattr(code, "_PACKAGE", copy)

    def hashes():
        code._hash_of.cache_clear()
        code._imports_of.cache_clear()
        paths = [runs.notebook_path(stage) for stage in ALL]
        return [code.code_of_notebook(p, without_showing=p != paths[-1]) for p in paths]

    before = hashes()
    for name in ("cli/running.py", "runner/running.py"):
        (copy / name).write_text("changed = 1\n")
    compiled = copy / "index" / "__pycache__" / "kernels.find-12.py311.nbi"
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(b"numba's")
    assert hashes() == before
    with (copy / "strength.py").open("a") as file:  # imported by notebook 4 alone
        file.write("# changed\n")
    strength = hashes()
    assert [a == b for a, b in zip(before, strength, strict=True)] == [True, True, True, False]
    with (copy / "figures.py").open("a") as file:  # all draw; only what the last draws counts
        file.write("# changed\n")
    drawn = hashes()
    assert [a == b for a, b in zip(strength, drawn, strict=True)] == [True, True, True, False]
    with (copy / "files.py").open("a") as file:  # of all, by way of others
        file.write("# changed\n")
    assert not set(hashes()) & set(strength)
    code._hash_of.cache_clear()
    code._imports_of.cache_clear()


def test_a_failed_stage_stops_the_run_and_is_where_the_next_begins(notebooks, asked, capsys):
    notebooks.fails = {ALL[1]: RunError("2_generation failed: ValueError: no\nThe traceback is")}
    with pytest.raises(RunError, match="ValueError: no"):
        runner.run([], asked)
    assert notebooks.new() == ALL[:2]
    entries = record_of(asked)["stages"]
    assert entries[ALL[1]]["state"] == "failed"
    assert entries[ALL[1]]["error"] == "2_generation failed: ValueError: no"
    assert set(entries) == set(ALL[:2])
    notebooks.fails = {}
    capsys.readouterr()
    runner.run([], asked)
    assert notebooks.new() == ALL[1:]
    told = capsys.readouterr().out
    assert "Going on with the run" in told
    assert "1_prompts is done" in told
    assert "2_generation ... (it failed)" in told


def test_a_stage_that_was_killed_runs_again(notebooks, asked):
    notebooks.fails = {ALL[2]: KeyboardInterrupt()}  # as abrupt as can be: nothing is noted of it
    with pytest.raises(KeyboardInterrupt):
        runner.run([], asked)
    assert record_of(asked)["stages"][ALL[2]]["state"] == "running"
    notebooks.new(), notebooks.fails.clear()
    runner.run([], asked)
    assert notebooks.new() == ALL[2:]


def test_force_from_and_until(notebooks, asked):
    runner.run([], asked, which=Which(last=ALL[1]))
    assert notebooks.new() == ALL[:2]
    with pytest.raises(RunError, match="3_tracing is not done here"):
        runner.run([], asked, which=Which(first=ALL[3]))
    runner.run([], asked | {"n_prompts": 1}, which=Which(first=ALL[2]))
    assert notebooks.new() == ALL[2:]
    runner.run([], asked, which=Which(force=True, first=ALL[2], last=ALL[2]))
    assert notebooks.new() == ALL[2:3]
    runner.run([], asked)
    assert notebooks.new() == ALL[3:]
    with pytest.raises(ParameterError, match="there is no stage to run"):
        Which(first=ALL[2], last=ALL[1])


@pytest.mark.parametrize("text", ["3", "tracing", "3_tracing"])
def test_a_stage_is_named_in_three_ways(text):
    assert runner.stage_named(text) == "3_tracing"
    with pytest.raises(ParameterError, match="'trace' is no stage"):
        runner.stage_named("trace")


def test_the_folder_of_another_run_is_refused_and_kept(notebooks, asked, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "other"}\n')
    folder = runner.run([], asked)
    before = {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()}
    with pytest.raises(RunError, match=r"holds another run: its corpus is .*corpus\.jsonl"):
        runner.run([], asked | {"corpus": str(other)})
    with pytest.raises(RunError, match=r"its model is 'demo', not 'mine'"):
        runner.run([], asked | {"model": "mine"})
    assert {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()} == before
    notebooks.new()
    runner.run([], asked | {"corpus": str(other)}, which=Which(force=True))
    assert notebooks.new() == ALL


def test_two_processes_do_not_run_one_run(notebooks, asked, tmp_path):
    folder = runs.RunFolder(tmp_path / "out")
    folder.path.mkdir()
    holds = "from filelock import FileLock as L; import sys; l = L(sys.argv[1]); l.acquire()"
    waits = "print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{holds}; {waits}", str(run_lock(folder))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match="another process is running it now"):
            runner.run([], asked)
        other.communicate("\n")
    assert notebooks.new() == []
    runner.run([], asked)
    assert notebooks.new() == ALL


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run.json"),
        RunError(f"2_generation failed: OSError: [Errno 28] {os.strerror(errno.ENOSPC)}"),
    ],
)
def test_a_full_disk_is_told_as_that(notebooks, asked, error):
    notebooks.fails = {ALL[1]: error}
    with pytest.raises(RunError, match=r"disk is full; what is finished is kept: make room"):
        runner.run([], asked)
    notebooks.fails = {}
    notebooks.new()
    runner.run([], asked)
    assert notebooks.new() == ALL[1:]


def test_temporary_files_of_a_killed_process_are_removed(notebooks, asked):
    folder = runner.run([], asked)
    left = [folder.tables / ".prompts-abc.tmp", folder.path / ".run.json-ab.tmp"]
    of_another_run = folder.path / "seed=1" / ".run.json-cd.tmp"
    of_another_run.parent.mkdir()
    for path in (*left, of_another_run):
        path.write_bytes(b"half")
    runner.run([], asked)
    assert [path for path in (*left, of_another_run) if path.exists()] == [of_another_run]


def test_figures_and_pages_of_an_earlier_run_of_a_stage_do_not_stay(notebooks, asked):
    folder = runner.run([], asked)
    (folder.figures / "mine.png").write_text("kept")
    outside = folder.path.parent / "outside.png"
    outside.write_text("kept, whatever the record says")
    stages = folder.record["stages"]
    stages[ALL[3]]["figures"] |= {"gone_now.png": "", "../../outside.png": ""}
    (folder.figures / "gone_now.png").write_text("of another parameter")
    (folder.report / "old.html").write_text("of another version")
    files = folder.record["report"]["files"] | {"old.html": "", "../../outside.png": ""}
    folder.update_record(stages=stages, report={"made_from": "", "files": files})
    runner.run([], asked | {"bootstrap_rounds": 5})
    assert {p.stem for p in folder.figures.iterdir()} == {*ALL, "mine"}
    assert [p.name for p in folder.report.iterdir()] == ["index.html"]
    assert outside.is_file()
    assert folder.record["report"]["files"].keys() == {"index.html"}
    assert folder.record["stages"][ALL[3]]["figures"].keys() == {f"{ALL[3]}.png"}


def test_a_report_that_is_no_longer_whole_is_made_again(notebooks, asked):
    folder = runner.run([], asked)
    (folder.report / "index.html").write_text("damaged")
    runner.run([], asked)
    assert (folder.report / "index.html").read_text() == "front"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_report_that_cannot_be_made_takes_no_other_away(notebooks, asked, monkeypatch, error):
    folder = runner.run([], asked)
    recorded = folder.record["report"]

    def fails(*given):
        write_front_page(*given)
        (given[2] / "index.html").write_text("half")
        raise error

    monkeypatch.setattr(report, "write_report", fails)
    with pytest.raises((RunError, KeyboardInterrupt)):
        running.report_again(folder)
    assert (folder.report / "index.html").read_text() == "front"
    assert folder.record["report"] == recorded
    assert not (folder.path / ".report-making").exists()


def test_a_report_of_which_a_part_is_in_its_place_is_no_whole_one(notebooks, asked, monkeypatch):
    def write_pages(*given):
        write_front_page(*given)
        (given[2] / "viewer.html").write_text("viewer")

    monkeypatch.setattr(report, "write_report", write_pages)
    folder = runner.run([], asked)
    replace = os.replace

    def killed(source, target):
        if str(target).endswith("viewer.html"):
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            running.report_again(folder)
    assert [p.name for p in folder.report.iterdir()] == ["index.html"]
    found = status.status_of(folder, folder.path.parent)
    assert (found.state, found.progress) == ("stopped", "4 of 4")
    assert found.failure == "its report is missing, or not whole; 'propme report' makes it again"
    notebooks.new()
    runner.run([], asked)
    assert notebooks.new() == []
    assert {p.name for p in folder.report.iterdir()} == {"index.html", "viewer.html"}
    assert status.status_of(folder, folder.path.parent).state == "done"


def test_a_report_is_not_made_while_another_process_is_at_work(notebooks, asked):
    folder = runner.run([], asked)
    (folder.report / "index.html").unlink()
    with (
        FileLock(run_lock(folder)),
        pytest.raises(RunError, match="another process is running it now"),
    ):
        running.report_again(folder)
    assert running.report_again(folder).read_text() == "front"
    assert folder.record["report"]["files"].keys() == {"index.html"}


def test_a_record_says_what_each_stage_was_made_from_and_took(notebooks, asked):
    runner.run([], asked)
    record = record_of(asked)
    assert record["parameters"]["corpus"] == asked["corpus"]
    assert record["seeds"] == {"seed": 0}
    assert record["packages"]["numpy"]
    entry = record["stages"][ALL[2]]
    assert entry["seconds"] == 2.0
    assert entry["peak_memory_bytes"] == 3_000_000
    assert set(entry["made_from"]["tables"]) == {"prompts", "generations", "extraction"}
    assert "output" not in entry["made_from"]["parameters"]
    assert set(entry["tables"]) == {"traces", "spans", "matches", "variants"}
    assert len(entry["made_with"]["git"].get("commit", "0" * 40)) == 40


def test_a_damaged_record_is_told(notebooks, asked):
    folder = runner.run([], asked)
    (folder.path / "run.json").write_text('{"stages": ')
    with pytest.raises(RunError, match=r"run\.json: damaged .*remove the file"):
        runner.run([], asked)


def test_paths_are_written_as_others_can_read_them(monkeypatch, tmp_path):
    root = runs.project_root()
    assert runs.portable(str(root / "outputs" / "demo")) == "outputs/demo"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert runs.portable(str(tmp_path / "model")) == "~/model"
    assert runs.resolve("~/model") == tmp_path / "model"
    assert runs.portable("/elsewhere/model") == "/elsewhere/model"
    assert runs.portable("organisation/model") == "organisation/model"


def test_a_share_of_tracing_needs_completions(notebooks, asked):
    effective = runner.effective_parameters([], asked, None)
    with pytest.raises(RunError, match="there is no run here"):
        shards.trace_shard(effective, (1, 2))
    runner.run([], asked)
    shards.trace_shard(effective, (1, 2))  # all is traced, and no index is opened
    assert stages.why_again(ALL[2], effective, runs.open_run(asked["output"])) == ""


def test_a_share_of_another_runs_tracing_is_refused(notebooks, asked, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "other"}\n')
    runner.run([], asked, which=Which(last=ALL[1]))
    for changed in ({"corpus": str(other)}, {"model": "mine"}):
        effective = runner.effective_parameters([], asked | changed, None)
        with pytest.raises(RunError, match=f"holds another run: its {next(iter(changed))} is "):
            shards.trace_shard(effective, (1, 2))


def run_in(project, *arguments, **options):
    """A run of a small project in a process of its own."""
    file = project / "p.yaml"
    file.write_text(yaml.safe_dump(small_parameters(project) | options))
    command = [sys.executable, "-m", "propme.cli", "run", str(file), *arguments]
    return subprocess.Popen(
        command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_process_that_is_killed_is_told_as_that(tmp_path):
    project = small_project(tmp_path, prompts="import os; os.kill(os.getpid(), 9)")
    process = run_in(project)
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "1_prompts: the process that ran it died, most likely killed for want of memory" in told
    assert "Traceback" not in told
    entry = json.loads((project / "out" / "run.json").read_text())["stages"]["1_prompts"]
    assert entry["state"] == "failed"


def test_a_run_stops_at_its_time_limit_and_shows_where_it_was(tmp_path):
    project = small_project(tmp_path, prompts="import time; time.sleep(600)")
    begun = time.monotonic()
    process = run_in(project, time_limit=2 / 3600)
    told, _ = process.communicate(timeout=300)
    assert time.monotonic() - begun < 300  # not the 600 s of the notebook
    assert process.returncode == 1
    assert "1_prompts was stopped: the run's time_limit is reached" in told
    assert "time.sleep(600)" in (project / "out" / "1_prompts.ipynb").read_text()


def test_a_kernel_that_outlives_its_runner_is_waited_for(tmp_path):
    """The runner is killed while the notebook writes; the next one finds nobody else at work."""
    project = small_project(
        tmp_path,
        prompts="import os, pathlib, time\nwhere = pathlib.Path('kernel')\n"
        "if not where.exists():\n    where.write_text(str(os.getpid())); time.sleep(600)",
    )
    process = run_in(project, "--until", "1")
    for _ in range(2000):
        if (project / "kernel").exists() and (project / "kernel").read_text():
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    kernel = int((project / "kernel").read_text())
    again = run_in(project, "--until", "1")
    told, _ = again.communicate(timeout=300)
    assert again.returncode == 0, told
    assert "1_prompts ... (it was stopped)" in told
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)
    executed = (project / "out" / "1_prompts.ipynb").read_text()
    assert str(project) not in executed
