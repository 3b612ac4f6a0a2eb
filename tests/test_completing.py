"""Every sample once, whatever happens in between."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import killed_generation
import pytest
from tiny import tiny_demo

from propme import tables
from propme.errors import InputError
from propme.generation import TransformersGenerator, complete
from propme.generation.journal import Journal
from propme.generation.protocol import Made, Task
from propme.records import Decoding, Generation, Prompt

SAMPLED = Decoding("sampled", 1.0, 1.0, 2, 12)


class Scripted:
    """A generator that writes each task's name, in batches, and notes what it was asked."""

    identity = "scripted"
    stop_after: int | None = None
    failing: frozenset[str] = frozenset()

    def __init__(self, batch_size: int = 4) -> None:
        self.batch_size = batch_size
        self.asked: list[list[str]] = []

    def describe(self) -> dict[str, str]:
        return {"backend": "scripted"}

    def given(self, prompt: Prompt, max_new_tokens: int) -> str:
        if prompt.text == "impossible":
            raise InputError("it does not fit", prompt.prompt_id)
        return prompt.text

    def batches(self, tasks: Sequence[Task]) -> list[list[Task]]:
        listed = sorted(tasks, key=lambda task: task.generation_id)
        return [listed[i : i + self.batch_size] for i in range(0, len(listed), self.batch_size)]

    def generate(self, batches: Sequence[Sequence[Task]]) -> Iterator[list[Made]]:
        for number, batch in enumerate(batches):
            if number == self.stop_after:
                raise KeyboardInterrupt
            self.asked.append([task.generation_id for task in batch])
            yield [self._made(task) for task in batch]

    def _made(self, task: Task) -> Made:
        if task.generation_id in self.failing:
            return Made(task, task.failed("the server failed"), passing=True)
        text = f"{task.generation_id} {task.seed}"
        return Made(task, task.generation(text=text, token_ids=(), finish_reason="stop"))


def prompts(n: int) -> list[Prompt]:
    return [Prompt(f"p{i}", "generic", "propensity", f"text {i}") for i in range(n)]


def names(generations: Sequence[Generation]) -> list[str]:
    return [generation.generation_id for generation in generations]


def test_after_a_stop_the_same_batches_are_made_and_none_twice(tmp_path: Path) -> None:
    undisturbed = Scripted()
    expected = complete(undisturbed, prompts(9), [SAMPLED], 0)
    assert names(expected) == sorted(f"p{i}/sampled/{n}" for i in range(9) for n in range(2))
    stopped = Scripted()
    stopped.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        complete(stopped, prompts(9), [SAMPLED], 0, tmp_path / "j")
    again = Scripted()
    assert complete(again, prompts(9), [SAMPLED], 0, tmp_path / "j") == expected
    assert stopped.asked + again.asked == undisturbed.asked
    third = Scripted()
    assert complete(third, prompts(9), [SAMPLED], 0, tmp_path / "j") == expected
    assert third.asked == []


def test_of_more_prompts_only_the_new_ones_are_made_together(tmp_path: Path) -> None:
    complete(Scripted(), prompts(4), [SAMPLED], 0, tmp_path / "j")
    more = Scripted()
    made = complete(more, prompts(6), [SAMPLED], 0, tmp_path / "j")
    assert more.asked == [["p4/sampled/0", "p4/sampled/1", "p5/sampled/0", "p5/sampled/1"]]
    assert made == complete(Scripted(), prompts(6), [SAMPLED], 0)


def test_another_model_takes_nothing_of_what_was_kept(tmp_path: Path) -> None:
    complete(Scripted(), prompts(2), [SAMPLED], 0, tmp_path / "j")
    other = Scripted()
    other.identity = "another"
    complete(other, prompts(2), [SAMPLED], 0, tmp_path / "j")
    assert sum(map(len, other.asked)) == 4


def test_what_failed_for_now_is_tried_again_and_what_cannot_be_is_not(tmp_path: Path) -> None:
    asked = [*prompts(3), Prompt("p9", "generic", "propensity", "impossible")]
    first = Scripted()
    first.failing = frozenset({"p1/sampled/0"})
    made = {g.generation_id: g.error for g in complete(first, asked, [SAMPLED], 0, tmp_path / "j")}
    assert {name: error for name, error in made.items() if error} == {
        "p1/sampled/0": "the server failed",
        "p9/sampled/0": "it does not fit",
        "p9/sampled/1": "it does not fit",
    }
    second = Scripted()
    made = {g.generation_id: g.error for g in complete(second, asked, [SAMPLED], 0, tmp_path / "j")}
    assert second.asked == [["p1/sampled/0"]]
    assert not made["p1/sampled/0"]


def test_if_no_prompt_is_possible_nothing_is_made() -> None:
    impossible = [Prompt("p9", "generic", "propensity", "impossible")]
    with pytest.raises(InputError, match="p9: it does not fit"):
        complete(Scripted(), impossible, [SAMPLED], 0)


def as_rows(generations: Sequence[Generation]) -> list[Generation]:
    """As the table gives them back."""
    frame = tables.to_frame("generations", generations)
    return list(tables.to_records("generations", frame))


def kill_at_random_moments(kills: int, journal: Path, samples: int) -> None:
    """Start the generation and kill it, so often."""
    chance = random.Random(kills)
    arguments = [killed_generation.__file__, tiny_demo().model, journal, samples]
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.2, 1.2))
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("kills", "samples"), [(3, 12), pytest.param(20, 50, marks=pytest.mark.slow)]
)
def test_killed_at_random_moments_the_rows_are_those_of_an_undisturbed_run(
    kills: int, samples: int, tmp_path: Path
) -> None:
    model, journal = str(tiny_demo().model), tmp_path / "j"
    expected = killed_generation.generate(model, None, samples)
    assert len(expected) == 40 * (1 + samples)
    kill_at_random_moments(kills, journal, samples)
    assert 0 < len(Journal(journal)) < len(expected)
    made = killed_generation.generate(model, journal, samples)
    assert as_rows(made) == as_rows(expected)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert set(Counter(key for line in lines for key, _ in line).values()) == {1}


def test_what_was_added_leaves_the_texts_of_a_real_model_as_they_were(tmp_path: Path) -> None:
    generator = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=8)
    few = complete(generator, killed_generation.PROMPTS[:5], [SAMPLED], 0, tmp_path / "j")
    more = complete(generator, killed_generation.PROMPTS[:9], [SAMPLED], 0, tmp_path / "j")
    anew = complete(generator, killed_generation.PROMPTS[:9], [SAMPLED], 0)
    assert {g for g in more if g.prompt_id in {f.prompt_id for f in few}} == set(few)
    assert [g.text for g in more] == [g.text for g in anew]
