"""Answers that cannot be right are not believed, and what is odd is said to be so."""

import json

import pytest
from helpers import byte_tokenizer

from propme.index.remote.documents import Shown, checked_document
from propme.index.remote.questions import WrongAnswerError, find, pointers

#: Two shards of 10 and 6 tokens; a sequence that stands twice in the first, not in the other.
SIZES = [10, 6]
FOUND = {"cnt": 2, "segment_by_shard": [[3, 5], [6, 6]], "token_ids": [1, 2], "latency": 0.1}
NOT_NUMBERS = (None, True, 2.0, "2", [2])


def test_ranges_that_fit_are_kept_without_what_nobody_needs():
    kept = {"cnt": 2, "segment_by_shard": [[3, 5], [6, 6]]}
    assert find([1, 2], SIZES).check(FOUND) == (kept, "")
    assert find([1, 2], SIZES).check(kept) == (kept, "")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"cnt": value} for value in (1, 3, -2, *NOT_NUMBERS)),
        *({"segment_by_shard": [[3, value], [6, 6]]} for value in (4, 11, -1, *NOT_NUMBERS)),
        {"segment_by_shard": [[3, 5]]},
        {"segment_by_shard": [[3, 5], [6, 6], [0, 0]]},
        {"segment_by_shard": [[3, 5], [7, 7]]},  # behind the 6 tokens of that shard
        {"segment_by_shard": [[3, 5], [6]]},
        {"segment_by_shard": [[3, 5], [6, 6, 6]]},
        {"segment_by_shard": [[5, 3], [2, 6]]},
        {"segment_by_shard": [[-1, 1], [6, 6]]},
        {"segment_by_shard": []},
        {"segment_by_shard": {"0": [3, 5]}},
        {"segment_by_shard": None},
        {"token_ids": [1, 3]},
        {"token_ids": None},
    ],
    ids=str,
)
def test_ranges_that_do_not_fit_are_refused(wrong):
    with pytest.raises(WrongAnswerError):
        find([1, 2], SIZES).check(FOUND | wrong)


@pytest.mark.parametrize("ranges", [[[0, 10], [1, 6]], [[0, 10], [0, 0]], []])
def test_shards_begin_at_rank_0_and_are_not_empty(ranges):
    count = sum(high - low for low, high in ranges)
    with pytest.raises(WrongAnswerError):
        find([]).check({"cnt": count, "segment_by_shard": ranges})


#: Twice in the first shard, whose 10 tokens of 2 bytes begin at 0, 2, ... 18.
POINTED = {"cnt": 2, "approx": False, "ptrs_by_shard": [[18, 4], []]}


def test_positions_that_fit_are_kept():
    assert pointers([1, 2], [2, 0], SIZES, 2).check(POINTED | {"tokens": []}) == (POINTED, "")


def test_a_sample_of_positions_is_of_no_use_and_said_to_be_one():
    kept, odd = pointers([1, 2], [2, 0], SIZES, 2).check(POINTED | {"approx": True})
    assert (kept["approx"], kept["ptrs_by_shard"], odd) == (True, [], "")


@pytest.mark.parametrize(
    "wrong",
    [
        *({"cnt": value} for value in (1, *NOT_NUMBERS)),
        *({"ptrs_by_shard": [[18, value], []]} for value in (18, 20, 5, -2, *NOT_NUMBERS)),
        {"ptrs_by_shard": [[18], [4]]},
        {"ptrs_by_shard": [[18], []]},
        {"ptrs_by_shard": [[18, 4]]},
        {"ptrs_by_shard": [[18, 4], None]},
        {"ptrs_by_shard": None},
        {"approx": None},
        {"approx": 0},
    ],
    ids=str,
)
def test_positions_that_do_not_fit_are_refused(wrong):
    with pytest.raises(WrongAnswerError):
        pointers([1, 2], [2, 0], SIZES, 2).check(POINTED | wrong)


# --- documents ------------------------------------------------------------------------------------

BYTES = byte_tokenizer()

