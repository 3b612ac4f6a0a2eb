"""What another batch size or number type changes, by the command, in a run with a real model."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml
from tiny import tiny_demo

from propme import sensitivity as module
from propme import tables
from propme.cli import main
from propme.corpus import Corpus
from propme.errors import ParameterError
from propme.index import Tokenizer, build_index
from propme.records import Generation, Prompt
from propme.run import RunFolder
from propme.sensitivity import sensitivity


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Parameters of a run of which only the prompts are there."""
    demo = tiny_demo()
    folder = tmp_path_factory.mktemp("sensitivity")
    index = build_index(Corpus([demo.corpus]), Tokenizer.load(str(demo.model)), folder / "index")
    run = RunFolder(folder / "out")
    run.update_record(
        inputs={
            "model": {"path": str(demo.model), "sha256": "m"},
            "index": {"path": str(index), "sha256": "i"},
        }
    )
    prompts = [
        Prompt("generic/0", "generic", "propensity", "And God said"),
        Prompt("generic/1", "generic", "propensity", "Why?", refused="stands in the corpus"),
        Prompt("generic/2", "generic", "propensity", "Tell me of the land", samples=7),
        Prompt("prefix/0", "prefix", "capability", "And it came to", target=" pass"),
        Prompt("human/0", "human", "control", "I will not."),
    ]
    run.write("prompts", tables.to_frame("prompts", prompts))
    return {"output": str(run.path), "max_new_tokens": 12, "batch_size": 2, "device": "cpu"}


def test_the_command_tells_how_many_completions_changed_and_how_far_metrics_moved(
    parameters: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(parameters))
    assert main(["sensitivity", str(file), "-p", "samples", "3"]) == 0
    told = capsys.readouterr().out
    for variation in ("float32, batches of 8", "bfloat16, batches of 2", "bfloat16, batches of 8"):
        assert variation in told
    assert "NVR_max" in told


def completion(name: str, *ids: int) -> Generation:
    return Generation(name, "p", "greedy", 0, 0, "x", ids, "stop", 0.0, 1.0, 9)


def test_changes_as_by_hand() -> None:
    before = [completion("a", 1, 2, 3), completion("b", 1, 2), completion("c", 5)]
    after = [completion("a", 1, 2, 4), completion("b", 1, 2), completion("c", 5, 6)]
    # Of the two that changed one shares 2 tokens, the other 1.
    assert list(module._changes("v", before, after)) == [
        {
            "variation": "v",
            "decoding": "greedy",
            "completions": 3,
            "changed": 2,
            "share": 2 / 3,
            "tokens before the change": 1.5,
        }
    ]


def test_moves_as_by_hand() -> None:
    rows = {"decoding": ["greedy"] * 2, "kind": ["capability"] * 2, "metric": ["ALS", "extraction"]}
    before, after = (pd.DataFrame(rows | {"value": v}) for v in ([4.0, None], [5.5, None]))
    (row,) = module._moves("v", before, after).to_dict("records")
    assert row["moved by"] == 1.5


def test_prompts_are_taken_of_all_settings_in_turn() -> None:
    prompts = [Prompt(f"g{n}", "generic", "propensity", "a") for n in range(9)]
    prompts += [Prompt(f"p{n}", "prefix", "capability", "a", samples=3) for n in range(2)]
    chosen = module._spread(prompts, 6)
    assert [p.prompt_id for p in chosen] == ["g0", "p0", "g1", "p1", "g2", "g3"]
    assert all(p.samples is None for p in chosen)


def test_a_server_cannot_be_varied(parameters: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match="backend 'openai' decides batch size"):
        sensitivity(parameters | {"backend": "openai"})
