"""Several runs out of files, sweeps and grids."""

import pytest
import yaml

from propme import runner
from propme.errors import InputError, ParameterError
from propme.runner import parse_grid, planned_runs


@pytest.fixture
def write(tmp_path):
    def written(name, **content):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    return written


def test_one_file_is_one_run_in_its_output(write):
    (run,) = planned_runs([write("a", output="outputs/x", seed=3)])
    assert (run.name, run.effective["output"], run.effective["seed"]) == ("x", "outputs/x", 3)
    (run,) = planned_runs([write("a", output="outputs/x")], output="outputs/y")
    assert run.effective["output"] == "outputs/y"


def test_files_are_runs_each_and_an_output_holds_them_all(write):
    files = [write("a", output="outputs/a"), write("b", output="outputs/b")]
    assert [r.effective["output"] for r in planned_runs(files)] == ["outputs/a", "outputs/b"]
    together = planned_runs(files, output="outputs/all")
    assert [r.effective["output"] for r in together] == ["outputs/all/a", "outputs/all/b"]


def test_a_grid_is_a_product_and_names_the_folders(write):
    grid = parse_grid(["temperature=0.7,1.0", "seed=0,1"])
    runs = planned_runs([write("a", output="o")], grid)
    assert [run.name for run in runs] == [
        "temperature=0.7,seed=0",
        "temperature=0.7,seed=1",
        "temperature=1.0,seed=0",
        "temperature=1.0,seed=1",
    ]
    assert runs[3].effective["output"] == "o/temperature=1.0,seed=1"
    assert (runs[3].effective["temperature"], runs[3].effective["seed"]) == (1.0, 1)


def test_a_sweep_lists_runs_which_may_have_names(write):
    sweep = [{"temperature": 0.7, "samples": 2}, {"name": "cold", "temperature": 1e-3}]
    runs = planned_runs([write("a", output="o", sweep=sweep)], {"seed": [4, 5]})
    assert [run.name for run in runs] == [
        "temperature=0.7,samples=2,seed=4",
        "temperature=0.7,samples=2,seed=5",
        "cold,seed=4",
        "cold,seed=5",
    ]
    assert "sweep" not in runs[0].effective


@pytest.mark.parametrize(
    ("value", "folder"),
    [
        ("models/step-100", "model=step-100"),
        ("a b&c", "model=a-b-c"),
        ("", "model=none"),
        ("GPT-2", "model=GPT-2"),
    ],
)
def test_a_value_is_a_part_of_a_folders_name(write, value, folder):
    first, _ = planned_runs([write("a", output="o")], {"model": [value, "other"]})
    assert first.name == folder


def test_numbers_that_differ_anywhere_have_folders_of_their_own(write):
    file = write("a", output="o")
    runs = planned_runs([file], parse_grid(["temperature=1,1.0000001,0.12345678,1e-3"]))
    assert [run.name.partition("=")[2] for run in runs] == ["1", "1.0000001", "0.12345678", "1e-3"]
    assert [run.effective["temperature"] for run in runs] == [1.0, 1.0000001, 0.12345678, 0.001]


def test_a_list_is_a_value_in_brackets():
    grid = parse_grid(["propensity_metrics=[NVR, FMR],[FMR]", "greedy=true,false"])
    assert grid == {"propensity_metrics": [["NVR", "FMR"], ["FMR"]], "greedy": [True, False]}


@pytest.mark.parametrize("text", ["seed", "seed=", "=1,2", "seed=[1", "seed=0b_"])
def test_what_is_no_grid_is_refused(text):
    with pytest.raises(ParameterError, match="grid"):
        parse_grid([text])


def test_a_file_builds_on_another(write):
    write("common", output="outputs/common", seed=5, samples=3, sweep=[{"top_p": 0.5}])
    (run,) = planned_runs([write("own", base="common.yaml", output="outputs/own", seed=6)])
    assert run.effective["seed"] == 6
    assert run.effective["samples"] == 3
    assert run.effective["output"] == "outputs/own/top_p=0.5"
    assert runner.effective_parameters([write("own", base="common.yaml")], {}, None)["seed"] == 5


