"""Near-verbatim recall: hand-worked pairs, and the fast search against `difflib`."""

from __future__ import annotations

import difflib
import math
import pickle
import random
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propme.near_verbatim import (
    AlignmentCostError,
    Block,
    Reference,
    Thresholds,
    alignment,
    matching_blocks,
    normalize_words,
    recall,
)
from propme.near_verbatim import matching as near_verbatim

# --- the slow truth: the specification word for word, over difflib --------------------------------


TEXT_PARTS = st.sampled_from(
    [
        *"abAB.-_' ",
        " the",
        " sea",
        " hav",
        "et ",
        "é",
        "e\u0301",
        "ø",
        "ß",
        "İ",
        "…",
        ". . .",
        "\ud800",
        "\u2019",
        "«",
        "\u2014",
        "\u0085",
        "\u1680",
        "\u2028",
        "\u3000",
        "\x1c",
        "\x0b",
        "\n",
        "\t",
        "🎉",
        "_x_",
    ]
)


def recall_words(reference: Sequence[str], candidate: Sequence[str]) -> float:
    """Recall of words, by `alignment`; `recall` of the texts that they make must be the same."""
    agreeing = sum(block.words for block in alignment(reference, candidate))
    value = agreeing / len(reference) if reference else 0.0
    texts = " ".join(reference), " ".join(candidate)
    if [normalize_words(text) for text in texts] == [list(reference), list(candidate)]:
        assert recall(*texts) == value
    return value


@settings(max_examples=300, deadline=None)
@given(
    st.lists(TEXT_PARTS, max_size=40).map("".join), st.lists(TEXT_PARTS, max_size=80).map("".join)
)
def test_a_reference_numbers_the_words_that_splitting_makes(text: str, window: str) -> None:
    words, others = normalize_words(text), normalize_words(window)
    expected = sum(block.words for block in alignment(words, others)) / len(words) if words else 0.0
    reference = Reference(text)
    assert reference.recall(window) == expected
    assert reference.recall(text) == (1.0 if words else 0.0)


def slow_blocks(reference: list[str], candidate: list[str]) -> list[tuple[int, int, int]]:
    matcher = difflib.SequenceMatcher(None, reference, candidate, autojunk=False)
    return [(a, b, size) for a, b, size in matcher.get_matching_blocks() if size]


def slow_thresholds(n: int) -> tuple[int, ...]:
    def share(percent: int, lowest: int, highest: int) -> int:
        return max(lowest, min(highest, round(Fraction(percent * n, 100))))

    l1, l2 = share(15, 2, 20), share(35, 4, 100)
    if n < 4:
        l1, l2 = min(l1, n), n
    return l1, l2, share(2, 1, 6), share(1, 1, 3), share(8, 2, 12), share(3, 1, 5)


def slow_merge(runs: list[list[int]], g: int, a: int) -> list[list[int]]:
    """Runs are [reference start, stop, candidate start, stop, words]."""
    result = [list(run) for run in runs]
    position = 1
    while position < len(result):
        (_, ref_stop, _, doc_stop, words), after = result[position - 1], result[position]
        gap_ref, gap_doc = after[0] - ref_stop, after[2] - doc_stop
        if max(gap_ref, gap_doc) <= g and abs(gap_ref - gap_doc) <= a:
            result[position - 1][1], result[position - 1][3] = after[1], after[3]
            result[position - 1][4] = words + after[4]
            del result[position]
        else:
            position += 1
    return result


def slow_alignment(reference: list[str], candidate: list[str]) -> list[list[int]]:
    l1, l2, g1, a1, g2, a2 = slow_thresholds(len(reference))
    runs = [[i, i + k, j, j + k, k] for i, j, k in slow_blocks(reference, candidate)]
    runs = [run for run in slow_merge(runs, g1, a1) if run[4] >= l1]
    return [run for run in slow_merge(runs, g2, a2) if run[4] >= l2]


