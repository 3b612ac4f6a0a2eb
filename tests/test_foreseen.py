"""What a run would do, and what is missing for it, without doing anything."""

import pytest
import yaml

from propme import run as runs
from propme import runner
from propme.cli import main
from propme.runner.foreseen import foresee
from propme.runner.running import Which


def foreseen(which=None, **given):
    return foresee(runner.effective_parameters([], given, None), which or Which())


@pytest.fixture
def own(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "It was the sea."}\n')
    nothing = {"heldout": "", "human": "", "model": "", "tokenizer": "bytes"}
    return {"output": str(tmp_path / "out"), "corpus": str(corpus), **nothing}


def test_all_stages_of_a_new_run_and_nothing_is_written(own, tmp_path):
    found = foreseen(**own, backend="recorded", recorded=own["corpus"])
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
        ({"index": "https://x.invalid/#y"}, "tokenizer: the index's must be named"),
        ({"backend": "recorded"}, "recorded: the file of completions"),
        ({"backend": "openai"}, "the address of the model's server"),
    ],
)
def test_what_is_missing_is_told(own, given, missing, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    found = foreseen(**own | {"tokenizer": ""} | given)
    assert any(each.startswith(missing) for each in found.missing), found.missing


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