@pytest.mark.parametrize(
    ("content", "grid", "fixed", "message"),
    [
        ({"sedd": 1}, {}, {}, r"a\.yaml: unknown parameter 'sedd'; did you mean 'seed'"),
        ({"sweep": [{"sedd": 1}]}, {}, {}, r"a\.yaml: unknown parameter 'sedd'"),
        ({"sweep": {"seed": 1}}, {}, {}, "sweep is a list of runs"),
        ({"sweep": [3]}, {}, {}, "3 is no mapping"),
        ({"sweep": [{"seed": 1}]}, {"seed": [1]}, {}, "in the sweep and in the grid"),
        ({}, {"sedd": [1]}, {}, "unknown parameter 'sedd'"),
        ({}, {"seed": ["x"]}, {}, "'seed' is a int, not 'x'"),
        ({}, {"seed": [-1]}, {}, "seed must be at least 0"),
        ({}, {"seed": [1, 2]}, {"seed": 3}, "cannot also be one for all"),
        ({}, {"output": ["a", "b"]}, {}, "output is the folder that holds them"),
        ({}, {"model": ["a/m", "b/m"]}, {}, "two runs would be written to .*model=m"),
        ({"base": "a.yaml"}, {}, {}, "must be another file"),
        ({"base": 3}, {}, {}, "must be another file"),
        ({"runs": ["x", "y"]}, {}, {}, r"propme compare .*a\.yaml"),
        ({"sweep": [{1: 2}]}, {}, {}, "{1: 2} is no mapping of parameters"),
        ({}, {"seed": ["2026-99-99"]}, {}, "'seed' is a int, not '2026-99-99'"),
        ({"output": "o\0"}, {}, {}, "'output' is 'o.x00', which holds a NUL"),
        ({"output": "o\nseed: 3"}, {}, {}, "signs that are not to be seen"),
        ({}, {"model": ["\ud800"]}, {}, r"'model' is '.ud800', which is no text"),
        ({}, {}, {"strata": ["a", "\udcff"]}, r"'strata' is '.udcff', which is no text"),
        ({"index": "https://[::1#x"}, {}, {}, "an address of an index is no URL"),
        *(
            ({"sweep": [{"name": name, "seed": 1}]}, {}, {}, "a run cannot be called")
            for name in ("..", ".", ".hidden", "report", "tables", "run.json", "a/../..")
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(write, content, grid, fixed, message):
    with pytest.raises(ParameterError, match=message):
        planned_runs([write("a", **content)], grid, fixed)


def test_files_that_would_be_hidden_or_mixed_up_are_refused(write):
    for name in (".hidden", "report"):
        files = [write(name, seed=1), write("b", seed=2)]
        with pytest.raises(ParameterError, match=f"a run cannot be called '{name}'"):
            planned_runs(files, output="outputs/all")


@pytest.mark.parametrize("output", ["o\0", "o\udcff", "o\n"])
def test_an_output_that_no_folder_can_have_is_refused(write, output):
    for files in ([write("a")], [write("a"), write("b")]):
        with pytest.raises(ParameterError, match="output"):
            planned_runs(files, output=output)


def test_a_base_that_is_not_there_is_named(write):
    with pytest.raises(InputError, match=r"gone\.yaml: cannot be read"):
        planned_runs([write("a", base="gone.yaml")])


def test_two_files_of_one_output_are_refused(write):
    files = [write("a", output="outputs/x"), write("b", output="outputs/./x")]
    with pytest.raises(ParameterError, match="two runs would be written to"):
        planned_runs(files)


def test_only_the_runs_that_are_named(write):
    files = [write("a", output="a", sweep=[{"name": "x", "seed": 1}, {"name": "y", "seed": 2}])]
    files += [write("b", output="b", sweep=[{"name": "y", "seed": 3}])]
    chosen = planned_runs(files, only=["y"])
    assert [run.effective["output"] for run in chosen] == ["a/y", "b/y"]
    assert len(planned_runs(files, only=["y", "x"])) == 3
    with pytest.raises(ParameterError, match="no run is called 'z'; they are x, y"):
        planned_runs(files, only=["x", "z"])
