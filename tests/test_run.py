"""All four notebooks on a tiny setting, as a user runs them, and what a run leaves behind."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from helpers import needs_engine
from tiny import SECRET, SHARED, propme, tiny_demo, tiny_parameters, tiny_run

from propme import records, runner, tables
from propme import run as runs
from propme.errors import InputError, ParameterError, PropMeError, RunError
from propme.run import folder as folders
from propme.run import inputs as found_inputs
from propme.runner import checking, verifying

ROOT = Path(__file__).parent.parent
OF_RUN = [name for name in tables.TABLES if name not in tables.OF_COMPARISON]


@pytest.fixture
def finished():
    """A whole run, for tests that do not change it, and what the command told."""
    folder, done = tiny_run()
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture
def copied(finished, tmp_path):
    """The whole run and a file of its parameters, for a test that changes it."""
    folder = shutil.copytree(finished[0], tmp_path / "out")
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny_parameters(folder, SHARED / "cache")))
    return folder, file


def test_a_run_has_its_layout_and_says_where_the_report_is(finished):
    folder, done = finished
    for stage in runs.STAGES:
        assert (folder / f"{stage}.ipynb").is_file()
        assert (folder / "report" / f"{stage}.html").is_file()
    assert {p.stem for p in (folder / "tables").glob("*.parquet")} == set(OF_RUN)
    assert (folder / "figures" / "propensity_scores.png").is_file()
    assert (folder / "report" / "viewer.html").is_file()
    assert done.stdout.splitlines()[-1] == f"The report is {folder / 'report' / 'index.html'}"


def test_every_table_is_what_it_is_declared_to_be(finished):
    folder, _ = finished
    for name in OF_RUN:
        tables.read(name, folder / "tables")


def test_every_prompt_has_its_generations_and_every_generation_its_trace(finished):
    folder, _ = finished
    read = {name: tables.read(name, folder / "tables") for name in OF_RUN}
    used = read["prompts"][read["prompts"]["refused"] == ""]
    assert used["setting"].value_counts().to_dict() == {
        "generic": 3,
        "specific": 3,
        "prefix": 4,
        "mismatched_prefix": 2,
        "human": 4,
        "unconditional": 1,
        "minimal_cue": 3,
    }
    made = read["generations"].merge(used[["prompt_id", "setting"]], on="prompt_id")
    # Greedy once; sampled twice, without a prompt three times or each cue once, a human text once.
    of_each = {"generic": 3 * 3, "specific": 3 * 3, "prefix": 4 * 3, "mismatched_prefix": 2 * 3}
    of_each |= {"human": 4 * 2, "unconditional": 1 + 3, "minimal_cue": 3 + 3}
    assert made["setting"].value_counts().to_dict() == of_each
    assert set(read["traces"]["generation_id"]) == set(read["generations"]["generation_id"])
    assert set(read["generations"]["temperature"]) == {0.0, 0.8}


def test_every_span_and_match_stands_where_its_table_says(finished):
    folder, _ = finished
    corpus = [json.loads(line) for line in tiny_demo().corpus.read_text("utf-8").splitlines()]
    text_of = {row["id"]: row["text"] for row in corpus}
    spans = tables.read("spans", folder / "tables")
    matches = tables.read("matches", folder / "tables")
    generations = tables.read("generations", folder / "tables").set_index("generation_id")
    assert len(spans)
    assert len(matches)
    for span in spans.itertuples():
        text = generations.loc[span.generation_id, "text"]
        assert text[span.char_start : span.char_stop] == span.text
        assert sum(span.text in document for document in text_of.values()) > 0
    texts = spans.set_index(["generation_id", "span"])["text"]
    for match in matches[matches["span"] >= 0].itertuples():
        assert match.window in text_of[match.document_id]
        passage = match.window[match.window_char_start : match.window_char_stop]
        assert passage == texts[match.generation_id, match.span]


def test_the_headline_is_the_mean_that_the_tables_give(finished):
    folder, _ = finished
    read = {name: tables.read(name, folder / "tables") for name in OF_RUN}
    joined = read["generations"].merge(read["prompts"], on="prompt_id")
    joined = joined.merge(read["traces"], on="generation_id")
    part = joined[(joined["setting"] == "prefix") & (joined["decoding"] == "greedy")]
    row = read["metrics"].set_index(["setting", "decoding", "subset", "metric"])
    als = row.loc[("prefix", "greedy", "all", "ALS")]
    assert als["value"] == pytest.approx(part["longest_segment"].astype(float).mean())
    assert als["n_generations"] == len(part) == 4
    pairs = read["matches"][
        read["matches"]["pair"] & read["matches"]["generation_id"].isin(part["generation_id"])
    ]
    nvr = row.loc[("prefix", "greedy", "all", "NVR")]
    assert nvr["value"] == pytest.approx(pairs["recall"].mean())


def test_run_json_tells_what_was_run_with_what(finished):
    folder, _ = finished
    record = json.loads((folder / "run.json").read_text())
    assert record["parameters"]["temperature"] == 0.8
    assert record["parameters"]["docs_per_span"] == 10
    assert set(record["stages"]) == set(runs.STAGES)
    assert set(record["tables"]) == set(OF_RUN)
    assert {"propme", "torch", "transformers", "papermill"} <= set(record["versions"])
    assert all(len(entry["sha256"]) == 64 for entry in record["inputs"].values())
    assert all(s["peak_memory_bytes"] > 50e6 for s in record["stages"].values())
    assert record["generator"]["device"]


def test_a_record_tells_nothing_of_the_checkouts_place(finished):
    folder, _ = finished
    for path in [folder / "run.json", *folder.glob("*.ipynb")]:
        assert str(ROOT) not in path.read_text("utf-8"), path


def test_a_finished_run_is_verified_and_what_was_changed_is_named(finished, tmp_path):
    folder, _ = finished
    done = propme("verify", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "metrics, recomputed: the same" in done.stdout
    copy = shutil.copytree(folder, tmp_path / "sent")
    metrics = tables.read("metrics", copy / "tables")
    tables.write("metrics", metrics.assign(value=metrics["value"] * 1.01), copy / "tables")
    (copy / "tables" / "spans.parquet").unlink()
    (copy / "report" / "audit.md").write_text("nothing was found")
    told = {f.what: f.problem for f in verifying.verify(runs.open_run(str(copy))) if f.problem}
    assert told["table metrics"] == "not as it was written"
    assert told["table spans"] == "missing"
    assert "no such table" in told["metrics"]
    assert told["report audit.md"] == "not as it was written"
    assert set(told) == {"table metrics", "table spans", "metrics", "report audit.md"}


def test_two_runs_are_compared_table_by_table(finished, tmp_path):
    folder, _ = finished
    copy = runs.open_run(str(shutil.copytree(folder, tmp_path / "again")))
    copy.update_record(packages=copy.record["packages"] | {"numpy": "0.1"})
    first = runs.open_run(str(folder))
    same = {f.what: f for f in checking.compare_runs(first, copy)}
    assert {f.problem for f in same.values()} == {""}
    assert same["package numpy"].note.endswith("is 0.1")
    prompts = copy.read("prompts")
    tables.write("prompts", prompts.assign(text=prompts["text"] + "!"), copy.tables)
    (changed,) = [f for f in checking.compare_runs(first, copy) if f.problem]
    assert changed.what == "table prompts"
    assert changed.problem == f"{len(prompts)} of {len(prompts)} rows differ, in text"


def test_the_pages_load_nothing_and_show_the_findings(finished):
    folder, _ = finished
    for page in (folder / "report").glob("*.html"):
        text = page.read_text("utf-8")
        for remote in ('src="http', "src='http", 'src="//', "@import", "import('http"):
            assert remote not in text, f"{page.name}: {remote}"
    front = (folder / "report" / "index.html").read_text("utf-8")
    assert "propensity score" in front
    assert front.count("data:image/png;base64,") == 4


def test_no_secret_of_the_environment_is_in_any_file(finished):
    folder, done = finished
    assert SECRET not in done.stdout + done.stderr
    for path in folder.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_a_notebook_runs_alone_with_papermills_own_command(copied, tmp_path):
    folder, parameter_file = copied
    before = {p: p.read_bytes() for p in (folder / "tables").glob("*.parquet")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "papermill", "notebooks/3_tracing.ipynb"),
            *(tmp_path / "out.ipynb", "-f", parameter_file, "--no-progress-bar"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for path, content in before.items():
        assert path.read_bytes() == content, f"{path.name} is another one now"


@needs_engine
def test_the_engine_gives_the_same_tables(copied, tmp_path):
    folder, _ = copied
    before = {n: tables.read(n, folder / "tables") for n in ("traces", "spans", "matches")}
    import papermill

    papermill.execute_notebook(
        str(ROOT / "notebooks" / "3_tracing.ipynb"),
        str(tmp_path / "out.ipynb"),
        parameters={"output": str(folder), "engine": "infini-gram", "n_varied": 0},
        progress_bar=False,
        cwd=str(ROOT),
    )
    for name, table in before.items():
        pd.testing.assert_frame_equal(tables.read(name, folder / "tables"), table)


def test_a_second_run_makes_no_index_again(copied, monkeypatch):
    import propme.index

    def refuse(*_):
        raise AssertionError("built again")

    monkeypatch.setattr(propme.index, "build_index", refuse)
    _, parameter_file = copied
    given = yaml.safe_load(parameter_file.read_text())
    keys = ("corpus", "heldout", "human", "model", "cache")
    inputs = runs.prepare_inputs(
        runs.open_run(given["output"]),
        **{key: given[key] for key in keys},
        tokenizer="",
        index="",
        text_field="text",
        id_field="id",
    )
    assert list(inputs.index) == ["corpus", "heldout", "human", "model", "index", "tokenizer"]


def test_an_index_that_several_want_at_once_is_built_once(tmp_path):
    code = f"""
