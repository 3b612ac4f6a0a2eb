"""Scripts of Slurm arrays, run one task after the other without Slurm."""

import os
import shlex
import shutil
import subprocess

import pytest
import yaml

from propme.cli import main
from propme.errors import InputError, ParameterError
from propme.runner import PlannedRun, planned_runs
from propme.runner.slurm import SlurmSettings, write_scripts


@pytest.fixture
def planned(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump({"output": str(tmp_path / "runs")}))
    return planned_runs([file], {"temperature": [0.7, 1.0], "seed": [0, 1]})


def commands(script, n_tasks, root):
    """What each task of an array would run."""
    told = []
    for task in range(1, n_tasks + 1):
        environment = {"SLURM_ARRAY_TASK_ID": str(task), "PROPME": "echo", "PROPME_ROOT": str(root)}
        done = subprocess.run(
            ["bash", str(script)],  # noqa: S607
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout.strip())
    return told


def test_each_script_is_right_bash_and_runs_what_it_says(planned, tmp_path):
    scripts = write_scripts(planned, tmp_path / "a b", SlurmSettings(shards=3))
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)  # noqa: S607
    prompts, generate, trace, merge, submit = scripts
    folder = tmp_path / "a b" / "runs"
    for script, arguments in (
        (prompts, "--until 1"),
        (generate, "--from 2 --until 2"),
        (merge, "--from 3"),
    ):
        assert "#SBATCH --array=1-4\n" in script.read_text()
        assert commands(script, 4, tmp_path) == [
            f"run {folder}/{n:04d}.yaml {arguments}" for n in range(1, 5)
        ]
    assert "#SBATCH --array=1-12\n" in trace.read_text()
    assert commands(trace, 12, tmp_path) == [
        f"run {folder}/{n:04d}.yaml --shard {k}/3" for n in range(1, 5) for k in range(1, 4)
    ]
    assert "bash" in submit.read_text()


def test_the_parameters_of_each_run_are_written_out(planned, tmp_path):
    write_scripts(planned, tmp_path / "scripts", SlurmSettings())
    files = sorted((tmp_path / "scripts" / "runs").iterdir())
    assert [planned_runs([f])[0].effective for f in files] == [run.effective for run in planned]