def slow_recall(reference: list[str], candidate: list[str]) -> float:
    if not reference:
        return 0.0
    return sum(run[4] for run in slow_alignment(reference, candidate)) / len(reference)


def as_triples(blocks: list[Block]) -> list[tuple[int, int, int]]:
    return [(block.reference_start, block.candidate_start, block.words) for block in blocks]


# --- normalisation ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t\u00a0\u3000", []),
        ("One  two\nthree", ["one", "two", "three"]),
        # Single quotes, then double quotes and double guillemets.
        ("\u2018a\u2019 \u201ab\u201b", ["'a'", "'b'"]),
        ("\u201ca\u201d \u201eb\u201f \u00abc\u00bb", ['"a"', '"b"', '"c"']),
        # Single guillemets are not among the quotes of the specification.
        ("\u2039a\u203a", ["\u2039a\u203a"]),
        # En dash, horizontal bar, minus and em dash are one; hyphens are not dashes.
        ("a\u2013b a\u2015b a\u2212b a\u2014b a-b", ["a\u2014b"] * 4 + ["a-b"]),
        # NFKC: ligature, full-width letter, superscript, no-break space.
        ("\ufb01ne \uff21 x\u00b2 a\u00a0b", ["fine", "a", "x2", "a", "b"]),
        # Capitals with and without a one-letter lower case.
        ("\u00c6BLE \u0130", ["\u00e6ble", "i\u0307"]),
    ],
)
def test_normalize_words(text: str, words: list[str]) -> None:
    assert normalize_words(text) == words


@pytest.mark.parametrize("dots", ["...", ". . .", "\u2026", ".\u00a0.\u202f.", ".  .\n."])
def test_every_ellipsis_is_three_dots_apart_from_the_next_word(dots: str) -> None:
    assert normalize_words(f"wait{dots}what") == ["wait...", "what"]
    assert normalize_words(f"wait{dots}3") == ["wait...", "3"]
    assert normalize_words(f"wait {dots} what") == ["wait", "...", "what"]
    # Before anything but a letter or digit no space is put in.
    assert normalize_words(f'wait{dots}" no') == ['wait..."', "no"]
    assert normalize_words(f"wait{dots}_") == ["wait..._"]


def test_two_dots_and_four_dots() -> None:
    assert normalize_words("a..b") == ["a..b"]
    # The last three of four dots stand before a letter.
    assert normalize_words("a....b") == ["a....", "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a _word_ here", ["a", "word", "here"]),
        ("_one_ _two_", ["one", "two"]),
        ("(_don't_), _so_!", ["(don't),", "so!"]),
        # Names are not emphasis, and a phrase is not a word.
        ("snake_case_name __init__ a_b_", ["snake_case_name", "__init__", "a_b_"]),
        ("_two words_", ["_two", "words_"]),
        ("_ __ _open", ["_", "__", "_open"]),
    ],
)
def test_emphasis(text: str, words: list[str]) -> None:
    assert normalize_words(text) == words


@given(st.text(max_size=80))
def test_words_are_never_empty_and_hold_no_white_space(text: str) -> None:
    assert all(len(word.split()) == 1 and word.split()[0] == word for word in normalize_words(text))