import sys
from pathlib import Path
import propme.index
from propme.run.inputs import _ensure_index
build = propme.index.build_index
def counted(*given):
    with open({str(tmp_path / "built")!r}, "a") as file:
        file.write("x")
    return build(*given)
propme.index.build_index = counted
sys.stdin.readline()
corpus, cache = Path({str(tiny_demo().corpus)!r}), Path({str(tmp_path / "cache")!r})
print(_ensure_index(corpus, "hash", "bytes", ("text", "id"), cache))
"""
    command = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(3)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    folders_found = {process.communicate(timeout=120)[0] for process in processes}
    assert len(folders_found) == 1
    assert (tmp_path / "built").read_text() == "x"
    assert not any(process.returncode for process in processes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "n_promts", "3"], "unknown parameter 'n_promts'; did you mean 'n_prompts'?"),
        (["-p", "n_prompts", "three"], "parameter 'n_prompts' is a int, not 'three'"),
        (["-p", "merging", "3"], "quote it"),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_runs(tmp_path, arguments, message):
    file = tmp_path / "p.yaml"
    file.write_text(f"output: {tmp_path / 'out'}\n")
    done = propme("run", file, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_wrong_parameter_of_a_file_names_the_file(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("sedd: 1\n")
    with pytest.raises(ParameterError, match=r"p\.yaml: unknown parameter 'sedd'.*'seed'"):
        runner.effective_parameters([file], {}, None)


def test_later_files_and_single_parameters_win(tmp_path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("seed: 1\nsamples: 1\ntemperature: 1e-1\n")
    second.write_text("samples: 2\n")
    effective = runner.effective_parameters([first, second], {"max_new_tokens": 7}, "somewhere")
    assert (effective["seed"], effective["samples"], effective["max_new_tokens"]) == (1, 2, 7)
    assert effective["temperature"] == 0.1
    assert effective["output"] == "somewhere"
    assert effective["top_p"] == 1.0


def test_a_failing_notebook_is_told_kept_and_stops_the_run(tmp_path):
    parameters = tiny_parameters(tmp_path / "out", SHARED / "cache") | {"n_mismatched": 1000}
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(parameters))
    done = propme("run", file)
    assert done.returncode == 1
    assert "1_prompts failed: InputError" in done.stderr
    assert "heldout.jsonl: 3 documents" in done.stderr
    assert "Traceback (most recent call last)" not in done.stderr
    assert "heldout.jsonl: 3 documents" in (tmp_path / "out" / "1_prompts.ipynb").read_text()
    assert not (tmp_path / "out" / "2_generation.ipynb").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": -1.0}, "temperature must be > 0"),
        ({"top_p": 0.0}, r"top_p must be in \(0, 1\]"),
        ({"n_prefix": 0}, "n_prefix must be at least 1"),
        ({"batch_size": -5}, "batch_size must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"bootstrap_rounds": 0}, "bootstrap_rounds must be at least 1"),
        ({"merging": "verifed"}, "merging 'verifed' is unknown"),
        ({"engine": "infinigram"}, "engine 'infinigram' is unknown"),
        ({"propensity_metrics": ["ALS"]}, "ALS is not in"),
        ({"propensity_metrics": ["NVRR"]}, "unknown metric 'NVRR'"),
        ({"stratify_by": ""}, "strata are given"),
        ({"prefix_tokens": 0}, "prefix_tokens must be at least 1"),
        ({"prefix_position": "end"}, "'end' is none of start, random"),
        ({"prompt_language": "fr"}, "'fr' is none of auto, da, en"),
        ({"greedy": False, "samples": 0}, "nothing to generate"),
        ({"top_k": -1}, "top_k must be a whole number >= 0"),
        ({"backend": "vllm"}, "backend 'vllm' is unknown; it is transformers, openai, recorded"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"device": "gpu"}, "device 'gpu' is unknown; it is auto, cpu, cuda"),
        ({"device": "cuda:x"}, "device 'cuda:x' is unknown"),
        ({"dtype": "half"}, "dtype 'half' is unknown"),
    ],
)
def test_a_value_that_a_later_notebook_would_refuse_is_refused_at_once(given, message):
    with pytest.raises(PropMeError, match=message):
        runner.effective_parameters([], given, None)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    thesis = tmp_path / "paper" / "report" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("mine")
    for output in (tmp_path / "paper", ROOT, ROOT / "notebooks"):
        with pytest.raises(RunError, match="holds other things"):
            runner.run([], output=str(output))
    assert thesis.read_text() == "mine"
    assert runs.notebook_path("1_prompts").is_file()


def test_what_came_of_another_table_is_removed_with_it(tmp_path):
    folder = runs.open_run(str(tmp_path / "out"))
    empty = {name: tables.to_frame(name, []) for name in OF_RUN}
    for name, frame in empty.items():
        folder.write(name, frame)
    folder.write("generations", empty["generations"])
    assert len(list(folder.tables.glob("*.parquet"))) == len(OF_RUN)
    one = records.Generation("g", "p", "greedy", 0, 0, "x", (1,), "stop", 0.0, 1.0, 1)
    folder.write("generations", tables.to_frame("generations", [one]))
    left = {p.stem for p in folder.tables.glob("*.parquet")}
    assert left == {"prompts", "generations", "extraction"}


def test_the_demonstration_is_not_mixed_with_ones_own(tmp_path):
    with pytest.raises(InputError, match="belong together"):
        found_inputs._input_paths({"corpus": str(tiny_demo().corpus), "model": "demo"}, tmp_path)


def test_a_run_that_was_stopped_goes_on_with_the_generation(copied, tmp_path):
    """The second notebook, killed with half of its lines written, makes the other half."""
    folder, _ = copied
    before = tables.read("generations", folder / "tables")
    journal = folder / "parts" / "generation" / "generations.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[: len(lines) // 2]) + lines[-1][:100])
    import papermill

    papermill.execute_notebook(
        str(ROOT / "notebooks" / "2_generation.ipynb"),
        str(tmp_path / "out.ipynb"),
        parameters={"output": str(folder), "samples": 2, "max_new_tokens": 20, "temperature": 0.8},
        progress_bar=False,
        cwd=str(ROOT),
    )
    assert journal.read_text().splitlines(keepends=True) == lines
    pd.testing.assert_frame_equal(tables.read("generations", folder / "tables"), before)


def test_an_index_of_another_corpus_is_refused(finished, tmp_path):
    folder, _ = finished
    inputs = json.loads((folder / "run.json").read_text())["inputs"]
    with pytest.raises(InputError, match="built from another corpus"):
        found_inputs.require_same_corpus(
            Path(inputs["index"]["path"]), inputs["heldout"]["path"], inputs["heldout"]["sha256"]
        )


def test_a_missing_corpus_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.jsonl.*'corpus'"):
        runs.prepare_inputs(
            runs.open_run(str(tmp_path)),
            corpus="nowhere.jsonl",
            heldout="",
            human="",
            model=str(tiny_demo().model),
            tokenizer="",
            index="",
            text_field="text",
            id_field="id",
            cache=str(tmp_path / "cache"),
        )


def test_without_a_model_the_tokenizer_of_the_index_must_be_named(tmp_path):
    with pytest.raises(ParameterError, match="parameter tokenizer"):
        runs.prepare_inputs(
            runs.open_run(str(tmp_path)),
            corpus=str(tiny_demo().corpus),
            heldout="",
            human="",
            model="",
            tokenizer="",
            index="",
            text_field="text",
            id_field="id",
            cache=str(tmp_path / "cache"),
        )


def test_notebooks_are_kept_without_what_a_run_puts_in_them():
    for stage in runs.STAGES:
        notebook = json.loads(runs.notebook_path(stage).read_text("utf-8"))
        assert "papermill" not in notebook["metadata"]
        for cell in notebook["cells"]:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None
            assert "papermill" not in cell["metadata"]


def test_cells_of_the_notebooks_have_ids_of_their_own():
    for stage in runs.STAGES:
        cells = json.loads(runs.notebook_path(stage).read_text("utf-8"))["cells"]
        ids = [cell["id"] for cell in cells]
        assert len(set(ids)) == len(ids)


def test_a_later_notebook_says_which_one_to_run_first(tmp_path):
    with pytest.raises(RunError, match="run notebook 1_prompts first"):
        runs.open_run(str(tmp_path)).input_path("model")


def test_relative_paths_start_at_the_project_wherever_one_stands(monkeypatch, tmp_path):
    expected = ROOT / "outputs" / "demo"
    for folder in (ROOT, ROOT / "notebooks", tmp_path):
        monkeypatch.chdir(folder)
        assert runs.resolve("outputs/demo") == expected
    assert runs.resolve("/absolute") == Path("/absolute")


def test_metrics_are_recomputed_from_stored_tables(finished, tmp_path):
    folder, _ = finished
    done = propme("metrics", "--tables", folder / "tables", "--output", tmp_path, "--rounds", "200")
    assert done.returncode == 0, done.stderr
    assert "prefix" in done.stdout
    for name in folders.TABLES_OF_STAGES[-1]:
        again, stored = (tables.read(name, f) for f in (tmp_path, folder / "tables"))
        pd.testing.assert_frame_equal(again, stored)
    missing = propme("metrics", "--tables", tmp_path / "nowhere")
    assert missing.returncode == 1
    assert "no such table" in missing.stderr


def test_the_report_is_made_again_from_tables_alone(finished, tmp_path):
    folder, _ = finished
    copy = tmp_path / folder.name
    shutil.copytree(folder / "tables", copy / "tables")
    shutil.copy(folder / "run.json", copy)
    done = propme("report", copy)
    assert done.returncode == 0, done.stderr
    files = runs.RunFolder(copy).record["report"]["files"]
    found = {p.relative_to(copy / "report").as_posix() for p in (copy / "report").rglob("*.*")}
    assert found == set(files) >= {"index.html", "viewer.html", "figures/span_lengths.svg"}
    for name in ("tables/metrics.tex", "tables/propensity.md", "audit.md"):
        assert (copy / "report" / name).read_text() == (folder / "report" / name).read_text()


def test_a_folder_that_is_no_run_has_no_report(tmp_path):
    done = propme("report", tmp_path)
    assert done.returncode == 1
    assert "there is no run here (no run.json)" in done.stderr


def test_the_pages_tell_the_parameters_of_this_run_and_no_other(finished):
    folder, _ = finished
    page = (folder / "report" / "index.html").read_text()
    assert "2 a prompt at temperature 0.8, top-p 1.0." in page
    assert "At most 20 new tokens." in page
    audit = (folder / "report" / "audit.md").read_text()
    assert re.search(
        r"\| sampled \| generic \| 6 \| \d \| 0 \| 0.8 \| 1 \| 20 \|", audit
    )  # 3 prompts, 2 samples
