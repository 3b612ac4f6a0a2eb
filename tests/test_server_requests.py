"""How often a run is said to ask an index's server, by hand and against what it asks."""

import pytest
from helpers import generation, needs_engine
from small_project import small_parameters

from propme import runner, tables
from propme.index import describe_remote
from propme.records import Prompt
from propme.run import STAGES, open_run
from propme.runner.foreseen import foresee
from propme.runner.running import Which
from propme.runner.server_requests import requests_foreseen
from propme.simpletrace import IndexAddress, TraceSettings, some_of, trace_table, trace_variants

PROMPTS, GENERATION, TRACING, _ = STAGES


@pytest.fixture
def effective(tmp_path):
    """A run that completes 2 generic prompts and 1 prefix, of which 20 tokens each are traced."""
    given = small_parameters(tmp_path) | {
        "output": str(tmp_path / "out"),
        "corpus": "",
        "index": "https://x.invalid/#y",
        "most_read": 1,
        "docs_per_span": 3,
        "n_prompt_free": 0,
        "n_prompts": 2,
        "specific_prompts": "",
        "prefix_tokens": 10,
        "samples": 0,
        "max_new_tokens": 20,
        "n_varied": 0,
    }
    return runner.effective_parameters([], given, None)


def foreseen(effective, *stages, **given):
    return requests_foreseen(stages or STAGES, effective | given, open_run(effective["output"]))


def test_each_prompt_and_each_completion_is_counted(effective):
    """Prompts: 2 x (50 tokens x 2.5 + 2 ends x 11 spellings) + 1 + 25 + 1.

    A trace: 20 x 2.5 look-ups, 20 counts, 1 kept span x (1 + 3), 8 anchors x 3, 1 for the whole.
    """
    a_trace = 50 + 20 + 4 + 24 + 1
    assert foreseen(effective) == {PROMPTS: 2 * 147 + 27, TRACING: 3 * a_trace}
    assert foreseen(effective, samples=4)[TRACING] == 3 * 5 * a_trace
    assert foreseen(effective, samples=4, greedy=False)[TRACING] == 3 * 4 * a_trace
    assert foreseen(effective, strata=[1, 4])[TRACING] == 4 * a_trace
    assert foreseen(effective, PROMPTS) == {PROMPTS: 2 * 147 + 27}
    assert foreseen(effective, index="some/folder") == {}


def test_what_asks_for_nothing_is_sampled_as_often_as_it_is_asked_for(effective):
    """7 cues of 11 spellings, of 2000 documents; greedily 1 + 7 completions, sampled 7 + 7."""
    before, after = foreseen(effective), foreseen(effective, n_prompt_free=7)
    assert after[PROMPTS] - before[PROMPTS] == 2000 + 7 * 11
    assert after[TRACING] - before[TRACING] == 8 * 99
    sampled = foreseen(effective, n_prompt_free=7, samples=3, greedy=False)[TRACING]
    assert sampled == (3 * 3 + 7 + 7) * 99


def test_settings_that_are_left_out_ask_nothing_and_texts_by_people_are_traced_once(effective):
    left_out = {"heldout": "", "n_mismatched": 5, "human": "", "n_human": 5}
    assert foreseen(effective, **left_out) == foreseen(effective)
    people = foreseen(effective, human="texts.jsonl", n_human=5, samples=4)
    assert people[TRACING] == foreseen(effective, samples=4)[TRACING] + 5 * 99
    made = foreseen(effective, specific_prompts="corpus")
    assert made[PROMPTS] == foreseen(effective)[PROMPTS] + 3000 + 2 * 147


def test_own_prompts_are_counted_in_their_file(effective, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"text": "What is the sea?"}\n' * 3)
    assert foreseen(effective, prompt_file=str(file))[TRACING] == 6 * 99


def test_other_thresholds_read_more_documents(effective):
    """Of 2 generic completions and 1 prefix 1 each: 2 x what the settings that ask anew read.

    50 documents a span: 1 x 51 + 8 x 50 + 1. A share of 20 %: 4 x 4 + 24 + 1. The shortest spans
    (1, 2, 8, 16; 4 is the run's) and windows (1, 2, 10; not 5): 7 x (4 + 24 + 1).
    """
    one = foreseen(effective, n_varied=1)[TRACING] - foreseen(effective)[TRACING]
    assert one == 2 * (452 + 41 + 7 * 29)


def test_the_dry_run_tells_requests_and_hours(effective):
    told = foresee(effective | {"request_rate": 2.0}, Which()).needs[-1]
    n = sum(foreseen(effective).values())
    assert told == (
        f"of the index's server, as a rule at most, {n} requests (an estimate),"
        f" {n / 7200:.1f} h at 2 a second: 1_prompts 321, 3_tracing 297"
    )
    assert not any(
        "server, as a rule" in need
        for need in foresee(effective, Which(last=GENERATION, first=GENERATION)).needs
    )


@needs_engine
def test_completions_that_are_there_ask_no_more_than_is_said_and_then_nothing(
    effective, text_index, real_texts, tmp_path
):
    pytest.importorskip("httpx")
    from infinigram_server import infinigram_server

    made = [generation(text[5:120], f"g{n}") for n, text in enumerate(real_texts[:4])]
    made.append(generation("the sea was a wide house; foolish belief (main) epoch", "g4"))
    run = open_run(effective["output"])
    run.write("prompts", tables.to_frame("prompts", [Prompt("p", "generic", "propensity", "a")]))
    run.write("generations", tables.to_frame("generations", made))
    tokenizer = str(text_index / "tokenizer.json")
    with infinigram_server(text_index) as server:
        described = describe_remote(server.address, tokenizer, tmp_path / "answers")
        run.update_record(inputs={"index": described})
        given = {"index": server.address, "tokenizer": tokenizer, "n_varied": 2, "most_read": 20}
        asked_before = len(server.asked)
        needed = foreseen(effective, TRACING, **given)
        assert len(server.asked) == asked_before

        settings = TraceSettings(docs_per_span=3)
        address = IndexAddress.recorded(run.index, rate=0, most_read=20)
        rows = run.read("generations")
        traced = trace_table(rows, address, settings, tmp_path / "parts")
        some = some_of(rows, run.read("prompts"), 2)
        trace_variants(some, traced, address, settings, tmp_path / "variants")
        assert 0 < len(server.asked) - asked_before <= needed[TRACING]
        assert foreseen(effective, TRACING, **given) == {TRACING: 0}
