"""What a run would do, and what is missing for it, without doing anything."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from small_project import small_parameters

from propme import run as runs
from propme import runner
from propme.cli import main
from propme.corpus import Corpus
from propme.errors import BrokenIndexError, RunError
from propme.index import Tokenizer, build_index
from propme.runner.foreseen import foresee
from propme.runner.needs import documents
from propme.runner.running import Which


def foreseen(which=None, **given):
    return foresee(runner.effective_parameters([], given, None), which or Which())


@pytest.fixture
def own(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "It was the sea."}\n')
    return small_parameters(tmp_path) | {
        "output": str(tmp_path / "out"),
        "corpus": str(corpus),
        "max_new_tokens": 50,
    }


def test_all_stages_of_a_new_run_and_nothing_is_written(own, tmp_path):
    found = foreseen(**own)
    assert list(found.stages) == list(runs.STAGES)
    assert all(found.stages.values())
    assert found.missing == []
    assert any(need.startswith("corpus") for need in found.needs)
    assert not (tmp_path / "out").exists()
    assert list(foreseen(Which(last="2_generation"), **own).stages) == list(runs.STAGES[:2])


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"corpus": "nowhere.jsonl"}, "corpus: there is no nowhere.jsonl"),
        ({"index": "nowhere"}, "index: there is no nowhere"),
        ({"model": "./nowhere"}, "model: there is no ./nowhere"),
        ({"prompt_file": "mine.csv"}, "prompt_file: there is no mine.csv"),
        ({"generic_prompts": "generic_fr"}, "generic_prompts: generic_fr: no such file"),
        ({"generic_prompts": "generic_en", "n_prompts": 301}, "generic_prompts: 301 are wanted"),
        (
            {"index": "https://x.invalid/#y", "tokenizer": ""},
            "tokenizer: the index's must be named",
        ),
        ({"recorded": ""}, "recorded: the file of completions"),
        ({"recorded": "nowhere.jsonl"}, "recorded: there is no nowhere.jsonl"),
        ({"corpus": ""}, "corpus: the documents that the model was trained on"),
        ({"text_field": "body"}, "corpus: "),
        ({"heldout": "nowhere.jsonl"}, "heldout: there is no nowhere.jsonl"),
        ({"heldout": "demo"}, "demo: 'demo' stands for the demonstration's corpus"),
        ({"strata": [1, 4]}, "strata: prefixes are drawn by the metadata key 'copies'"),
        ({"backend": "transformers"}, "model: the folder or name of the model"),
        ({"tokenizer": ""}, "tokenizer: the index's must be named, where no model is"),
        ({"backend": "openai"}, "the address of the model's server"),
        ({"recorded_columns": ["text=output"]}, "recorded: "),
        ({"recorded_columns": ["texts=output"]}, "recorded: recorded_columns: 'texts=output'"),
    ],
)
def test_what_is_missing_is_told(own, given, missing, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    found = foreseen(**own | given)
    assert any(each.startswith(missing) for each in found.missing), found.missing


def test_a_file_of_prompts_is_looked_into(own, tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text("question\nWhat is the sea?\n")
    wrong, right = (
        foreseen(**own, prompt_file=str(mine), prompt_field=field) for field in ("text", "question")
    )
    assert right.missing == []
    (told,) = wrong.missing
    assert told.startswith("prompt_file: ")
    assert "no field 'text'; fields here: ['question']" in told
    assert "prompt_field for a file of prompts" in told


@pytest.mark.parametrize("name", ["output", "cache"])
@pytest.mark.parametrize("below", ["", "/deep/in/it"])
def test_a_folder_that_cannot_be_made_is_told(own, tmp_path, name, below):
    (tmp_path / "taken").write_text("")
    (told,) = foreseen(**own | {name: f"{tmp_path}/taken{below}"}).missing
    assert "taken" in told
    assert "is a file" in told or "a file;" in told


@pytest.mark.parametrize("first", ["2_generation", "3_tracing", "4_analysis"])
def test_stages_that_would_be_taken_as_they_are_must_be_there(own, tmp_path, first):
    (told,) = foreseen(Which(first=first), **own).missing
    assert told == f"{tmp_path / 'out'}: there is no run here (no run.json)"
    runs.RunFolder(tmp_path / "out").update_record(
        parameters=runner.effective_parameters([], own, None),
        stages={"1_prompts": {"state": "failed"}},
    )
    (told,) = foreseen(Which(first=first), **own).missing
    assert "1_prompts is not done here" in told


def test_a_share_needs_the_completions_of_its_run(own, tmp_path, capsys):
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(own))
    assert main(["run", str(file), "--shard", "1/2", "--dry-run"]) == 1
    assert "MISSING" in capsys.readouterr().out
    assert main(["run", str(file), "--shard", "1/2", "--dry-run", "--grid", "seed=0,1"]) == 1
    assert "--shard is for one run, and these are 2" in capsys.readouterr().err


def test_an_index_that_is_named_must_be_one_and_of_this_corpus(own, tmp_path):
    folder = tmp_path / "index"
    folder.mkdir()
    (told,) = foreseen(**own | {"index": str(folder)}).missing
    assert f"index: {folder}: no manifest.json here" in told
    assert "propme index build" in told
    with pytest.raises(BrokenIndexError, match=r"this is no index.*propme index build"):
        runs.index_hash(folder)
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "Another sea."}\n{"text": "And a third."}\n')
    for corpus in (own["corpus"], str(other)):
        name = f"index-of-{Path(corpus).stem}"
        build_index(Corpus([corpus]), Tokenizer.load("bytes"), tmp_path / name)
    theirs = foreseen(**own | {"index": str(tmp_path / "index-of-other"), "n_prefix": 1})
    assert ["built from another corpus" in told for told in theirs.missing] == [True]
    mine = own | {"index": str(tmp_path / "index-of-corpus")}
    assert foreseen(**mine | {"n_prefix": 1}).missing == []
    assert foreseen(**mine | {"n_prefix": 2}).missing == [
        "n_prefix: 2 documents are wanted, and the index has 1"
    ]
    assert foreseen(**mine | {"n_prefix": 2, "prefix_texts": own["corpus"]}).missing == []


def test_a_small_corpus_has_a_document_for_each_prefix(own):
    assert foreseen(**own | {"n_prefix": 2}).missing == [
        "n_prefix: 2 documents are wanted, and the corpus has 1"
    ]
    with open(own["corpus"], "a") as file:
        file.write('{"text": "And the sea was deep."}\n')
    assert foreseen(**own | {"n_prefix": 2}).missing == []
    # As many again of each stratum.
    Path(own["corpus"]).write_text('{"text": "It was the sea.", "copies": 4}\n' * 3)
    told = foreseen(**own | {"n_prefix": 2, "strata": [1, 4]}).missing
    assert "n_prefix: 4 documents are wanted, and the corpus has 3" in told


def test_a_corpus_that_is_not_looked_at_to_its_end_is_not_counted(own, monkeypatch):
    """Of two documents of 15 and 21 bytes the first alone is looked at."""
    with open(own["corpus"], "a") as file:
        file.write('{"text": "And the sea was deep."}\n')
    monkeypatch.setattr(documents, "_LOOKED_AT", 15)
    assert foreseen(**own | {"n_prefix": 2}).missing == []


def model_folder(folder, **config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model-00001-of-00002.safetensors").write_text("")
    return {"backend": "transformers", "model": str(folder), "prefix_tokens": 50}


def test_a_model_without_weights_is_told(own, tmp_path):
    given = model_folder(tmp_path / "model")
    assert foreseen(**own | given).missing == []
    (tmp_path / "model" / "model-00001-of-00002.safetensors").unlink()
    (told,) = foreseen(**own | given).missing
    assert "holds no weights" in told
    assert foreseen(**own | given | {"backend": "recorded"}).missing == []


@pytest.mark.parametrize(
    ("config", "missing", "beware"),
    [
        ({"max_position_embeddings": 50}, 1, 0),  # a prompt has one token at least: 1 + 50
        ({"n_positions": 51}, 0, 1),  # and a prefix 50: 50 + 50
        ({"max_position_embeddings": 99}, 0, 1),
        ({"max_position_embeddings": 100}, 0, 0),
        ({"max_position_embeddings": None}, 0, 0),
    ],
)
def test_a_context_that_is_too_short_is_told(own, tmp_path, config, missing, beware):
    found = foreseen(**own | model_folder(tmp_path / "model", **config))
    for told, times in ((found.missing, missing), (found.beware, beware)):
        assert ["context" in each for each in told] == [True] * times


def test_strata_are_drawn_where_documents_have_them(own):
    with open(own["corpus"], "a") as file:
        file.write('{"text": "And the sea was deep.", "copies": 4}\n')
    assert foreseen(**own | {"strata": [4]}).missing == []
    (told,) = foreseen(**own | {"strata": [4], "stratify_by": "source"}).missing
    assert "none of the first 2 documents has it; keys there: copies." in told


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["source", "licence", "language", "category"], []),  # the default, of which it has none
        (["year"], []),
        (["year", "yaer", "setting"], ["'yaer'; keys there: year"]),  # setting is of the prompts
    ],
)
def test_keys_that_no_document_has_are_told_and_hinder_nothing(own, keys, told):
    Path(own["corpus"]).write_text('{"text": "It was the sea.", "year": 1859}\n')
    found = foreseen(**own | {"breakdown_by": keys})
    assert found.missing == []
    assert [beware.partition("documents has ")[2] for beware in found.beware] == told


@pytest.mark.parametrize(
    ("given", "metrics"),
    [
        ({"max_new_tokens": 50}, ""),
        ({"max_new_tokens": 49}, "R50, FMR50"),
        ({"max_new_tokens": 99, "propensity_metrics": ["R100", "FMR20", "NVR"]}, "R100"),
        ({"max_new_tokens": 99, "propensity_metrics": ["FMR120", "R100"]}, "FMR120, R100"),
        ({"max_new_tokens": 9, "backend": "recorded"}, ""),
    ],
)
def test_metrics_for_which_completions_are_too_short_are_told(own, given, metrics):
    found = foreseen(**own | {"backend": "transformers", "model": own["corpus"]} | given)
    assert ["extraction not known" in beware for beware in found.beware] == (
        [given["max_new_tokens"] < 50] if metrics else []
    )
    told = [f": {metrics} count longer completions alone" in beware for beware in found.beware]
    assert told == ([True] if metrics else [])


def test_an_index_that_is_there_is_not_built(own, tmp_path):
    before = foreseen(**own).needs
    assert any(need.startswith("an index of the corpus, which will be built") for need in before)
    assert any(need.startswith("for building it: documents  about 1") for need in before)
    corpus = Path(own["corpus"])
    run = runs.open_run(own["output"])
    inputs = ("corpus", "heldout", "human", "model", "tokenizer", "text_field", "id_field", "cache")
    effective = runner.effective_parameters([], own, None)
    runs.prepare_inputs(run, index="", **{name: effective[name] for name in inputs})
    shutil.rmtree(tmp_path / "out")
    after = foreseen(**own).needs
    (built,) = (tmp_path / "c").glob("index-*")
    assert any(need.startswith(f"index {built.name}, there in ") for need in after)
    assert not any("built" in need for need in after)
    corpus.write_text('{"text": "Another sea."}\n')
    assert any("which will be built" in need for need in foreseen(**own).needs)


def test_a_run_refuses_what_a_dry_run_says_is_missing(own, tmp_path, capsys):
    """Before anything is executed; what hinders nothing is told."""
    given = own | {"strata": [1], "prompt_file": "mine.csv", "max_new_tokens": 9}
    given |= {"backend": "transformers", "model": "nowhere/at/all"}
    missing = foreseen(**given).missing
    assert len(missing) == 3
    with pytest.raises(RunError) as caught:
        runner.run([], given)
    assert str(caught.value) == f"{tmp_path / 'out'}: {'; '.join(missing)}"
    assert "Beware: max_new_tokens is 9" in capsys.readouterr().out
    run = runs.open_run(given["output"])
    entry = run.record["stages"]["1_prompts"]
    assert (entry["state"], entry["error"]) == ("failed", str(caught.value))
    assert not run.notebook("1_prompts").exists()


def test_what_only_a_later_stage_needs_hinders_no_earlier_one(own):
    given = own | {"backend": "transformers", "model": "nowhere/at/all"}
    assert len(foreseen(**given).missing) == 1
    assert foreseen(Which(last="1_prompts"), **given).missing == []


def test_a_folder_of_another_run_is_foreseen(own, tmp_path):
    run = runs.RunFolder(tmp_path / "out")
    run.update_record(parameters={"model": "theirs"}, stages={"1_prompts": {"state": "failed"}})
    assert "its model is 'theirs'" in foreseen(**own).missing[0]


def test_the_command_tells_it_of_each_run(own, tmp_path, capsys):
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(own | {"corpus": "nowhere.jsonl"}))
    assert main(["run", "--dry-run", str(file), "--grid", "seed=0,1"]) == 1
    told = capsys.readouterr().out
    assert f"seed=1: {tmp_path / 'out' / 'seed=1'}" in told
    assert told.count("MISSING  corpus: there is no nowhere.jsonl") == 2
    assert told.count("would run: not run yet") == 2