# --- thresholds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, (0, 0, 1, 1, 2, 1)),
        (1, (1, 1, 1, 1, 2, 1)),
        (2, (2, 2, 1, 1, 2, 1)),
        (3, (2, 3, 1, 1, 2, 1)),
        (4, (2, 4, 1, 1, 2, 1)),
        (10, (2, 4, 1, 1, 2, 1)),  # 1.5 -> 2, 3.5 -> 4
        (30, (4, 10, 1, 1, 2, 1)),  # 4.5 -> 4, 10.5 -> 10
        (50, (8, 18, 1, 1, 4, 2)),  # 7.5 -> 8, 17.5 -> 18; 1; 0.5 -> 0 -> 1; 4; 1.5 -> 2
        (90, (14, 32, 2, 1, 7, 3)),  # 13.5 -> 14, 31.5 -> 32 (31 in floating point)
        (150, (20, 52, 3, 2, 12, 4)),  # 22.5 -> 20 by the clamp, 52.5 -> 52; 4.5 -> 4
        (250, (20, 88, 5, 2, 12, 5)),  # 87.5 -> 88; 5; 2.5 -> 2; 20 -> 12; 7.5 -> 8 -> 5
        (10_000, (20, 100, 6, 3, 12, 5)),
    ],
)
def test_thresholds(n: int, expected: tuple[int, ...]) -> None:
    assert Thresholds.for_length(n) == Thresholds(*expected)


def test_thresholds_are_the_exact_fractions_at_every_length() -> None:
    for n in range(1500):
        assert Thresholds.for_length(n) == Thresholds(*slow_thresholds(n)), n


def test_thresholds_refuse_negative_values() -> None:
    with pytest.raises(ValueError, match="n must be >= 0, got -1"):
        Thresholds.for_length(-1)
    with pytest.raises(ValueError, match="g2 must be >= 0, got -3"):
        Thresholds(l1=1, l2=1, g1=1, a1=1, g2=-3, a2=1)


# --- recall by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generation", "window", "expected"),
    [
        ("", "", 0.0),
        ("", "some words", 0.0),
        (" \n", "some words", 0.0),
        ("some words", "", 0.0),
        # One to three words: the whole of it or nothing (l2 = n).
        ("One", "only one here", 1.0),
        ("one", "only two here", 0.0),
        ("one two", "zero one two three", 1.0),
        ("one two", "one three", 0.0),
        ("one two three", "zero one two three four", 1.0),
        ("one two three", "one two four", 0.0),
        # n = 2, l1 = 2: apart by one word the two blocks of one merge (g1 = 1, a1 = 1).
        ("one two", "one and two", 1.0),
        ("one two", "one and then two", 0.0),
        # n = 4, l2 = 4: three words are not enough.
        ("one two three four", "one two three four", 1.0),
        ("one two three four", "one two three five", 0.0),
        # n = 8, l2 = 4: halves that changed places never both count; the first one does.
        ("a b c d e f g h", "e f g h a b c d", 0.5),
        # Typography only: ' " ... and the em dash, n = 6.
        (
            "\u201cIt\u2019s\u2026 _late_ \u2013 he said\u201d",
            "\u00abit's. . . late \u2014 he said\"",
            1.0,
        ),
    ],
)
def test_recall_of_short_texts(generation: str, window: str, expected: float) -> None:
    assert recall(generation, window) == expected


def numbered(n: int) -> list[str]:
    return [f"w{i}" for i in range(n)]


def replaced(words: list[str], *positions: int) -> list[str]:
    return [f"x{i}" if i in positions else word for i, word in enumerate(words)]


# For n = 20: l1 = 3, l2 = 7, g1 = 1, a1 = 1, g2 = round(1.6) = 2, a2 = round(0.6) = 1.
TWENTY = numbered(20)


