"""Texts as the viewer shows them: cut where they are long, masked, with nothing lost unsaid."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from propme.personal_data import Masked, masked
from propme.viewer.comparing import passages
from propme.viewer.excerpts import AGREES, CUT, DIFFERS, PLAIN, Excerpts

SHORT = Excerpts(masked=False, context=8, match=10)
MASKED = Excerpts(masked=True, context=9, match=40)


@given(st.text("ab 😀\n", max_size=60), st.data())
def test_what_is_shown_of_a_match_is_what_stands_there(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    shown = SHORT.around(Masked(text), start, stop)
    match, end, cut = shown["match"], shown.get("end", ""), shown.get("cut", 0)
    assert text[start:stop].startswith(match)
    assert text[start:stop].endswith(end)
    assert len(match) + cut + len(end) == stop - start
    assert (cut > 0) == (stop - start > 10)
    assert text[shown["left"] : start] == shown["before"]
    assert text[stop : len(text) - shown["right"]] == shown["after"]


def test_a_context_is_cut_unless_little_would_be_left() -> None:
    # Of 8 characters a quarter is 2: two more are shown, three are not.
    assert SHORT.around(Masked("0123456789X"), 10, 11)["before"] == "0123456789"
    assert SHORT.around(Masked("0123456789aX"), 11, 12) == {
        "left": 3, "right": 0, "before": "3456789a", "match": "X", "after": ""
    }  # fmt: skip
    assert SHORT.around(Masked("X0123456789"), 0, 1)["after"] == "0123456789"
    assert SHORT.around(Masked("X0123456789a"), 0, 1)["right"] == 3


def test_personal_data_is_seen_whole_where_a_context_or_a_match_cuts_it() -> None:
    text = "write to anna.andersen@example.dk about it, or to bo@example.dk now"
    # The match "about it" has 9 characters of context: of each address only a part is in it.
    start = text.index("about")
    shown = MASKED.around(masked(text), start, start + 8)
    assert shown["before"] == "[e-mail] "
    assert shown["after"] == ", or to [e-mail]"
    # A match that ends within an address holds all of its replacement.
    shown = MASKED.around(masked(text), 0, text.index("@"))
    assert shown["match"] == "write to [e-mail]"
    assert "anna" not in str(shown)
    assert "example" not in str(shown)


SIGNS = st.lists(
    st.sampled_from(["anna@ex.dk", "33 12 34 56 ", "1.2.3.4", "7", "ab ", ".", "@", "\n"]),
    max_size=12,
).map("".join)


@given(SIGNS, st.data())
def test_what_is_masked_in_the_whole_is_masked_in_every_excerpt(
    text: str, data: st.DataObject
) -> None:
    # Slowly: each character is one that may be seen, or one for which a label stands.
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    excerpts = Excerpts(masked=True, context=5, match=10)
    whole = masked(text)
    signs: list[str] = list(text)
    for place in whole.places:
        label = f"[{place.kind}]"
        signs[place.start : place.stop] = [label] + [""] * (place.stop - place.start - 1)
        # The label stands wherever the first of its characters is seen.
        for n in range(place.start, place.stop):
            signs[n] = label if n == place.start else ""
    shown = excerpts.around(whole, start, stop)
    seen = "".join(shown[name] for name in ("before", "match", "after") if "cut" not in shown)
    if "cut" not in shown:
        first, last = shown["left"], len(text) - shown["right"]
        inside = [p for p in whole.places if p.start < first < p.stop and first < last]
        begin = f"[{inside[0].kind}]" if inside else ""
        assert seen == begin + "".join(signs[first:last])


def test_two_texts_stand_side_by_side_in_rows() -> None:
    # n = 9: l1 2, l2 4 (.35 * 9 = 3.15), g1 1. Four and four words with one between in both.
    ours = "Then one two three four FIVE six seven eight nine"
    theirs = "long ago and far away: one two three four vier six seven eight nine. The end"
    rows = Excerpts(False, 6, 10).side_by_side(Masked(ours), Masked(theirs), passages(ours, theirs))
    # "nine" and "nine." differ: seven words agree.
    assert rows == [
        [0, 0, [[PLAIN, "Then "]], [[CUT, 17], [PLAIN, "away: "]]],
        [
            1,
            7,
            [[AGREES, "one two three four"], [DIFFERS, " FIVE "], [AGREES, "six seven eight"]],
            [[AGREES, "one two three four"], [DIFFERS, " vier "], [AGREES, "six seven eight"]],
        ],
        [0, 0, [[PLAIN, " nine"]], [[PLAIN, " nine."], [CUT, 8]]],
    ]


WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "😀", "a@b.dk", "...e"]), max_size=40)


@given(WORDS.map(" ".join), WORDS.map(" ".join))
def test_the_rows_hold_all_of_both_texts(ours: str, theirs: str) -> None:
    uncut = Excerpts(False, 1000, 1000)
    found = passages(ours, theirs)
    rows = uncut.side_by_side(Masked(ours), Masked(theirs), found)
    if found:
        for side, text in ((2, ours), (3, theirs)):
            assert "".join(piece for row in rows for _, piece in row[side]) == text
    assert [row[0] for row in rows if row[0]] == list(range(1, len(found) + 1))
    assert [row[1] for row in rows if row[0]] == [passage.words for passage in found]


def test_masked_words_agree_as_they_did() -> None:
    text = "ask anna@example.dk or bo@example.dk for more of it"
    ((number, words, ours, theirs),) = MASKED.side_by_side(
        masked(text), masked(text), passages(text, text)
    )
    assert (number, words) == (1, 8)
    assert ours == theirs == [[AGREES, "ask [e-mail] or [e-mail] for more of it"]]
