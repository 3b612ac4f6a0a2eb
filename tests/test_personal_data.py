"""Personal data is found by form and check digit, and none of it is left by masking."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propme import personal_data
from propme.errors import ParameterError
from propme.personal_data import (
    Found,
    available,
    find_personal_data,
    finding,
    mask,
    masked,
    note,
)

# Check digits, worked by hand:
# CPR 211062-5629: 4*2+3*1+2*1+7*0+6*6+5*2+4*5+3*6+2*2+1*9 = 110 = 10*11.
# NHS 943 476 5919: 10*9+9*4+8*3+7*4+6*7+5*6+4*5+3*9+2*1 = 299 = 27*11 + 2, and 11 - 2 = 9.
# Personnummer 811218-9876: digits by 2,1,2,...: 7+1+2+2+2+8+9+8+5 = 44, and 50 - 44 = 6.
PLANTED = {
    "e-mail": ("anna.b+x@mail.ex-ample.dk", "søren@rødgrød.dk", "a@b.co"),
    "IBAN": ("DK50 0040 0440 1162 43", "GB82WEST12345698765432"),
    "CPR": ("211062-5629", "2110625629", "211062 5629"),
    "identity number": ("943 476 5919", "536-90-4399", "AB 12 34 56 C"),
    "IP address": ("192.168.0.1", "2001:db8::1", "::1"),
    "phone": ("+45 33 12 34 56", "(650) 253-0000", "33123456"),
}
ALL = [(kind, text) for kind, texts in PLANTED.items() for text in texts]


def kinds(text: str, **given: object) -> list[tuple[str, str]]:
    return [(f.kind, text[f.start : f.stop]) for f in find_personal_data(text, **given)]


@pytest.mark.parametrize(("kind", "text"), ALL)
@pytest.mark.parametrize("around", ["{}", "skriv til {}, eller kom", "({})", "x\n{}\ny", "Se {}."])
def test_each_kind_is_found_where_it_stands(kind: str, text: str, around: str) -> None:
    assert kinds(around.format(text)) == [(kind, text)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Kong Christian stod ved højen mast",
        "2 Mos 12:13-14 kl. 12:30:45",
        "std::string a::b c::d",
        "name@localhost @handle a@ @b.dk",
        "511062-5629",  # no such day
        "1.2.3.4.5",
        "256.1.1.1",
        "666-12-3456",  # never given out
        "§ 12, stk. 3, nr. 4",
    ],
)
def test_what_only_looks_alike_is_not_found(text: str) -> None:
    assert kinds(text) == []


def mod_97(iban: str) -> int:
    turned = iban[4:] + iban[:4]
    return int("".join(str(int(sign, 36)) for sign in turned)) % 97


def test_an_iban_needs_its_check_digits() -> None:
    account = "00400440116243"
    right = [d for d in range(2, 99) if mod_97(f"DK{d:02}{account}") == 1]
    found = [
        d for d in range(2, 99) if ("IBAN", f"DK{d:02}{account}") in kinds(f"DK{d:02}{account}")
    ]
    assert found == right == [50]


def test_words_after_an_iban_are_not_part_of_it() -> None:
    text = "dk5000400440116243 or more words"
    assert kinds(text) == [("IBAN", "dk5000400440116243")]


def test_a_cpr_number_needs_no_check_digit() -> None:
    # At most one of these ten can satisfy it: its last digit has weight 1.
    assert all(kinds(f"010203-456{d}") == [("CPR", f"010203-456{d}")] for d in range(10))


def test_how_many_random_numbers_pass_as_cpr() -> None:
    # Of the 10 000 pairs of day and month those that are a date, at most 366: about 3.6 %.
    numbers = [
        f"{day:02}{month:02}501234" for day, month in itertools.product(range(100), repeat=2)
    ]
    passed = sum(kinds(n, regions=("DK",))[:1] == [("CPR", n)] for n in numbers)
    assert passed == 365  # 1950 had no 29 February


def test_identity_numbers_of_other_regions_where_asked() -> None:
    assert ("identity number", "811218-9876") in kinds("811218-9876", regions=("SE",))
    assert ("identity number", "811218-9875") not in kinds("811218-9875", regions=("SE",))
    assert kinds("AB 12 34 56 C", regions=("DK",)) == []


def test_overlapping_places_are_one_of_the_first_kind() -> None:
    merged = finding.merged([Found("phone", 3, 9), Found("CPR", 0, 5), Found("phone", 9, 12)])
    assert merged == [Found("CPR", 0, 9), Found("phone", 9, 12)]


def test_masking_names_the_kind_alone() -> None:
    text = "Fra anna@ex.dk, 211062-5629, ring +45 33 12 34 56."
    assert mask(text) == "Fra [e-mail], [CPR], ring [phone]."


def test_what_stands_next_to_masked_data_is_masked_too() -> None:
    assert mask("a@b.dk1.2.3.4") == "[e-mail][IP address]"


PIECES = st.sampled_from([text for _, text in ALL]) | st.text(alphabet="ab :.,-\n(", max_size=6)


@given(st.lists(PIECES, max_size=8))
@settings(deadline=None)
def test_nothing_planted_is_left_and_masking_twice_is_masking_once(pieces: list[str]) -> None:
    masked = mask(" \n".join(pieces))
    assert not [text for _, text in ALL if text in masked]
    assert mask(masked) == masked


@given(st.text(alphabet="0123456789abDK@.:-+ ()æ\n", max_size=80))
@settings(deadline=None)
def test_places_are_in_order_and_nothing_is_found_in_a_masked_text(text: str) -> None:
    found = find_personal_data(text)
    assert all(a.stop <= b.start for a, b in itertools.pairwise(found))
    assert all(0 <= f.start < f.stop <= len(text) for f in found)
    assert find_personal_data(mask(text)) == ()
    assert bool(found) == (mask(text) != text)


@pytest.mark.parametrize("unit", ["a", "1-", "@", "a@", "a.", "a@b.", ":", "(", "DK12"])
def test_hostile_texts_end(unit: str) -> None:
    # A search that were quadratic would take the better part of an hour.
    assert find_personal_data(unit * (300_000 // len(unit))) == ()


def test_without_the_extra_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding.importlib.util, "find_spec", lambda name: None)
    assert not available()
    assert "was not looked for and nothing is masked" in note()
    with pytest.raises(ParameterError, match=r"propme\[privacy\]"):
        mask("a@b.dk")


def test_what_is_said_of_masking() -> None:
    assert "is masked in texts, ids, sources and licences" in note()
    assert "masked" not in note(masked=False)


def test_an_unknown_region_is_refused() -> None:
    with pytest.raises(ParameterError, match="'dk'"):
        find_personal_data("", regions=("DK", "dk"))


@pytest.mark.parametrize("given", [("name", 0, 1), ("phone", 1, 1), ("phone", -1, 1)])
def test_an_impossible_place_cannot_be_made(given: tuple[str, int, int]) -> None:
    with pytest.raises(ParameterError):
        Found(*given)


@settings(deadline=None)
@given(st.lists(st.sampled_from([*(t for _, t in ALL), "x", "1.2", "(", " ", "😀"]), max_size=8))
def test_a_place_outside_of_personal_data_is_found_again_in_the_masked_text(
    pieces: list[str],
) -> None:
    text = "".join(pieces)
    done = masked(text)
    assert done.text == mask(text)
    hidden = {n for place in done.places for n in range(place.start, place.stop)}
    for n, sign in enumerate(text):
        start, stop = done.start(n), done.stop(n + 1)
        if n in hidden:
            assert done.text[start:stop] in {f"[{place.kind}]" for place in done.places}
        else:
            assert done.text[start:stop] == sign
    assert (done.start(0), done.stop(len(text))) == (0, len(done.text))


def test_a_passage_that_ends_within_personal_data_holds_all_of_its_replacement() -> None:
    done = masked("to anna@example.dk 10 times")
    assert done.text == "to [e-mail] 10 times"
    assert done.text[done.start(0) : done.stop(7)] == "to [e-mail]"  # "to anna"
    assert done.text[done.start(5) : done.stop(21)] == "[e-mail] 10"  # "na@example.dk 10"
    assert done.text[done.start(3) : done.stop(3)] == ""  # before it


@given(st.text().filter(lambda text: not any(s.isdecimal() or s == "@" for s in text)))
def test_without_a_digit_or_an_at_sign_there_is_none_to_find(text: str) -> None:
    regions = personal_data.REGIONS
    assert not [f for detector in finding._detectors(regions) for f in detector(text)]