@pytest.mark.parametrize(
    ("candidate", "agreeing"),
    [
        (TWENTY, 20),
        # Gap 1 | 1: merged in the first pass; the replaced word does not count.
        (replaced(TWENTY, 14), 19),
        # Gap 2 | 2: over g1, within g2. 14 + 4 words.
        (replaced(TWENTY, 14, 15), 18),
        # Gap 3 | 3: over both. 13 words; the other 4 are fewer than l2.
        (replaced(TWENTY, 13, 14, 15), 13),
        # One word put in, gap 0 | 1, difference 1 = a1.
        ([*TWENTY[:16], "x", *TWENTY[16:]], 20),
        # Two put in, gap 0 | 2 within g2, but the difference 2 is over a2. 4 < l2 words drop out.
        ([*TWENTY[:16], "x", "x", *TWENTY[16:]], 16),
        # Two left out, gap 2 | 0: the same from the other side.
        ([*TWENTY[:14], *TWENTY[16:]], 14),
        # Gap 2 | 1, difference 1 = a2: merged in the second pass.
        ([*TWENTY[:14], "x", *TWENTY[16:]], 18),
        # 10 words, gap 2, then 2 words alone: fewer than l1, so the second pass never sees them.
        (replaced(TWENTY, 10, 11, 14, 15, 16, 17, 18, 19), 10),
        # The same, but 2 words, gap 1, 2 words are 4 >= l1 after the first pass: 10 + 4.
        (replaced(TWENTY, 10, 11, 14, 17, 18, 19), 14),
        # A block of 7 = l2 stays, one of 6 goes.
        (TWENTY[:7], 7),
        (TWENTY[:6], 0),
    ],
)
def test_gaps_within_and_over_the_limits(candidate: list[str], agreeing: int) -> None:
    assert recall_words(TWENTY, candidate) == agreeing / 20


def test_a_bridged_block_that_was_dropped_is_not_counted() -> None:
    # n = 100: l1 = 15, l2 = 35, g1 = 2, g2 = 8. Words 43 and 44 stand alone between gaps of 3, are
    # dropped (2 < 15), and leave a gap of 8 that the second pass bridges: 40 + 52 words.
    reference = numbered(100)
    candidate = replaced(reference, 40, 41, 42, 45, 46, 47)
    assert alignment(reference, candidate) == [Block(0, 100, 0, 100, 92)]
    # One more replaced word makes the gap 9: two blocks, both long enough on their own.
    candidate = replaced(reference, 40, 41, 42, 45, 46, 47, 48)
    assert alignment(reference, candidate) == [
        Block(0, 40, 0, 40, 40),
        Block(49, 100, 49, 100, 51),
    ]


def test_alignment_gives_positions_in_both_texts() -> None:
    # Three words stand before; word 5 became two words: gap 1 | 2, within g2 = 2 and a2 = 1.
    candidate = ["x", "y", "z", *TWENTY[:5], "p", "q", *TWENTY[6:]]
    assert matching_blocks(TWENTY, candidate) == [
        Block(0, 5, 3, 8, 5),
        Block(6, 20, 10, 24, 14),
    ]
    assert alignment(TWENTY, candidate) == [Block(0, 20, 3, 24, 19)]


def test_ties_go_to_the_left_of_the_reference_then_of_the_candidate() -> None:
    # "ab" and "cd" are both of two words; "ab" comes first in the reference, and of its two
    # places in the candidate the first is taken, which leaves "cd" after it.
    reference, candidate = list("abxcd"), list("cdabcdab")
    assert as_triples(matching_blocks(reference, candidate)) == [(0, 2, 2), (3, 4, 2)]


def test_frequent_words_of_a_long_window_count() -> None:
    # 50 x (1 + 6) = 350 words. From 200 words on, autojunk drops every word that makes up more
    # than 1 % of the window: here all six, so difflib finds nothing of a text that is all there.
    reference = ["to", "be", "or", "not", "to", "be"]
    window = [word for i in range(50) for word in (f"filler{i}", *reference)]
    with_autojunk = difflib.SequenceMatcher(None, reference, window, autojunk=True)
    assert [block.size for block in with_autojunk.get_matching_blocks()] == [0]
    assert matching_blocks(reference, window) == [Block(0, 6, 1, 7, 6)]
    assert recall_words(reference, window) == 1.0


# --- the fast search against the slow truth -----------------------------------------------------


def check_against_the_slow_truth(reference: list[str], candidate: list[str]) -> None:
    assert as_triples(matching_blocks(reference, candidate)) == slow_blocks(reference, candidate)
    assert [list(block) for block in alignment(reference, candidate)] == slow_alignment(
        reference, candidate
    )
    value = recall_words(reference, candidate)
    assert value == slow_recall(reference, candidate)
    assert 0.0 <= value <= 1.0


