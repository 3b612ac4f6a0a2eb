"""The demonstration's corpus and model."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from tiny import SETTINGS, tiny_demo

from propme import demo
from propme.demo import DemoSettings, ensure_demo, read_passages, write_corpus


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_passages_are_whole_verses_of_one_chapter():
    passages = read_passages(400)
    first = passages[0]
    assert first["id"].startswith("kjv-1-1-1-")
    assert first["text"].startswith("In the beginning God created the heaven and the earth.")
    assert all(len(passage["text"]) >= 400 for passage in passages)
    assert len({passage["id"] for passage in passages}) == len(passages)


def test_the_corpus_holds_as_many_copies_as_its_metadata_says():
    corpus = rows(tiny_demo().corpus)
    times = Counter(row["text"] for row in corpus)
    for row in corpus:
        assert times[row["text"]] == row["copies"]
    planted = Counter(row["copies"] for row in corpus if row["planted"])
    assert planted == {1: 3 * 1, 32: 3 * 32}


def test_every_document_has_its_own_id_a_source_and_a_licence():
    corpus = rows(tiny_demo().corpus)
    assert len({row["id"] for row in corpus}) == len(corpus)
    assert all(row["source"] and row["licence"] == "public domain" for row in corpus)


def test_held_out_documents_are_not_in_the_corpus():
    held_out = {row["text"] for row in rows(tiny_demo().heldout)}
    assert len(held_out) == 3
    assert not held_out & {row["text"] for row in rows(tiny_demo().corpus)}


def test_the_full_corpus_has_the_size_that_is_promised(tmp_path):
    write_corpus(tmp_path, DemoSettings())
    corpus = rows(tmp_path / "corpus.jsonl")
    assert len(corpus) > 2000
    assert 1e6 < sum(len(row["text"]) for row in corpus) < 3e6


def test_the_model_loads_as_any_other_and_encodes_any_text():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_demo().model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_demo().model)
    text = "Blåbærgrød 🫐 and\ttabs"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert model.config.vocab_size == len(tokenizer) == SETTINGS.vocabulary


def test_training_twice_gives_the_same_weights(tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    settings = replace(SETTINGS, passes=1, background_characters=5_000)
    first, second = (
        AutoModelForCausalLM.from_pretrained(ensure_demo(tmp_path / name, settings).model)
        for name in "ab"
    )
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_what_was_made_is_used_again_and_what_was_interrupted_is_made_whole(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    settings = replace(SETTINGS, passes=1, background_characters=5_000)
    with monkeypatch.context() as patch:
        patch.setattr(demo, "train_model", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ensure_demo(tmp_path, settings)
    made = ensure_demo(tmp_path, settings)
    assert [p.name for p in tmp_path.rglob(".*")] == []
    monkeypatch.setattr(demo, "train_model", interrupted)
    assert ensure_demo(tmp_path, settings) == made


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    settings = replace(SETTINGS, passes=1, background_characters=5_000)
    left = tmp_path / f".demo-{settings.fingerprint}-making-x"
    left.mkdir()
    (left / "corpus.jsonl").write_text("half")
    ensure_demo(tmp_path, settings)
    assert not left.exists()


def test_a_corpus_that_was_changed_is_trained_on_again(tmp_path):
    settings = replace(SETTINGS, passes=1, background_characters=5_000)
    made = ensure_demo(tmp_path, settings)
    before = (made.model / "model.safetensors").read_bytes()
    lines = made.corpus.read_text(encoding="utf-8").splitlines(keepends=True)
    made.corpus.write_text("".join(lines[:-20]), encoding="utf-8")
    ensure_demo(tmp_path, settings)
    assert (made.model / "model.safetensors").read_bytes() != before


def test_another_setting_is_another_demonstration():
    assert replace(SETTINGS, seed=1).fingerprint != SETTINGS.fingerprint
    assert replace(SETTINGS).fingerprint == SETTINGS.fingerprint
