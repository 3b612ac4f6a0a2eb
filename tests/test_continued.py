"""Continued pre-training in small: parallel texts, equal arms, stages that are gone on with."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tiny import SETTINGS, tiny_demo

from propme.demo import continued
from propme.demo.continued import ContinuedSettings, make, passages, read_messages, stage_rows
from propme.errors import InputError, ParameterError

pytest.importorskip("gramps.version", reason="the extra 'continued' is not installed")

TINY = ContinuedSettings(
    stages=2,
    tokens_per_stage=6 * 256,
    copies=(1, 3),
    documents_per_group=2,
    background_documents=5,
    heldout_documents=2,
    human_texts=3,
)


def texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpora, and the models as they start, beside the tiny demonstration's."""
    folder = tiny_demo().corpus.parent.parent / "continued"
    make(folder, [], TINY, SETTINGS)
    return folder


def test_messages_are_danish_and_not_english() -> None:
    messages = read_messages()
    assert len(messages) > 2000
    danish, english = (" ".join(texts).lower().split() for texts in zip(*messages, strict=True))
    for words, own, other in ((danish, "og", "and"), (english, "and", "og")):
        assert words.count(own) > 20 * words.count(other)
    assert not any("<b>" in text or "_" in text for pair in messages for text in pair)


def test_both_languages_of_a_passage_are_the_same_messages() -> None:
    messages = dict(read_messages())
    first = passages(400, 0)[0]
    assert len(first["danish"]) >= 400
    danish = [text for text in messages if text in first["danish"]]
    assert len(danish) > 1
    assert all(messages[text] in first["english"] for text in danish)


def test_corpora_hold_as_many_copies_as_they_say_and_nothing_held_out(made: Path) -> None:
    for arm in continued.ARMS:
        times = Counter(texts(made / arm / "corpus.jsonl"))
        assert Counter(times.values()) == {1: 2 + 5, 3: 2}
        others = texts(made / arm / "heldout.jsonl") + texts(made / arm / "human.jsonl")
        assert len(others) == 5
        assert not times.keys() & set(others)


def test_two_thirds_are_new_and_the_old_rows_are_the_same_in_both_arms(made: Path) -> None:
    danish, english = (stage_rows(made, arm, TINY) for arm in continued.ARMS)
    assert len(danish) == 2
    for one, other in zip(danish, english, strict=True):
        assert one.shape == other.shape == (6, 256)
        assert (one == other).all(axis=1).sum() == 2  # a third, in the same places
    assert not np.array_equal(danish[0], danish[1])


def test_an_arm_that_is_unknown_and_a_share_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="arm 'german' is unknown; it is one of danish"):
        make(tmp_path / "x", ["german"], TINY, SETTINGS)
    with pytest.raises(ParameterError, match=r"old_share must be in \(0, 1\)"):
        ContinuedSettings(old_share=1.0)


def test_a_folder_of_other_settings_is_refused(made: Path) -> None:
    with pytest.raises(InputError, match="made with other settings"):
        make(made, [], ContinuedSettings(seed=1), SETTINGS)


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise continued.PackageNotFoundError(name)

    monkeypatch.setattr(continued, "version", missing)
    with pytest.raises(InputError, match=r"pip install 'propme\[continued\]'"):
        read_messages()


def weights(model: Path) -> bytes:
    return (model / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_arms_are_trained_stage_by_stage_and_gone_on_with(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(made, settings=TINY, demo_settings=SETTINGS)
    models = made / "models"
    names = ("start", "danish-1", "danish-2", "english-1", "english-2")
    assert {path.name for path in models.iterdir() if path.is_dir()} == set(names)
    assert len({weights(models / name) for name in names}) == len(names)
    before = weights(models / "danish-2")
    for left in (models / "danish-2").iterdir():
        left.unlink()
    (models / "danish-2").rmdir()
    trained = []
    train = continued._train_stage

    def watched(folder: Path, label: str, **given: object) -> None:
        trained.append(label)
        train(folder, label=label, **given)

    monkeypatch.setattr(continued, "_train_stage", watched)
    make(made, settings=TINY, demo_settings=SETTINGS)
    assert trained == ["training danish-2"]
    assert weights(models / "danish-2") == before