def words_over(alphabet: str, longest: int) -> st.SearchStrategy[list[str]]:
    return st.text(alphabet, max_size=longest).map(list)


pairs = st.sampled_from(["a", "ab", "abc", "abcdefgh"]).flatmap(
    lambda alphabet: st.tuples(words_over(alphabet, 60), words_over(alphabet + "z", 60))
)


@settings(max_examples=700, deadline=None)
@given(pairs)
def test_small_alphabets(pair: tuple[list[str], list[str]]) -> None:
    check_against_the_slow_truth(*pair)


def edited(words: list[str], rng: random.Random) -> list[str]:
    """A near copy: a few words replaced, put in, left out, repeated or moved."""
    result = list(words)
    for _ in range(rng.choice([0, 1, 3, 10, 30])):
        place, length = rng.randrange(len(result) + 1), rng.choice([1, 1, 1, 2, 3, 8, 40])
        taken = result[place : place + length]
        match rng.randrange(4):
            case 0:
                result[place : place + length] = [f"new{rng.randrange(9)}" for _ in taken]
            case 1:
                result[place:place] = rng.choices(words, k=min(length, 4))
            case 2:
                del result[place : place + length]
            case _:
                other = rng.randrange(len(result) + 1)
                result[other:other] = taken
    return result


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**63))
def test_near_copies_of_up_to_400_words(seed: int) -> None:
    rng = random.Random(seed)
    vocabulary = numbered(rng.choice([1, 2, 3, 10, 100, 1000]))
    # Long texts of few words are what makes difflib, not the code under test, slow.
    longest = 400 if len(vocabulary) >= 100 else 100
    reference = rng.choices(vocabulary, k=rng.randint(1, longest))
    surroundings = rng.choices(vocabulary, k=rng.randint(0, longest // 2))
    candidate = [*surroundings, *edited(reference, rng), *surroundings[::-1]]
    check_against_the_slow_truth(reference, candidate)


@settings(max_examples=300, deadline=None)
@given(words_over("abc", 60), words_over("abc", 20), words_over("abc", 20))
def test_a_contained_copy_has_recall_1(
    words: list[str], before: list[str], after: list[str]
) -> None:
    expected = 1.0 if words else 0.0
    assert recall_words(words, words) == expected
    assert recall_words(words, [*before, *words, *after]) == expected


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_recall_of_any_texts(generation: str, window: str) -> None:
    words = normalize_words(generation)
    assert recall(generation, window) == slow_recall(words, normalize_words(window))
    assert recall(generation, generation) == (1.0 if words else 0.0)


# --- cost ---------------------------------------------------------------------------------------


def falling_runs(n: int, separator: str) -> list[str]:
    """Runs of one word, each shorter by one than the one before: the costliest pairs known."""
    words: list[str] = []
    for length in range(math.isqrt(2 * n), 0, -1):
        words += ["a"] * length + [f"{separator}{length}"]
    return words[:n]


@pytest.mark.parametrize(
    ("reference", "candidate", "first", "count"),
    [
        (["a"] * 5000, ["a"] * 25000, (0, 0, 5000), 1),
        (["a"] * 25000, ["a"] * 5000, (0, 0, 5000), 1),
        # "a" and a word that the other text lacks in turn: 2 500 blocks of one word.
        (["a", "x"] * 2500, ["a", "y"] * 12500, (0, 0, 1), 2500),
        # A cycle and its reverse: no two words in a row agree.
        (list("abcde") * 1000, list("edcba") * 5000, (0, 4, 1), 5000),
    ],
)
def test_pathological_pairs_finish(
    reference: list[str], candidate: list[str], first: tuple[int, int, int], count: int
) -> None:
    started = time.perf_counter()
    blocks = as_triples(matching_blocks(reference, candidate))
    # Well under a second; difflib would take minutes to hours.
    assert time.perf_counter() - started < 10
    assert (blocks[0], len(blocks)) == (first, count)


def costly_pairs() -> list[tuple[list[str], list[str]]]:
    rng = random.Random(0)
    return [
        (falling_runs(1000, "x"), falling_runs(1000, "y") + ["a", "y"] * 1000),
        (falling_runs(1000, "x")[::-1], ["a", "y"] * 1000 + falling_runs(1000, "y")),
        (["a", "x"] * 500, ["a", "y"] * 1500),
        (rng.choices("ab", [9, 1], k=1000), rng.choices("ac", [9, 1], k=3000)),
    ]


@pytest.mark.parametrize("pair", costly_pairs())
def test_the_stated_bound_on_the_work_holds(
    pair: tuple[list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, candidate = pair
    n, m = len(reference), len(candidate)
    # A row counts as one step beside its comparisons, hence m + 1.
    monkeypatch.setattr(near_verbatim, "WORK_LIMIT", int(2 * (math.sqrt(2 * n) + 1) * n * (m + 1)))
    matching_blocks(reference, candidate)


def test_the_limit_covers_the_sizes_it_names() -> None:
    assert 2 * (math.sqrt(2 * 5000) + 1) * 5000 * (25000 + 1) < near_verbatim.WORK_LIMIT


@pytest.mark.parametrize(
    ("reference", "candidate", "steps"),
    [
        # One row and one comparison.
        ("a", "a", 2),
        # The whole: 6 rows, 2 x 2 comparisons of "a" and 2 x 2 of "b", to the end for a run of 6:
        # 14; "bb" is found. Left of it a run can have 1 word: row and comparison, 2. Right of that
        # "a" the row of "x", then row and comparison of "a": 3. Right of it the row of "x": 1.
        ("axaxbb", "ayaybb", 20),
        # The whole: 200 rows and 100 x 100 comparisons. Then, 99 times, the 3 steps as above.
        ("ax" * 100, "ya" * 100, 200 + 100 * 100 + 99 * 3),
    ],
)
def test_a_pair_over_the_limit_is_refused(
    reference: str, candidate: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_verbatim, "WORK_LIMIT", steps)
    assert as_triples(matching_blocks(list(reference), list(candidate))) == slow_blocks(
        list(reference), list(candidate)
    )
    monkeypatch.setattr(near_verbatim, "WORK_LIMIT", steps - 1)
    with pytest.raises(AlignmentCostError, match=f"more than {steps - 1} word") as raised:
        recall(" ".join(reference), " ".join(candidate))
    error = raised.value
    assert (error.reference_words, error.candidate_words) == (len(reference), len(candidate))
    assert error.limit == steps - 1
    # A worker process hands it over pickled.
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


@pytest.mark.parametrize("rectangle", [(1, 3, 0, 3), (0, 3, 1, 3), (1, 3, 1, 3)])
def test_a_rectangle_does_not_see_runs_that_reach_into_it(
    rectangle: tuple[int, int, int, int],
) -> None:
    # Three equal words in both texts, so runs of three; the second rectangle has room for two.
    words = np.zeros(3, np.int32)
    offsets, positions = near_verbatim._positions_by_word(words, 1)
    for before in [(0, 1, 0, 1), (0, 1, 0, 3), (0, 3, 0, 1), (0, 2, 0, 2), (0, 3, 0, 3)]:
        run_starts, run_stops = np.zeros(6, np.int32), np.full(6, -1, np.int32)
        texts = (words, offsets, positions, run_starts, run_stops)
        near_verbatim._longest_run(*texts, *before, 3, 1000)
        top, _, left, _ = rectangle
        row, column, length, _ = near_verbatim._longest_run(*texts, *rectangle, 3, 1000)
        assert (row, column, length) == (top, left, 2)