def contents(folder):
    return {p: (p.read_bytes(), p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("runs", "settings", "named"),
    [
        (slice(1), SlurmSettings(), "generate.sbatch"),  # fewer tasks: arrays of 1-1, not 1-4
        (slice(None, None, -1), SlurmSettings(), "runs/0001.yaml"),  # the same in another order
        (slice(None), SlurmSettings(shards=9), "trace.sbatch"),
    ],
)
def test_scripts_of_another_batch_stay_as_its_queued_tasks_read_them(
    planned, tmp_path, runs, settings, named
):
    folder = tmp_path / "scripts"
    write_scripts(planned, folder, SlurmSettings())
    before = contents(folder)
    with pytest.raises(InputError, match=rf"another batch \({named}\).*--scripts"):
        write_scripts(planned[runs], folder, settings)
    assert contents(folder) == before
    write_scripts(planned[runs], tmp_path / "others", settings)


def test_the_very_same_scripts_are_written_again(planned, tmp_path):
    folder = tmp_path / "scripts"
    write_scripts(planned, folder, SlurmSettings())
    before = contents(folder)
    (folder / "logs" / "propme-prompts-1-1.txt").write_text("done")
    (folder / "submit.sh").unlink()  # as after a kill
    write_scripts(planned, folder, SlurmSettings())
    assert {path: found for path, found in contents(folder).items() if path in before} == before


def test_runs_beyond_those_of_a_batch_are_another_batch_too(planned, tmp_path):
    """Left over where its scripts were removed and the parameters were not."""
    folder = tmp_path / "scripts"
    (folder / "runs").mkdir(parents=True)
    (folder / "runs" / "0009.yaml").write_text("seed: 1\n")
    with pytest.raises(InputError, match="0009"):
        write_scripts(planned, folder, SlurmSettings())


@pytest.mark.parametrize(("shards", "told"), [(500, False), (501, True)])
def test_an_array_beyond_the_default_of_slurm_is_told(tmp_path, capsys, shards, told):
    """``MaxArraySize`` is 1001, and an index must be below it: two runs have 1000 or 1002 tasks."""
    file = tmp_path / "p.yaml"
    file.write_text("output: outputs/x\n")
    options = ["--scripts", str(tmp_path / "scripts"), "--shards", str(shards)]
    assert main(["slurm", str(file), "--grid", "seed=0,1", *options]) == 0
    printed = capsys.readouterr().out
    assert ("Beware: the array of traces has 1,002 tasks" in printed) == told


def test_only_what_is_asked_for_is_asked_of_slurm(planned, tmp_path):
    plain = write_scripts(planned, tmp_path / "plain", SlurmSettings())
    options = {
        line for s in plain for line in s.read_text().splitlines() if line.startswith("#SBATCH")
    }
    kinds = {line.split()[1].partition("=")[0] for line in options}
    assert kinds == {"--job-name", "--array", "--output", "--gpus"}
    settings = SlurmSettings(gpu="--gres=gpu:a100:1 -p 'big one'", cpu="-c 16", at_most=5)
    prompts, generate, trace, merge, _ = write_scripts(planned, tmp_path / "asked", settings)
    assert "#SBATCH --gres=gpu:a100:1 -p 'big one'\n" in generate.read_text()
    for script in (prompts, trace, merge):
        assert "#SBATCH -c 16\n" in script.read_text()
        assert "%5\n" in script.read_text()


def test_submitting_chains_the_arrays(planned, tmp_path):
    """With an ``sbatch`` that counts and tells what it was given."""
    *_, submit = write_scripts(planned, tmp_path / "scripts", SlurmSettings())
    fake = tmp_path / "bin" / "sbatch"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/bash\necho "$*" >> {tmp_path}/log\nwc -l < {tmp_path}/log\n')
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", submit, "--account=me"], env=environment, check=True)  # noqa: S607
    log = (tmp_path / "log").read_text().splitlines()
    scripts = tmp_path / "scripts"
    assert log == [
        f"--parsable --account=me {scripts}/prompts.sbatch",
        # aftercorr alone leaves a task pending for ever if the one before it fails, and trace waits
        # for it.
        "--parsable --dependency=aftercorr:1 --kill-on-invalid-dep=yes --account=me"
        f" {scripts}/generate.sbatch",
        f"--parsable --dependency=afterany:2 --account=me {scripts}/trace.sbatch",
        f"--parsable --dependency=afterany:3 --account=me {scripts}/merge.sbatch",
    ]


def test_the_command_writes_them(tmp_path, capsys):
    file = tmp_path / "p.yaml"
    file.write_text("output: outputs/x\n")
    scripts = tmp_path / "scripts"
    grid = ["--grid", "seed=0,1", "--grid", "samples=1,2,3"]
    options = ["--scripts", str(scripts), "--cpu=--cpus-per-task=4", "--shards", "5"]
    assert main(["slurm", *grid, str(file), *options]) == 0
    assert capsys.readouterr().out.startswith("6 runs; submit them")
    assert "#SBATCH --cpus-per-task=4\n" in (scripts / "trace.sbatch").read_text()
    assert "#SBATCH --array=1-30\n" in (scripts / "trace.sbatch").read_text()
    assert (scripts / "submit.sh").is_file()


def test_paths_are_absolute_and_reach_bash_and_sbatch_as_they_are(
    planned, tmp_path, monkeypatch, capsys
):
    """Below the home folder, with all that a shell or sbatch would read as something else."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "a 'b' \"c\" #d $e %f (ø);"
    prompts, *_, submit = write_scripts(planned[:1], folder, SlurmSettings())
    assert commands(prompts, 1, tmp_path) == [f"run {folder}/runs/0001.yaml --until 1"]
    assert f"folder='{tmp_path}/a " in submit.read_text()
    (line,) = [x for x in prompts.read_text().splitlines() if x.startswith("#SBATCH --output=")]
    # sbatch reads a line as a shell does that expands nothing: quotes, backslashes, comments. In
    # the name of a log "%%" stands for "%".
    (option,) = shlex.split(line.removeprefix("#SBATCH "), comments=True)
    assert option == f"--output={folder}/logs/".replace("%", "%%") + "%x-%A-%a.txt"
    file = tmp_path / "p.yaml"
    shutil.rmtree(folder)
    assert main(["slurm", str(file), "--scripts", str(folder)]) == 0
    hint = capsys.readouterr().out.splitlines()[-1]
    assert shlex.split(hint) == ["bash", str(submit)]


def test_the_command_may_lie_in_a_folder_with_a_space(planned, tmp_path):
    prompts, *_ = write_scripts(planned[:1], tmp_path / "scripts", SlurmSettings())
    command = tmp_path / "my tools" / "propme"
    command.parent.mkdir()
    command.write_text('#!/bin/bash\necho "it: $1"\n')
    command.chmod(0o755)
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "1", "PROPME": str(command)}
    done = subprocess.run(
        ["bash", str(prompts)],  # noqa: S607
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "it: run\n"


@pytest.mark.parametrize("name", ["a\nb", "a\\b"])
def test_a_name_that_sbatch_cannot_be_told_is_refused(planned, tmp_path, name):
    with pytest.raises(InputError, match="choose a simpler folder"):
        write_scripts(planned, tmp_path / name, SlurmSettings())
    assert not list(tmp_path.glob("a*"))


def test_options_of_sbatch_stand_on_one_line():
    with pytest.raises(ParameterError, match="--cpu: options of sbatch stand on one line"):
        SlurmSettings(cpu="-c 4\nrm -r x")


@pytest.mark.parametrize("options", ["a100", "gpus=1"])
def test_what_sbatch_would_not_take_for_an_option_is_refused(options):
    with pytest.raises(ParameterError, match=r"--gpu: .* is no option of sbatch"):
        SlurmSettings(gpu=options)


def test_a_name_adds_nothing_to_the_parameters(planned, tmp_path):
    run = planned[0]
    named = PlannedRun("a\nseed: 9\nx", run.effective | {"model": "a\nseed: 9"})
    write_scripts([named], tmp_path / "scripts", SlurmSettings())
    written = yaml.safe_load((tmp_path / "scripts" / "runs" / "0001.yaml").read_text())
    assert written == named.effective


def test_a_file_is_no_folder(planned, tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(InputError, match="name a folder"):
        write_scripts(planned, tmp_path / "x", SlurmSettings())
