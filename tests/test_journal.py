"""Finished generations survive a kill at any byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from propme.errors import InputError
from propme.generation.journal import Journal, key_of
from propme.generation.protocol import Task
from propme.records import Decoding, Generation, Prompt

SAMPLED = Decoding("sampled", 1.0, 0.9, 3, 24)


def task(sample: int = 0, given: tuple[int, ...] | str = (0, 5)) -> Task:
    return Task(Prompt("p/1", "generic", "propensity", "a"), SAMPLED, sample, 7, given)


def made(sample: int, text: str = "æ\n\u2028 «x»") -> Generation:
    return task(sample).generation(text=text, token_ids=(1, 2**31), finish_reason="stop")


def rows(*samples: int) -> list[tuple[str, Generation]]:
    return [(key_of("m", task(n)), made(n)) for n in samples]


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    first = Journal(tmp_path / "deep" / "j")
    first.append(rows(0, 1))
    first.append([])
    first.append(rows(2))
    for journal in (first, Journal(tmp_path / "deep" / "j")):
        assert len(journal) == 3
        assert [journal.get(key) for key, _ in rows(0, 1, 2)] == [made(0), made(1), made(2)]
        assert journal.get(key_of("m", task(3))) is None


def test_a_line_torn_at_any_byte_is_dropped_and_what_was_before_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "j"
    Journal(path).append(rows(0, 1))
    whole = path.stat().st_size
    Journal(path).append(rows(2))
    content = path.read_bytes()
    for size in range(whole, len(content)):
        path.write_bytes(content[:size])
        again = Journal(path)
        assert len(again) == 2
        again.append(rows(2))
        assert path.read_bytes() == content


@pytest.mark.parametrize("damage", [b"{\n", b"[[1]]\n", b'[["k", {"text": 1}]]\n', b"\x00\n"])
def test_a_damaged_line_is_named(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "j"
    Journal(path).append(rows(0))
    path.write_bytes(path.read_bytes() + damage)
    with pytest.raises(InputError, match="remove the file") as caught:
        Journal(path)
    assert (caught.value.path, caught.value.line) == (str(path), 2)


def test_the_key_changes_with_all_that_decides_a_completion() -> None:
    base = task()
    others = [
        task(1),
        task(given=(0, 6)),
        task(given="a"),
        replace(base, seed=8),
        replace(base, prompt=replace(base.prompt, prompt_id="p/2")),
        replace(base, prompt=replace(base.prompt, chat=True)),
        *(
            replace(base, decoding=replace(SAMPLED, **{name: value}))
            for name, value in {
                "temperature": 0.5,
                "top_p": 1.0,
                "top_k": 3,
                "max_new_tokens": 25,
            }.items()
        ),
    ]
    keys = {key_of("m", each) for each in (base, *others)} | {key_of("another", base)}
    assert len(keys) == len(others) + 2


def test_the_key_does_not_change_with_the_number_of_samples_nor_what_the_corpus_holds() -> None:
    base = task()
    more = replace(base, decoding=replace(SAMPLED, samples=9))
    counted = replace(base, prompt=replace(base.prompt, n_tokens=4, longest_span=2))
    assert key_of("m", more) == key_of("m", counted) == key_of("m", base)
