"""How far runs are, as their folders tell; and several runs at a time."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from small_project import small_parameters, small_project

from propme import run as runs
from propme import runner
from propme.cli import main, running
from propme.errors import InputError
from propme.files import write_whole
from propme.runner import PlannedRun, Which, status
from propme.runner.locks import run_lock

DONE = {
    "state": "done",
    "seconds": 40.0,
    "made_from": {"parameters": {}, "files": {}, "tables": {}, "notebook": "", "code": ""},
    "tables": {},
    "executed": "",
}


def a_run(folder, stages, *, reported=False):
    run = runs.RunFolder(folder)
    run.update_record(parameters={"corpus": ""}, stages=stages)
    if reported:
        run.report.mkdir()
        (run.report / "index.html").write_text("front")
    return run


@pytest.mark.parametrize(
    ("stages", "reported", "expected"),
    [
        ({}, False, ("waiting", "", "0 of 4", 0)),
        (dict.fromkeys(runs.STAGES, DONE), True, ("done", "4_analysis", "4 of 4", 160)),
        (dict.fromkeys(runs.STAGES, DONE), False, ("stopped", "4_analysis", "4 of 4", 160)),
        ({"1_prompts": DONE}, False, ("stopped", "1_prompts", "1 of 4", 40)),
        (
            {"1_prompts": DONE, "2_generation": {"state": "running"}},
            False,
            ("stopped", "2_generation", "1 of 4", 40),
        ),
        (
            {"1_prompts": {"state": "failed", "error": "no"}},
            False,
            ("failed", "1_prompts", "0 of 4", 0),
        ),
    ],
)
def test_a_run_nobody_executes(tmp_path, stages, reported, expected):
    found = status.status_of(a_run(tmp_path / "r", stages, reported=reported), tmp_path)
    assert (found.state, found.stage, found.progress, found.seconds) == expected
    lacks_report = found.state == "stopped" and found.progress == "4 of 4"
    told = "its report is missing, or not whole; 'propme report' makes it again"
    assert found.failure == (told if lacks_report else "no" if found.state == "failed" else "")
    assert found.name == "r"


def test_a_run_that_is_executed_tells_how_far_its_stage_is(tmp_path):
    started = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    stages = {"1_prompts": DONE, "2_generation": {"state": "running", "started": started}}
    run = a_run(tmp_path / "r", stages)
    told = {"label": "generating", "done": 3, "total": 9, "unit": "completions", "note": ""}
    write_whole(run.progress, json.dumps(told))
    code = "from filelock import FileLock as L; import sys; l = L(sys.argv[1]); l.acquire()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; print('held', flush=True); input()", run_lock(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "held\n"
        found = status.status_of(run, tmp_path)
        other.communicate("\n")
    assert (found.state, found.stage) == ("running", "2_generation")
    assert found.progress == "1 of 4, generating 3/9"
    assert 340 <= found.seconds < 400
    assert status.status_of(run, tmp_path).state == "stopped"


def test_runs_are_found_in_folders_and_in_runs(tmp_path):
    for name in ("b/seed=1", "b/seed=0", "a", "a/sweep/x"):
        a_run(tmp_path / name, {})
    (tmp_path / "a" / "tables" / "odd").mkdir(parents=True)
    (tmp_path / "a" / "tables" / "odd" / "run.json").write_text("{}")
    found = [str(r.path.relative_to(tmp_path)) for r in status.runs_in(tmp_path)]
    assert found == ["a", "a/sweep/x", "b/seed=0", "b/seed=1"]
    with pytest.raises(InputError, match=r"no run\.json"):
        status.runs_in(tmp_path / "a" / "report")


def test_a_run_whose_record_is_damaged_hides_no_other(tmp_path, capsys):
    a_run(tmp_path / "good", dict.fromkeys(runs.STAGES, DONE), reported=True)
    for name, content in (("half", '{"parameters": '), ("odd", '{"stages": {"1_prompts": 3}}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(content)
    assert main(["status", str(tmp_path)]) == 0
    good, half, odd = capsys.readouterr().out.splitlines()[1:]
    assert good.startswith("good  done ")
    assert half.startswith("half  damaged ")
    assert "run.json: damaged" in half
    assert odd.endswith("remove the file to run all of it again")
    assert "stages.1_prompts is 3, not a mapping" in odd


def test_it_is_told_in_columns(tmp_path):
    rows = [
        status.Status("a", "done", "4_analysis", "4 of 4", 59.6, ""),
        status.Status("longer", "failed", "1_prompts", "0 of 4", 7300, "ValueError: x"),
    ]
    assert list(status.told(rows)) == [
        "run     state   stage       stages done  time",
        "a       done    4_analysis  4 of 4       60 s",
        "longer  failed  1_prompts   0 of 4       2.0 h  ValueError: x",
    ]


def test_of_several_runs_one_that_fails_stops_no_other(tmp_path):
    fails = "if seed == 1:\n    raise ValueError('on purpose')"
    project = small_project(tmp_path, prompts=fails)
    file = project / "p.yaml"
    file.write_text(yaml.safe_dump(small_parameters(project)))
    command = [sys.executable, "-m", "propme.cli", "run", str(file), "--grid", "seed=0,1"]
    done = subprocess.run(
        [*command, "--jobs", "2", "--until", "1"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "[seed=0] 1_prompts done in" in done.stdout
    assert "[seed=1] 1_prompts failed: ValueError: on purpose" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 of 2 runs failed")
    found = [status.status_of(r, project / "out") for r in status.runs_in(project / "out")]
    assert [(s.name, s.state, s.stage) for s in found] == [
        ("seed=0", "stopped", "1_prompts"),
        ("seed=1", "failed", "1_prompts"),
    ]
    assert found[1].failure == "1_prompts failed: ValueError: on purpose"
    assert "on purpose" in (project / "out" / "seed=1" / "1_prompts.ipynb").read_text()


def test_a_sweep_says_at_its_end_where_its_reports_are(tmp_path, capsys, monkeypatch):
    planned = [PlannedRun(f"seed={n}", {"output": str(tmp_path / f"seed={n}")}) for n in (0, 1)]
    a_run(tmp_path / "seed=0", dict.fromkeys(runs.STAGES, DONE), reported=True)
    a_run(tmp_path / "seed=1", {"1_prompts": {"state": "failed", "error": "no"}})
    monkeypatch.setattr(runner, "run_all", lambda *_: planned[1:])
    assert running._run_several(planned, Which(), 1) == 1
    assert capsys.readouterr().out.splitlines()[3:] == [
        f"The report is {tmp_path / 'seed=0' / 'report' / 'index.html'}",
        "1 of 2 runs failed; the same command goes on with them alone",
    ]
