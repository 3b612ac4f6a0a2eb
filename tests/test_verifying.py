"""A run against its record: what differs, what is missing, what is no part of it."""

import json
import shutil
from dataclasses import replace

import pytest
from helpers import generation
from small_project import InsteadOfNotebooks

from propme import analysis, report, runner, tables
from propme.cli import main
from propme.corpus import Corpus
from propme.errors import MetricError, RunError
from propme.files import content_hash, sha256_of
from propme.index import Tokenizer, build_index
from propme.run import RunFolder, index_hash
from propme.runner import running
from propme.runner.verifying import verify


def write_pages(_, stages, report):
    (report / "tables").mkdir(parents=True)
    for name in ("index.html", "tables/metrics.csv"):
        (report / name).write_text(name)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of tables without a row."""
    folder = tmp_path_factory.mktemp("finished")
    corpus = folder / "corpus.jsonl"
    corpus.write_text('{"text": "a"}\n')
    asked = {"corpus": str(corpus), "heldout": "", "human": "", "cache": str(folder / "cache")}
    index = build_index(Corpus([corpus]), Tokenizer.load("bytes"), folder / "index")
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    asked |= {"model": str(model)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "execute", InsteadOfNotebooks())
        patch.setattr(running, "needs_of", lambda *_: [])
        patch.setattr(report, "write_report", write_pages)
        run = runner.run([], asked | {"output": str(folder / "out")})
    hashes = {corpus: sha256_of(corpus), model: content_hash(model), index: index_hash(index)}
    inputs = {path.stem: {"path": str(path), "sha256": sha256} for path, sha256 in hashes.items()}
    run.update_record(inputs=inputs | {"tokenizer": {"path": "bytes", "sha256": "0"}})
    return run


@pytest.fixture(autouse=True)
def nothing_to_measure(monkeypatch):
    """Of tables without a row no metric can be computed; `test_run` verifies a whole run."""

    def measure(*_):
        raise MetricError("no rows")

    monkeypatch.setattr(analysis, "measure", measure)


@pytest.fixture
def copy(finished, tmp_path):
    return RunFolder(shutil.copytree(finished.path, tmp_path / "copy"))


def problems(run):
    found = {f.what: f.problem for f in verify(run) if f.problem}
    return {what: problem for what, problem in found.items() if what != "metrics"}


def changed(run, change):
    """The run with another record: ``change`` is given it to change."""
    record = json.loads((run.path / "run.json").read_text())
    change(record)
    (run.path / "run.json").write_text(json.dumps(record))
    return run


def test_a_run_as_it_was_written_differs_in_nothing(copy):
    told = [finding.told() for finding in verify(copy)]
    assert problems(copy) == {}
    for expected in (
        "run.json: contradicts itself in nothing",
        "table prompts: the same",
        "notebook 3_tracing: the same",
        "figure 1_prompts.png: the same",
        "report index.html: the same",
        "report tables/metrics.csv: the same",
        "corpus: the same",
        "files of the index: whole and right",
    ):
        assert expected in told


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("tables/spans.parquet", "table spans"),
        ("4_analysis.ipynb", "notebook 4_analysis"),
        ("figures/2_generation.png", "figure 2_generation.png"),
        ("report/index.html", "report index.html"),
        ("report/tables/metrics.csv", "report tables/metrics.csv"),
    ],
)
def test_a_file_that_is_another_or_missing_is_named(copy, path, what):
    (copy.path / path).write_bytes(b"other")
    assert problems(copy) == {what: "not as it was written"}
    (copy.path / path).unlink()
    assert problems(copy) == {what: "missing"}


@pytest.mark.parametrize(
    "path",
    ["figures/more.png", "report/leaks.html", "report/tables/x.csv", "tables/x.parquet", "5.ipynb"],
)
def test_a_file_that_no_stage_has_written_is_named(copy, path):
    (copy.path / path).write_text("foreign")
    (copy.path / "figures" / ".hidden").write_text("of a file manager")
    (copy.path / "notes.txt").write_text("of somebody who reads")
    assert problems(copy) == {path: "not of this run: no stage has written it"}


def of_tracing(record):
    return record["stages"]["3_tracing"]["made_from"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda r: of_tracing(r)["parameters"].update(mode="text"),
            "3_tracing was made with mode 'text', and the run's is 'mixed'",
        ),
        (
            lambda r: r["parameters"].update(temperature=0.2),
            "2_generation was made with temperature 1.0, and the run's is 0.2",
        ),
        (
            lambda r: of_tracing(r)["tables"].update(prompts="0"),
            "3_tracing was made from another table prompts than 1_prompts wrote",
        ),
        (
            lambda r: of_tracing(r)["tables"].pop("generations"),
            "3_tracing was made from another table generations than 2_generation wrote",
        ),
        (
            lambda r: of_tracing(r)["tables"].update(foreign="0"),
            "3_tracing was made from another table foreign than no stage wrote",
        ),
        (
            lambda r: r["tables"].update(metrics="0"),
            "table metrics is another than 4_analysis wrote",
        ),
        (
            lambda r: r["stages"]["1_prompts"]["made_from"]["files"].update(corpus="0"),
            "1_prompts was made from another corpus than the run's",
        ),
        (lambda r: r.update(seeds={"seed": 8}), "the seed is 8, and the run's is 0"),
        (lambda r: r.update(schema=3), "its schema is 3, and this project knows up to 2"),
        (lambda r: r.pop("schema"), "its schema is None, and this project knows up to 2"),
        (lambda r: r["inputs"].pop("index"), "no input index is recorded"),
        (lambda r: r["inputs"].pop("model"), "no input model is recorded"),
        (
            lambda r: r["inputs"]["index"].update(sha256=""),
            "input index is recorded without its hash",
        ),
        (lambda r: r["packages"].update(numpy="1.0"), "packages 1.0"),
        (lambda r: r["versions"].pop("numpy"), "versions has numpy none"),
    ],
)
def test_a_record_that_contradicts_itself_is_told(copy, change, told):
    found = problems(changed(copy, change))
    assert list(found) == ["run.json"]
    assert told in found["run.json"]


def test_inputs_are_not_left_out_of_a_record(copy):
    told = [f.problem for f in verify(changed(copy, lambda r: r.pop("inputs"))) if f.problem]
    for name in ("corpus", "model", "index", "tokenizer"):
        assert f"no input {name} is recorded" in told


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda r: r["stages"]["1_prompts"].update(executed=""), "notebook 1_prompts"),
        (
            lambda r: r["stages"]["1_prompts"].update(figures=["1_prompts.png"]),
            "figure 1_prompts.png",
        ),
        (
            lambda r: r["stages"]["1_prompts"]["figures"].update({"1_prompts.png": ""}),
            "figure 1_prompts.png",
        ),
        (lambda r: r["report"]["files"].update({"index.html": ""}), "report index.html"),
        (lambda r: r["stages"]["4_analysis"]["tables"].update(metrics=""), "table metrics"),
    ],
)
def test_a_hash_that_a_record_of_today_lacks_is_a_difference(copy, change, what):
    assert "recorded" in problems(changed(copy, change))[what]


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("temperature", 1.0, ""),
        ("temperature", 0.7, "sampled with temperature 0.7, recorded is 1.0"),
        ("max_new_tokens", 7, "sampled with max_new_tokens 7, recorded is 100"),
        ("decoding", "greedy", "greedy with temperature 1.0, recorded is 0.0"),
        ("model", "other", "made by model 'other', recorded is 'model'"),
        ("revision", "0", "made by revision '0', recorded is "),
        ("backend", "openai", "made by backend 'openai', recorded is 'transformers'"),
    ],
)
def test_completions_of_another_model_or_decoding_are_told(copy, column, value, told):
    made = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 100}
    by = {"backend": "transformers", "model": "model", "revision": copy.input_hash("model")}
    row = replace(generation("a"), decoding="sampled", **made, **by)
    copy.write("generations", tables.to_frame("generations", [replace(row, **{column: value})]))
    (found,) = [f.problem for f in verify(copy) if f.what == "generations"]
    assert found.startswith(told)
    assert bool(found) == bool(told)


def test_a_table_that_is_taken_out_of_run_and_record_is_missed(copy):
    (copy.tables / "copies.parquet").unlink()

    def forget(record):
        del record["tables"]["copies"]
        del record["stages"]["4_analysis"]["tables"]["copies"]

    assert problems(changed(copy, forget)) == {"run.json": "4_analysis wrote no table copies"}


def test_an_input_is_hashed_anew_whatever_is_known_of_it(finished, copy, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "b"}\n')
    sha256 = finished.record["inputs"]["corpus"]["sha256"]
    changed(copy, lambda r: r["inputs"].update(corpus={"path": str(corpus), "sha256": sha256}))
    assert problems(copy) == {"corpus": "not the one that was used"}
    corpus.unlink()
    assert "corpus: not here, so not compared" in [finding.told() for finding in verify(copy)]


@pytest.fixture
def with_own_index(finished, copy, tmp_path):
    """The run with an index that can be damaged, and that index."""
    before = finished.record["inputs"]["index"]
    index = shutil.copytree(before["path"], tmp_path / "index")
    changed(copy, lambda r: r["inputs"].update(index=before | {"path": str(index)}))
    return copy, index


def test_an_index_is_verified_beyond_its_manifest(with_own_index, capsys):
    """Two entries of the suffix array changed places: no size and no manifest tells."""
    run, index = with_own_index
    assert problems(run) == {}
    assert f"Verifying every file of the index {index}" in capsys.readouterr().out
    table = index / "shards" / "table.0"
    content = table.read_bytes()  # of "a" and a separator: two entries of a byte
    table.write_bytes(content[::-1])
    found = problems(run)
    assert list(found) == ["files of the index"]
    assert "table.0: its SHA-256 is not that in the manifest" in found["files of the index"]


def test_a_folder_that_is_no_index_any_more_is_told(with_own_index):
    run, index = with_own_index
    (index / "manifest.json").unlink()
    found = problems(run)
    assert sorted(found) == ["files of the index", "inputs"]
    assert "this is no index" in found["inputs"]


def test_an_index_that_is_not_here_is_not_verified(with_own_index):
    run, index = with_own_index
    shutil.rmtree(index)
    told = [finding.told() for finding in verify(run)]
    assert "index: not here, so not compared" in told
    assert not any(each.startswith("files of the index") for each in told)


def test_a_record_of_before_figures_were_hashed_says_so(copy):
    def older(record):
        record["schema"] = 1
        record["stages"]["1_prompts"]["figures"] = ["1_prompts.png"]
        del record["report"]["files"]
        record["schema"] = 1

    told = [finding.told() for finding in verify(changed(copy, older))]
    assert "figure 1_prompts.png: recorded without its hash, so not compared" in told
    assert "report: nothing of it is recorded, so it is not compared" in told
    assert problems(copy) == {}


def test_a_run_whose_report_was_not_made_to_its_end_is_told(copy):
    (copy.report / "index.html").unlink()
    (copy.report / "tables" / "metrics.csv").unlink()
    found = problems(changed(copy, lambda record: record.update(report={})))
    assert found == {"report": "it was not made, or not to its end; 'propme report' makes it"}


def test_parameters_that_the_analysis_does_not_know_are_told(copy):
    def unknown(record):
        record["stages"]["4_analysis"]["made_from"]["parameters"]["bootstrap_rounds"] = "many"

    found = {finding.what: finding.problem for finding in verify(changed(copy, unknown))}
    assert "'bootstrap_rounds' is a int, not 'many'" in found["metrics"]


def test_an_unfinished_run_cannot_be_verified(tmp_path):
    run = RunFolder(tmp_path / "out")
    run.update_record(stages={"1_prompts": {"state": "failed"}})
    with pytest.raises(RunError, match="1_prompts is not done here"):
        verify(run)


def test_each_run_of_a_sweep_is_verified(finished, tmp_path, capsys):
    sweep = tmp_path / "sweep"
    shutil.copytree(finished.path, sweep / "seed=0")
    RunFolder(sweep / "seed=1").update_record(parameters={"corpus": ""}, stages={})
    (sweep / "seed=2").mkdir()
    (sweep / "seed=2" / "run.json").write_text("{")
    (sweep / "seed=0" / "figures" / "1_prompts.png").unlink()
    assert main(["verify", str(sweep)]) == 1
    told = capsys.readouterr().out
    assert "\n  figure 1_prompts.png: missing\n" in told
    assert "seed=1: " in told
    assert "1_prompts is not done here; run it first" in told
    assert "seed=2/run.json: damaged" in told
    assert told.splitlines()[-1].startswith("3 of 3 runs are not what")
    assert main(["verify", str(tmp_path / "nowhere")]) == 1
    assert "there is no run here" in capsys.readouterr().err