#: Of "abcdefgh", a token a letter, and asked for 6 around its fourth: 3 from before it, and 3 on.
SHOWN = {
    "doc_ix": 7,
    "doc_len": 8,
    "disp_len": 6,
    "needle_offset": 3,
    "metadata": json.dumps({"path": "p", "linenum": 1, "metadata": {"id": "d"}}),
    "spans": [["abcdef", None]],
    "blocked": False,
}


def checked(**changed):
    return checked_document({**SHOWN, **changed}, 6, range(5, 9), 100, "get_doc_by_rank")


def odd(sought, **changed):
    return Shown(checked(**changed), 6, 0, BYTES).odd(BYTES.encode(sought))


def test_a_document_that_fits_is_kept():
    assert checked(token_ids=[1], latency=0.1) == SHOWN | {"spans": [["abcdef"]]}
    assert checked_document(checked(), 6, range(5, 9), 100, "get_doc_by_rank") == checked()


@pytest.mark.parametrize("bytes_of_a_token", [1, 2, 4])
def test_the_separator_before_a_document_comes_as_a_huge_number(bytes_of_a_token):
    """-1 token is 2^64 - bytes_of_a_token bytes without a sign."""
    huge = (2**64 - bytes_of_a_token) // bytes_of_a_token
    changed = {"needle_offset": huge, "disp_len": 2, "spans": [["ab", None]]}
    shown = Shown(checked(**changed), 6, 0, BYTES)
    assert (shown.before, shown.offset) == (-1, -1)


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in ("doc_ix", "doc_len", "disp_len") for value in NOT_NUMBERS),
        *({"needle_offset": value} for value in (*NOT_NUMBERS, -2, 4, 6, 2**63)),
        {"doc_ix": 4},
        {"doc_ix": 9},
        {"doc_len": 5},  # fewer than are shown
        {"doc_len": 100},  # as many as the shard has, with its separator
        {"disp_len": 7},  # four from the token on, of three that may be shown
        {"disp_len": -1},
        {"metadata": None},
        {"metadata": {"id": "d"}},
        {"metadata": "{"},
        {"metadata": "[1]"},
        {"metadata": "[" * 100_000},
        {"spans": None},
        {"spans": []},
        {"spans": [[]]},
        {"spans": ["abcdef"]},
        {"spans": [["abc\ud800ef", None]]},
        {"metadata": '{"id": "\udfff"}'},
        {"spans": [[b"abcdef".hex(), None], [None, None]]},
        {"blocked": None},
        {"blocked": 1},
    ],
    ids=lambda wrong: str(wrong)[:60],
)
def test_a_document_that_does_not_fit_is_refused(wrong):
    with pytest.raises(WrongAnswerError):
        checked(**wrong)


def test_where_neither_end_is_cut_the_whole_document_is_shown():
    """Two before the token and two from it on, of three and three that may be: all there is."""
    changed = {"needle_offset": 2, "disp_len": 4, "spans": [["abcd", None]]}
    assert checked(**changed, doc_len=4)["doc_len"] == 4
    with pytest.raises(WrongAnswerError, match="does not fit its own numbers"):
        checked(**changed, doc_len=5)


def test_a_text_that_does_not_hold_what_was_sought_is_odd():
    """Where both ends are cut, some tokens beside its place are looked at too."""
    assert odd("de") == odd("ef") == odd("") == ""
    assert "not encoded" in odd("eg")
    whole = {"doc_len": 4, "needle_offset": 2, "disp_len": 4, "spans": [["abcd", None]]}
    assert odd("cd", **whole) == ""
    assert "not encoded" in odd("d", **whole)


def test_a_whole_text_of_other_tokens_than_are_shown_is_odd():
    whole = {"doc_len": 4, "needle_offset": 2, "disp_len": 4}
    assert odd("c", **whole, spans=[["abcd", None]]) == ""
    assert "in as many tokens" in odd("c", **whole, spans=[["abcde", None]])
    assert "in as many tokens" in odd("", **whole, spans=[["", None]])


def test_a_text_of_a_document_that_is_blocked_is_odd():
    assert odd("d", blocked=True, spans=[]) == ""
    assert odd("d", blocked=True, spans=[["", None]]) == ""
    assert "blocked, and shown" in odd("d", blocked=True)
