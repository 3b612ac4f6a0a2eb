"""Stage 1: request sets, prefixes, and the look-up of every prompt in the corpus."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from helpers import DANISH, byte_tokenizer, index_of, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from propme import tables
from propme.errors import InputError
from propme.index.brute_force import BruteForceIndex
from propme.prompts import (
    audit,
    choose,
    heldout_prompts,
    prefix_prompts,
    read_requests,
    shipped_sets,
)
from propme.records import Prompt

WORDS = word_tokenizer([f"w{n}" for n in range(400)])
BYTES = byte_tokenizer()
BPE = byte_tokenizer(DANISH, 80)

SIZES = {"generic_da": 300, "generic_en": 300, "specific_bible_en": 100}


def write(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


# --- the shipped sets -----------------------------------------------------------------------------


def test_these_sets_are_shipped() -> None:
    assert shipped_sets() == sorted(SIZES)


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_a_shipped_set_is_sound(name: str, size: int) -> None:
    setting = name.split("_")[0]
    prompts = read_requests(setting, name, seed=0)
    assert len(prompts) == size
    assert len({p.prompt_id for p in prompts}) == len({p.text for p in prompts}) == size
    for prompt in prompts:
        assert (prompt.setting, prompt.kind) == (setting, "propensity")
        assert prompt.prompt_id.startswith(f"{setting}/")
        assert prompt.category
        assert prompt.text == prompt.text.strip()
        assert "\ufffd" not in prompt.text
        assert not re.search(r"\s{2}|\t", prompt.text)
    assert max(Counter(p.category for p in prompts).values()) < size / 2


def trigrams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    return set(zip(words, words[1:], words[2:], strict=False)) or {tuple(words)}


@pytest.mark.parametrize("name", SIZES)
def test_no_two_requests_of_a_set_are_nearly_the_same(name: str) -> None:
    known = [(p.prompt_id, trigrams(p.text)) for p in read_requests("generic", name, seed=0)]
    near = [
        (one, other)
        for (one, a), (other, b) in combinations(known, 2)
        if len(a & b) / len(a | b) > 0.3
    ]
    assert near == []


# --- reading a set --------------------------------------------------------------------------------


def test_the_seed_decides_the_order_and_only_it() -> None:
    first = read_requests("generic", "generic_da", seed=1)
    assert read_requests("generic", "generic_da", seed=1) == first
    other = read_requests("generic", "generic_da", seed=2)
    assert other != first
    assert sorted(other, key=lambda p: p.prompt_id) == sorted(first, key=lambda p: p.prompt_id)


def test_an_own_set_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "own.jsonl",
        [
            {"id": "x", "text": "Hej du", "category": "chat", "language": "da"},
            {"text": " Hvorfor? "},
        ],
    )
    prompts = {p.prompt_id: p for p in read_requests("specific", path, seed=0)}
    assert sorted(prompts) == ["specific/own.jsonl:2", "specific/x"]
    own = prompts["specific/x"]
    assert (own.text, own.category, own.language, own.setting) == (
        "Hej du",
        "chat",
        "da",
        "specific",
    )
    assert prompts["specific/own.jsonl:2"].text == " Hvorfor? "  # nothing is stripped


def test_a_setting_can_be_left_out() -> None:
    assert read_requests("specific", "", seed=0) == []


def test_an_unknown_set_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError) as caught:
        read_requests("generic", "generic_fr", seed=0)
    assert caught.value.path == "generic_fr"
    for name in SIZES:
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ([{"id": "x", "text": "a"}, {"id": "x", "text": "b"}], 2, "'x' stands twice"),
        ([{"id": 1, "text": "a"}, {"id": "1", "text": "b"}], 2, "'1' stands twice"),
        ([{"id": "x", "text": "a"}, {"id": "y", "text": ""}], 2, "empty"),
        ([{"id": "x", "text": " \n"}], 1, "empty"),
        ([{"id": "x", "prompt": "a"}], 1, "text"),
        ([{"id": "x", "text": 3}], 1, "not a string"),
    ],
)
def test_a_faulty_line_is_named(
    tmp_path: Path, lines: list[dict[str, Any]], line: int, message: str
) -> None:
    path = write(tmp_path / "faulty.jsonl", lines)
    with pytest.raises(InputError, match=message) as caught:
        read_requests("generic", path, seed=0)
    assert (caught.value.path, caught.value.line) == (path, line)


# --- prefixes -------------------------------------------------------------------------------------


def words(first: int, n: int) -> str:
    return " ".join(f"w{(first * 7 + i) % 400}" for i in range(n))


def test_a_prefix_is_the_first_50_tokens_and_its_target_the_next_50() -> None:
    text = "-" + " ".join(DANISH)
    index = index_of(
        [text],
        BYTES,
        [{"id": "x", "source": "s", "license": "l", "lang": "da", "copies": 4}],
    )
    (prompt,) = prefix_prompts(index, 1, seed=0)
    ids = BYTES.encode(text)
    assert "\ufffd" not in BYTES.decode(ids[:50]) + BYTES.decode(ids[50:100])
    assert prompt.text == BYTES.decode(ids[:50])
    assert prompt.target == BYTES.decode(ids[50:100])
    assert text.startswith(prompt.text + prompt.target)
    assert (prompt.prompt_id, prompt.setting, prompt.kind) == ("prefix/x", "prefix", "capability")
    assert (prompt.document_id, prompt.source, prompt.licence) == ("x", "s", "l")
    assert (prompt.language, prompt.copies) == ("da", 4)


@pytest.mark.parametrize("shift", range(4))
def test_a_character_cut_at_token_50_goes_to_the_target(shift: int) -> None:
    text = "x" * shift + "🎉" * 40
    (prompt,) = prefix_prompts(index_of([text], BYTES), 1, seed=0)
    assert prompt.text == "x" * shift + "🎉" * ((50 - shift) // 4)
    assert text.startswith(prompt.text + prompt.target)
    assert len((prompt.text + prompt.target).encode()) in range(97, 101)


@pytest.mark.parametrize("n", [99, 100, 101])
def test_documents_of_fewer_than_100_tokens_are_never_taken(n: int) -> None:
    index = index_of([words(0, n), words(1, 99), ""], WORDS)
    if n < 100:
        with pytest.raises(InputError, match="too few documents of >= 100 tokens: 1 prefixes"):
            prefix_prompts(index, 1, seed=0)
    else:
        (prompt,) = prefix_prompts(index, 1, seed=0)
        assert prompt.document_id == "d0"
        assert prompt.text.split() == words(0, 50).split()
        assert prompt.target.split() == words(0, 100).split()[50:]


def stratified() -> BruteForceIndex:
    """Six documents each of 1, 2 and 8 copies, and two that do not say."""
    metadata: list[dict[str, Any]] = [
        {"id": f"{copies}-{n}", "copies": copies} for copies in (1, 2, 8) for n in range(6)
    ]
    metadata += [{"id": "none"}, {"id": "odd", "copies": "many"}]
    return index_of([words(n, 110) for n in range(20)], WORDS, metadata)


def test_as_many_of_each_number_of_copies() -> None:
    prompts = prefix_prompts(stratified(), 4, seed=0, copies=[1, 8])
    assert Counter(p.copies for p in prompts) == {1: 4, 8: 4}
    assert [p.copies for p in prompts] == [1] * 4 + [8] * 4
    assert len({p.prompt_id for p in prompts}) == 8


def test_without_copies_all_documents_are_drawn_from() -> None:
    prompts = prefix_prompts(stratified(), 20, seed=0)
    assert Counter(p.copies for p in prompts) == {1: 6, 2: 6, 8: 6, None: 2}


def test_the_field_of_copies_can_be_named() -> None:
    metadata = [{"id": "x", "copies": 1, "times": 3}, {"id": "y", "copies": 3, "times": True}]
    index = index_of([words(0, 100), words(1, 100)], WORDS, metadata)
    (prompt,) = prefix_prompts(index, 1, seed=0, copies_field="times", copies=[3])
    assert (prompt.document_id, prompt.copies) == ("x", 3)
    with pytest.raises(InputError, match=r"with times = \[1\]"):  # true is no number
        prefix_prompts(index, 1, seed=0, copies_field="times", copies=[1])


def test_equal_prefixes_are_taken_once() -> None:
    same = words(0, 60)
    index = index_of([f"{same} {words(n, 60)}" for n in range(5)] + [words(9, 100)], WORDS)
    prompts = prefix_prompts(index, 2, seed=0)
    assert len({p.text for p in prompts}) == 2
    with pytest.raises(InputError, match=": 1 prefixes missing of 3 each"):
        prefix_prompts(index, 3, seed=0)


@pytest.mark.parametrize(
    ("n", "copies", "message"),
    [
        (25, [], r"tokens: 5 prefixes missing of 25 each.*n_prefix"),
        (8, [1, 2], r"with copies = \[1, 2\]: 4 prefixes missing of 8 each"),
        (6, [1, 5], r"with copies = \[5\]: 6 prefixes missing of 6 each"),
    ],
)
def test_a_shortage_says_how_many_are_missing(n: int, copies: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prefix_prompts(stratified(), n, seed=0, copies=copies)


def test_the_seed_decides_which_documents() -> None:
    index = stratified()
    drawn = [tuple(p.document_id for p in prefix_prompts(index, 5, seed)) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_the_draw_is_uniform_over_documents_whatever_their_length() -> None:
    index = index_of([words(n, 100 + 30 * n) for n in range(8)], WORDS)
    drawn = Counter(
        p.document_id for seed in range(1000) for p in prefix_prompts(index, 2, seed=seed)
    )
    assert len(drawn) == 8
    # Without replacement each document is in a draw with probability 1/4, variance 3/16.
    chi_square = sum((count - 250) ** 2 / 250 for count in drawn.values())
    assert chi_square < 24.3  # 7 degrees of freedom: exceeded less than once in a thousand


# --- prefixes of texts that were never trained on -------------------------------------------------


def heldout_file(tmp_path: Path) -> str:
    lines: list[dict[str, Any]] = [
        {"id": f"h{n}", "text": words(n, 90 + 5 * n), "source": "s"} for n in range(6)
    ]
    return write(tmp_path / "heldout.jsonl", lines)


def test_heldout_prompts_are_controls_of_no_copies(tmp_path: Path) -> None:
    index = index_of(["w1 w2"], WORDS)
    prompts = heldout_prompts(index, heldout_file(tmp_path), 4, seed=0)
    assert [p.prompt_id for p in prompts] == [f"mismatched_prefix/h{n}" for n in (2, 3, 4, 5)]
    for number, prompt in enumerate(prompts, start=2):
        assert (prompt.setting, prompt.kind, prompt.copies) == ("mismatched_prefix", "control", 0)
        assert (prompt.document_id, prompt.source) == (f"h{number}", "s")
        assert prompt.text.split() == words(number, 50).split()
        assert prompt.target.split() == words(number, 100).split()[50:]


def test_no_file_no_control() -> None:
    assert heldout_prompts(index_of(["w1"], WORDS), "", 5, seed=0) == []


def test_the_seed_decides_which_are_held_out(tmp_path: Path) -> None:
    index, path = index_of(["w1"], WORDS), heldout_file(tmp_path)
    drawn = {
        seed: [p.prompt_id for p in heldout_prompts(index, path, 2, seed)] for seed in range(9)
    }
    assert drawn[3] == [p.prompt_id for p in heldout_prompts(index, path, 2, 3)]
    assert len({tuple(ids) for ids in drawn.values()}) > 1


def test_too_few_held_out_says_how_many(tmp_path: Path) -> None:
    path = heldout_file(tmp_path)
    with pytest.raises(InputError, match="4 documents of >= 100 tokens, 5 wanted") as caught:
        heldout_prompts(index_of(["w1"], WORDS), path, 5, seed=0)
    assert caught.value.path == path


# --- the look-up ----------------------------------------------------------------------------------


def prompt_of(text: str, kind: str = "propensity", name: str = "generic/x") -> Prompt:
    return Prompt(name, name.split("/")[0], kind, text)


def audited(text: str, index: BruteForceIndex, limit: int = 8, kind: str = "propensity") -> Prompt:
    (prompt,) = audit([prompt_of(text, kind)], index, limit)
    return prompt


def slow_longest(documents: list[list[int]], ids: list[int]) -> int:
    return max(
        stop - start
        for start in range(len(ids) + 1)
        for stop in range(start, len(ids) + 1)
        if stop == start
        or any(d[i : i + stop - start] == ids[start:stop] for d in documents for i in range(len(d)))
    )


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.text("ab \n", min_size=1, max_size=12), min_size=1, max_size=3),
    st.text("ab ", min_size=1, max_size=9),
)
def test_the_longest_span_is_that_of_brute_force_alone_or_after_a_space(
    documents: list[str], text: str
) -> None:
    tokenizer = byte_tokenizer(["ab ba aab bba ab"] * 4, 6)
    encoded = [tokenizer.encode(document) for document in documents]
    found = audited(text, index_of(documents, tokenizer))
    ids = tokenizer.encode(text)
    assert found.n_tokens == len(ids)
    assert found.overlap == found.longest_span / found.n_tokens
    if found.occurs_whole:
        assert any(text.strip() in document for document in documents)
        assert found.longest_span == len(ids)
    else:
        spaced = slow_longest(encoded, tokenizer.encode(" " + text.lstrip()))
        assert found.longest_span == min(len(ids), max(slow_longest(encoded, ids), spaced))
    if len(text.split()) >= 3:
        assert found.occurs_whole == any(text.strip() in document for document in documents)
        assert found.n_occurrences == sum(
            document.startswith(text.strip(), at) for document in documents for at in range(12)
        )


@pytest.mark.parametrize("text", ["Og det skete", "skete", "det skete i de dage"])
@pytest.mark.parametrize("before", ["", " ", "\n", "\r\n", "»", '"', "(", "a ", "\t", "- "])
@pytest.mark.parametrize("after", ["", " ", "\n", ".", "«", '"', ")", " b", "!?"])
def test_a_whole_prompt_is_found_whatever_stands_around_it(
    text: str, before: str, after: str
) -> None:
    tokenizer = byte_tokenizer([f"{before}{text}{after} andet"] * 5, 60)
    index = index_of(["Noget andet.", f"Forud {before}{text}{after} bag."], tokenizer)
    found = audited(text, index)
    assert found.occurs_whole
    assert (found.n_occurrences, found.overlap) == (1, 1.0)
    assert found.refused == "stands whole in the corpus"


def test_a_prompt_that_shares_too_much_is_refused() -> None:
    index = index_of(["w1 w2 w3 w4 w5"], WORDS)
    text = "w9 w1 w2 w3 w4 w8"
    assert audited(text, index, limit=4).refused == ""
    refused = audited(text, index, limit=3)
    assert refused.refused == "shares 4 tokens with a document; limit 3"
    assert (refused.longest_span, refused.n_tokens, refused.occurs_whole) == (4, 6, False)
    assert refused.overlap == pytest.approx(4 / 6)


def test_the_overlap_never_exceeds_one() -> None:
    # " a" is merged first, so that "abcd" is one token and " abcd" is three.
    tokenizer = byte_tokenizer([" a a a a a a", *["abcd"] * 4], 5)
    assert [len(tokenizer.encode(text)) for text in ("abcd", " abcd")] == [1, 3]
    found = audited("abcd", index_of([" abx"], tokenizer))
    assert (found.occurs_whole, found.longest_span, found.overlap) == (False, 1, 1.0)


def test_a_prompt_of_which_the_corpus_holds_nothing_is_used() -> None:
    found = audited("xyz", index_of(["ab"], BYTES), limit=0)
    assert (found.n_tokens, found.longest_span, found.overlap, found.refused) == (3, 0, 0.0, "")


def test_a_prefix_must_stand_whole_in_the_corpus() -> None:
    index = index_of([" ".join(DANISH)], BPE)
    assert audited(DANISH[0][:40], index, limit=0, kind="capability").refused == ""
    missing = audited(DANISH[0][:40] + "x", index, kind="capability")
    assert missing.refused == "does not stand in the corpus"
    assert missing.longest_span > 5


def test_a_control_may_share_much_and_not_all() -> None:
    index = index_of(["w1 w2 w3 w4 w5"], WORDS)
    assert audited("w1 w2 w3 w4 w9", index, limit=1, kind="control").refused == ""
    whole = audited("w1 w2 w3", index, limit=1, kind="control")
    assert whole.refused == "stands whole in the corpus"


def test_prompts_keep_their_order_and_all_else() -> None:
    index = index_of(["w1 w2"], WORDS)
    prompts = [Prompt(f"generic/{n}", "generic", "propensity", f"w{n} w7", "c") for n in range(5)]
    found = audit(iter(prompts), index, 5)
    assert [(p.prompt_id, p.text, p.category) for p in found] == [
        (p.prompt_id, p.text, "c") for p in prompts
    ]
    assert audit(found, index, 5) == found


def test_prefixes_of_the_corpus_stand_in_it(tmp_path: Path) -> None:
    texts = [f"{n} {DANISH[n % 3]}\r\n\t{n * n} {DANISH[(n + 1) % 3] * 6} {n}" for n in range(12)]
    index = index_of(texts, BPE)
    prompts = audit(prefix_prompts(index, 6, seed=0), index, 0)
    assert [p.refused for p in prompts] == [""] * 6
    assert all(p.overlap == 1.0 for p in prompts)
    tables.write("prompts", tables.to_frame("prompts", prompts), tmp_path)


# --- the choice -----------------------------------------------------------------------------------


def named(setting: str, n: int, kind: str = "propensity", refused: str = "") -> list[Prompt]:
    tag = "no" if refused else "yes"
    return [Prompt(f"{setting}/{tag}{i}", setting, kind, "text", refused=refused) for i in range(n)]


def test_the_first_usable_ones_and_all_refused_ones_are_kept() -> None:
    generic = named("generic", 2, refused="r") + named("generic", 5)
    late = [Prompt("generic/late", "generic", "propensity", "text", refused="r")]
    prefix = named("prefix", 7, "capability")
    control = named("mismatched_prefix", 4, "control")
    chosen = choose(iter([*generic, *late, *prefix, *control]), 3)
    assert chosen == [*generic[:5], *late, *prefix, *control]


def test_each_setting_has_its_own_number() -> None:
    generic, specific = named("generic", 3), named("specific", 4)
    mixed = [p for pair in zip(generic, specific, strict=False) for p in pair]
    assert choose(mixed, 2) == mixed[:4]


def test_too_few_usable_ones_names_the_setting_and_the_reasons() -> None:
    prompts = named("generic", 5) + named("specific", 2)
    prompts += named("specific", 3, refused="stands whole in the corpus")
    prompts += [Prompt("specific/z", "specific", "propensity", "text", refused="shares 9")]
    with pytest.raises(InputError) as caught:
        choose(prompts, 3)
    message = str(caught.value)
    assert message.startswith("setting 'specific': 2 usable prompts, 3 wanted")
    assert "'stands whole in the corpus': 3" in message
    assert "'shares 9': 1" in message
    assert "longest_allowed" in message


@pytest.mark.parametrize(
    ("setting", "kind"), [("prefix", "capability"), ("mismatched_prefix", "control")]
)
def test_a_setting_without_any_usable_prompt_is_an_error(setting: str, kind: str) -> None:
    with pytest.raises(InputError, match=f"setting '{setting}': 0 usable prompts, 1 wanted"):
        choose(named("generic", 2) + named(setting, 2, kind, refused="r"), 1)
    # One is enough, whatever is asked of the others.
    assert len(choose(named("generic", 2) + named(setting, 1, kind), 2)) == 3


def test_documents_with_the_same_id_give_prompts_of_their_own_id() -> None:
    index = index_of([words(0, 120), words(9, 120)], WORDS, [{"id": "same"}, {"id": "same"}])
    made = prefix_prompts(index, 2, seed=0)
    assert {prompt.prompt_id for prompt in made} == {"prefix/same", "prefix/same~2"}
    assert {prompt.document_id for prompt in made} == {"same"}
