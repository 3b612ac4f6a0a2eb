"""What a border, a passage or a document cuts in two is masked in every part; names stay apart."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_personal_data import ALL

from propme import personal_data
from propme.masking import (
    masked_around,
    masked_names,
    masked_texts,
    reaching_into,
    shown_completions,
    shown_prompts,
)
from propme.personal_data import find_personal_data, finding, mask, masked

MAIL = "skriv til anna@example.dk nu"
CUT = MAIL.index("@ex") + 3  # after "anna@ex"


def prompts_of(*texts: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(
        [(f"p{n}", text, target) for n, (text, target) in enumerate(texts)],
        columns=["prompt_id", "text", "target"],
    )


def completions_of(*texts: tuple[str, str]) -> pd.DataFrame:
    return pd.DataFrame(
        [(f"g{n}", prompt, text) for n, (prompt, text) in enumerate(texts)],
        columns=["generation_id", "prompt_id", "text"],
    )


def test_what_prompt_and_completion_share_is_masked_in_both() -> None:
    texts = masked_texts(prompts_of((MAIL[:CUT], "")), completions_of(("p0", MAIL[CUT:])))
    assert texts.prompts["p0"].text == "skriv til [e-mail]"
    assert texts.completions["g0"].text == "[e-mail] nu"


def test_what_prompt_and_true_continuation_share_is_masked_in_both() -> None:
    texts = masked_texts(prompts_of((MAIL[:CUT], MAIL[CUT:])), completions_of(("p0", " og så")))
    assert texts.prompts["p0"].text == "skriv til [e-mail]"
    assert texts.targets["p0"].text == "[e-mail] nu"
    assert texts.completions["g0"].text == " og så"


def test_half_of_an_address_is_not_shown_beside_another_completion() -> None:
    # The second goes on otherwise; beside it "anna@ex" would be read, beside the first the rest.
    completions = completions_of(("p0", MAIL[CUT:]), ("p0", " eller"))
    texts = masked_texts(prompts_of((MAIL[:CUT], "")), completions)
    assert texts.prompts["p0"].text == "skriv til [e-mail]"
    assert texts.completions["g1"].text == " eller"


def test_what_one_part_holds_alone_is_masked_as_ever() -> None:
    # "x33123456" is no phone number; the completion alone looks like one.
    texts = masked_texts(prompts_of(("x", "")), completions_of(("p0", "33123456")))
    assert texts.completions["g0"].text == "[phone]"


def test_nothing_is_masked_unless_asked_for() -> None:
    given_ = prompts_of((MAIL[:CUT], "")), completions_of(("p0", MAIL[CUT:]))
    texts = masked_texts(*given_, mask=False)
    assert (texts.prompts["p0"].text, texts.completions["g0"].text) == (MAIL[:CUT], MAIL[CUT:])


def test_tables_are_shown_with_what_is_masked() -> None:
    prompts, completions = prompts_of((MAIL[:CUT], MAIL[CUT:])), completions_of(("p0", MAIL[CUT:]))
    assert shown_prompts(prompts)[["text", "target"]].to_numpy().tolist() == [
        ["skriv til [e-mail]", "[e-mail] nu"]
    ]
    assert shown_completions(completions, prompts)["text"].tolist() == ["[e-mail] nu"]
    assert shown_prompts(prompts.iloc[:0]).empty


def slowly_hidden(text: str) -> set[int]:
    """Characters that are personal data: what is found is taken out, until nothing is found.

    Every character of what stands in its place knows the characters that stood there.
    """
    signs = [(sign, {n}) for n, sign in enumerate(text)]
    hidden: set[int] = set()
    while found := find_personal_data("".join(sign for sign, _ in signs)):
        for place in reversed(found):
            origins = set().union(*(origin for _, origin in signs[place.start : place.stop]))
            signs[place.start : place.stop] = [(sign, origins) for sign in f"[{place.kind}]"]
            hidden |= origins
    return hidden


PIECES = st.sampled_from([*(text for _, text in ALL), "a", "7", " ", ".", "\n", "(", "45 ", "😀"])
TEXTS = st.lists(PIECES, max_size=7).map("".join)


def unmasked(part: personal_data.Masked, start: int) -> set[int]:
    """Characters of the whole text that can be read in a part of it that begins at ``start``."""
    hidden = {n for place in part.places for n in range(place.start, place.stop)}
    return {start + n for n in range(len(part.original)) if n not in hidden}


@given(TEXTS, st.data())
@settings(deadline=None, max_examples=200)
def test_what_is_masked_in_the_whole_is_masked_in_every_part(text: str, data: Any) -> None:
    border = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(border, len(text)))
    parts = masked_texts(
        prompts_of((text[:border], text[border:])), completions_of(("p0", text[border:stop]))
    )
    shown = [
        (parts.prompts["p0"], 0), (parts.targets["p0"], border), (parts.completions["g0"], border)
    ]  # fmt: skip
    assert [part.original for part, _ in shown] == [text[:border], text[border:], text[border:stop]]
    for whole, of in ((text, (0, 1)), (text[:stop], (0, 2))):
        hidden = slowly_hidden(whole)
        for number in of:
            part, start = shown[number]
            assert not hidden & unmasked(part, start)
    # And nothing is left that is found in a part as it is shown.
    assert [mask(part.text) for part, _ in shown] == [part.text for part, _ in shown]


def test_what_a_document_holds_whole_is_masked_in_the_passage_that_ends_within() -> None:
    window = f"De må {MAIL}."
    start = window.index("til")
    stop = window.index("@ex") + 3
    passage = window[start:stop]  # "til anna@ex"
    assert hidden_in(passage, window, start, stop) == "til [e-mail]"


def hidden_in(passage: str, window: str, start: int, stop: int) -> str:
    """A passage as it is shown whose match is at ``[start, stop)`` of a document."""
    places = reaching_into(passage, *masked_around(window, start, stop))
    return personal_data.masked(passage, known=places).text


@pytest.mark.parametrize(
    ("passage", "match", "shown"),
    [
        ("Til ANNA@Ex", "til anna@ex", "Til [e-mail]"),  # lower case
        ("Åse, skriv til Anna@Ex", "ase, skriv til anna@ex", "Åse, skriv til [e-mail]"),  # no ring
        ("A\u030ase: til anna@ex", "Åse: til anna@ex", "A\u030ase: til [e-mail]"),  # composed
        ("nu\n\n til anna@ex", "nu til anna@ex", "nu\n\n til [e-mail]"),  # white space
        ("😀 nu til anna@ex", "[UNK] nu til anna@ex", "😀 nu til [e-mail]"),  # four signs more
        ("(anna@ex", "anna@ex", "[e-mail]"),  # one sign less
    ],
)
def test_half_of_an_address_is_masked_however_the_index_folds_the_text(
    passage: str, match: str, shown: str
) -> None:
    window = f"De må {match}ample.dk skrive."
    assert hidden_in(passage, window, 6, 6 + len(match)) == shown


def test_what_crosses_the_start_is_masked_to_the_end_of_its_word() -> None:
    window = "skriv til anna@example.dk, andré"
    start, stop = window.index("ple.dk"), len(window)
    shown = hidden_in("ple.dk, Andre\u0301", window, start, stop)
    assert shown == "[e-mail] Andre\u0301"


def test_a_passage_of_white_space_has_nothing_to_mask() -> None:
    window = "skriv til anna@example.dk"
    assert hidden_in(" \n", window, 10, 14) == " \n"


# What stands in a completion, and the same as an index may have it.
FOLDED = st.sampled_from(
    [
        [("e\u0301", "é")], [("A", "a"), ("b", "b")], [("\n\n", " ")], [(" ", " ")], [("Å", "a")],
        [(sign.upper(), sign) for sign in "anna@example.dk"],
        [(sign, sign) for sign in "33 12 34 56"],
        [("i", "i"), ("A\u030a", "å"), ("@", "@"), *((sign, sign) for sign in "b.dk")],
    ]
)  # fmt: skip


@given(st.lists(FOLDED, max_size=6), st.data())
@settings(deadline=None, max_examples=200)
def test_of_what_a_document_holds_no_sign_is_read_in_the_passage(pieces: Any, data: Any) -> None:
    signs = [sign for piece in pieces for sign in piece]
    first = data.draw(st.integers(0, len(signs)))
    last = data.draw(st.integers(first, len(signs)))
    window = "".join(folded for _, folded in signs)  # each of one character
    passage = "".join(written for written, _ in signs[first:last])
    places = reaching_into(passage, *masked_around(window, first, last))
    hidden = {n for place in places for n in range(place.start, place.stop)}
    of_window = {n for place in masked(window).places for n in range(place.start, place.stop)}
    at = 0
    for number, (written, _) in enumerate(signs[first:last], first):
        if number in of_window and not written.isspace():
            assert hidden >= {*range(at, at + len(written))}
        at += len(written)


def test_names_without_personal_data_stay() -> None:
    assert masked_names(["KJV", "Genesis 1:2", ""]) == {
        "": "",
        "Genesis 1:2": "Genesis 1:2",
        "KJV": "KJV",
    }


def test_names_that_are_masked_alike_have_numbers() -> None:
    shown = masked_names(["c@d.dk", "a@b.dk"], ["to a@b.dk", "a@b.dk", "[e-mail] 1"])
    assert shown == {
        "[e-mail] 1": "[e-mail] 1",
        "a@b.dk": "[e-mail] 2",
        "c@d.dk": "[e-mail] 3",
        "to a@b.dk": "to [e-mail] 1",
    }


NAMES = st.lists(st.sampled_from(["a@b.dk", "c@d.dk", "[e-mail]", "[e-mail] 1", "[e-mail] 2", "x"]))


@given(NAMES, NAMES)
def test_no_two_names_are_shown_alike(first: list[str], second: list[str]) -> None:
    shown = masked_names(first, second)
    assert set(shown) == {*first, *second}
    assert len(set(shown.values())) == len(shown)
    assert "@" not in str([*shown.values()])


def test_without_the_extra_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_PACKAGES", ("not_installed",))
    assert masked_names(["a@b.dk"]) == {"a@b.dk": "a@b.dk"}
    texts = masked_texts(prompts_of((MAIL, "")), completions_of(("p0", MAIL)))
    assert texts.completions["g0"].text == MAIL
