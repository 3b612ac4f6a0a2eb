"""What leaked, on hand-made tables: which spans, of which documents, and nothing personal."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from propme import leaks, tables
from propme.errors import ParameterError
from propme.leaks import leaked_by, personal_data_leaked, what_leaked
from propme.personal_data import finding

MAIL = "skriv til anna@example.dk eller ring +45 33 12 34 56"

# The completions as far as they are needed: each span stands in its generation where it says.
TEXTS = {
    "g1": f"short {MAIL} {MAIL}",
    "g2": f"common words middle {MAIL}",
    "g3": MAIL,
    "g4": "nine",
}
FRAME = pd.DataFrame(
    [
        ("g1", "p1", "prefix", "greedy"),
        ("g2", "p2", "generic", "greedy"),
        ("g3", "p1", "prefix", "greedy"),
        ("g4", "p1", "prefix", "sampled"),
    ],
    columns=["generation_id", "prompt_id", "setting", "decoding"],
).assign(text=[*TEXTS.values()])
SPANS = pd.DataFrame(
    [
        ("g1", 0, 0, 5, "short", "", 7, 3, True, 0),
        ("g1", 1, 5, 60, MAIL, "", 2, 2, False, 6),
        ("g1", 2, 60, 115, MAIL, "", 2, 2, False, 7 + len(MAIL)),  # twice in one generation
        ("g2", 0, 0, 90, "common words", "common", 999, 0, True, 0),
        ("g2", 1, 0, 20, "middle", "", 1, 1, True, 13),
        ("g2", 2, 20, 75, MAIL, "", 2, 2, False, 20),
        ("g3", 0, 3, 58, MAIL, "", 2, 2, False, 0),
        ("g4", 0, 0, 9, "nine", "", 1, 1, True, 0),
    ],
    columns=[
        *("generation_id", "span", "start", "stop", "text", "dropped"),
        *("n_occurrences", "n_documents", "documents_exact", "char_start"),
    ],
)
SPANS["char_stop"] = SPANS["char_start"] + SPANS["text"].str.len()
MATCHES = pd.DataFrame(
    [
        ("g1", 0, "third", "law", ""),
        ("g1", 1, "first", "bible", "CC0"),
        ("g1", 1, "second", "law", "CC0"),
        ("g1", -1, "whole", "law", ""),
        ("g2", 0, "common", "news", "none"),
        ("g2", 1, "third", "law", ""),
        ("g2", 2, "other", "bible", ""),  # its copies are not known
        ("g2", 2, "first", "bible", "CC0"),
        ("g3", 0, "first", "bible", "CC0"),
    ],
    columns=["generation_id", "span", "document_id", "source", "licence"],
).assign(window="Of it: middle.", window_char_start=7, window_char_stop=13)
PROMPTS = pd.DataFrame(
    {
        "prompt_id": ["p1", "p2", "p3"],
        "text": ["I begyndelsen, a@b.dk ", "Fortæl ", "x"],
        "target": "",
        "document_id": ["first", "", "third"],
        "copies": pd.array([8, None, None], "Int64"),
    }
)


def leaked(**given: Any) -> pd.DataFrame:
    return what_leaked(FRAME, SPANS, MATCHES, PROMPTS, **given)


def test_longest_first_each_text_once_in_each_setting_and_decoding() -> None:
    table = leaked()
    assert table["setting"].tolist() == ["generic", "generic", "prefix", "prefix", "prefix"]
    assert table["decoding"].tolist() == ["greedy"] * 4 + ["sampled"]
    assert table["tokens"].tolist() == [55, 20, 55, 5, 9]
    assert table["generations"].tolist() == [1, 1, 2, 1, 1]  # generations, not occurrences
    assert table["occurrences"].tolist() == [2, 1, 2, 7, 1]
    assert table["documents"].tolist() == [2, 1, 2, 3, 1]
    assert table["documents_exact"].tolist() == [False, True, False, True, True]


def test_each_span_has_the_document_whose_copies_are_known_or_the_first() -> None:
    table = leaked()
    assert table["document_id"].fillna("").tolist() == ["first", "third", "first", "third", ""]
    assert table["source"].fillna("").tolist() == ["bible", "law", "bible", "law", ""]
    assert table["licence"].fillna("").tolist() == ["CC0", "", "CC0", "", ""]
    # Of "third" a prompt was made, but its copies are not known.
    assert table["copies"].fillna(-1).tolist() == [8, -1, 8, -1, -1]


def test_the_first_n_of_each_setting_and_decoding() -> None:
    assert leaked(n=1)["tokens"].tolist() == [55, 55, 9]
    with pytest.raises(ParameterError, match="n must be"):
        leaked(n=0)


def test_personal_data_is_named_and_masked_in_passage_and_prompt() -> None:
    row = leaked(n=1).iloc[1]
    assert row["personal_data"] == "e-mail, phone"
    assert row["passage"] == "skriv til [e-mail] eller ring [phone]"
    assert row["prompt"] == "I begyndelsen, [e-mail] "
    assert leaked()["personal_data"].tolist()[1] == ""


def cut_in_two() -> tuple[pd.DataFrame, ...]:
    """A prompt that ends within an address, a passage that does, and one that a document cuts.

    ``p1`` goes on in g3 with the rest of its address. Of the passage of g4, "ring +45 33 12", the
    document alone has the other half.
    """
    half = MAIL.index("@ex") + 3
    prompts = PROMPTS.assign(text=[MAIL[:half], "Fortæl ", "x"])
    frame = FRAME.assign(text=["", "", MAIL[half:], "du må ring +45 33 12 slut"])
    spans = SPANS[SPANS["generation_id"].isin(["g3", "g4"])].assign(
        text=[MAIL[half:20], "ring +45 33 12"], char_start=[0, 6], char_stop=[20 - half, 20]
    )
    at = MAIL.index("ring")
    match = {"window": MAIL, "window_char_start": at, "window_char_stop": at + 14}
    matches = pd.DataFrame(
        [{"generation_id": "g4", "span": 0, "document_id": "bo@b.dk", "source": "c@d.dk",
          "licence": "33123456"} | match]
    )  # fmt: skip
    return frame, spans, matches, prompts


def test_what_a_passage_or_a_prompt_cuts_in_two_is_masked_and_named() -> None:
    frame, spans, matches, prompts = cut_in_two()
    table = what_leaked(frame, spans, matches, prompts)
    assert table["passage"].tolist() == ["[e-mail]", "ring [phone]"]
    assert table["personal_data"].tolist() == ["e-mail", "phone"]
    assert table["prompt"].tolist() == ["skriv til [e-mail]"] * 2
    shown = what_leaked(frame, spans, matches, prompts, mask=False)
    assert shown["passage"].tolist() == spans["text"].tolist()
    assert shown["personal_data"].tolist() == ["e-mail", "phone"]


def test_what_a_passage_cuts_in_two_is_counted() -> None:
    frame, spans, matches, prompts = cut_in_two()
    table = personal_data_leaked(frame, spans, prompts, matches, least=1)
    assert table[["decoding", "personal_data", "generations"]].to_numpy().tolist() == [
        ["greedy", "e-mail", 1],
        ["sampled", "phone", 1],
    ]


def test_what_is_in_an_address_elsewhere_is_masked_here_and_not_counted() -> None:
    # "anna" is part of an address in the completion g1 and in the document of g2; in g3 and in its
    # document it is a name alone.
    texts = {"g1": "skriv til anna@b.dk", "g2": "kære anna", "g3": "hej anna", "g4": ""}
    spans = SPANS[SPANS["span"].eq(0) & (SPANS["generation_id"] != "g4")].assign(
        text="anna", char_start=[10, 5, 4], char_stop=[14, 9, 8], dropped=""
    )
    windows = ["Hej anna, hej", "Til anna@c.dk", "Hej anna, hej"]
    matches = spans[["generation_id", "span"]].assign(
        document_id="d", source="", licence="", window=windows,
        window_char_start=4, window_char_stop=8,
    )  # fmt: skip
    frame = FRAME.assign(text=[*texts.values()])
    counted = personal_data_leaked(frame, spans, PROMPTS, matches, least=1)
    assert counted[["setting", "personal_data", "generations"]].to_numpy().tolist() == [
        ["generic", "e-mail", 1],  # g2
        ["prefix", "e-mail", 1],  # g1, and not g3
    ]
    # Shown, it is the same passage: who saw it here could tell what is masked there.
    shown = what_leaked(frame, spans, matches, PROMPTS)
    assert shown["passage"].tolist() == ["[e-mail]"] * 2


def test_names_of_documents_sources_and_licences_are_masked_and_told_apart() -> None:
    frame, spans, matches, prompts = cut_in_two()
    names = ["document_id", "source", "licence"]
    masked = what_leaked(frame, spans, matches, prompts)
    assert masked[names].iloc[1].tolist() == ["[e-mail] 1", "[e-mail] 1", "[phone] 1"]
    shown = what_leaked(frame, spans, matches, prompts, mask=False)
    assert shown[names].iloc[1].tolist() == ["bo@b.dk", "c@d.dk", "33123456"]
    two = pd.concat([matches, matches.assign(source="e@f.dk")])
    by_source = leaked_by(frame, spans, two, "source", least=1)
    assert by_source["source"].tolist() == ["[e-mail] 1", "[e-mail] 2"]
    assert leaked_by(frame, spans, two, "source", 1, mask=False)["source"].tolist() == [
        "c@d.dk",
        "e@f.dk",
    ]


def test_personal_data_is_shown_where_asked() -> None:
    row = leaked(n=1, mask=False).iloc[1]
    assert row["personal_data"] == "e-mail, phone"
    assert (row["passage"], row["prompt"]) == (MAIL, "I begyndelsen, a@b.dk ")


def test_without_the_extra_it_is_said_that_nothing_was_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finding, "_PACKAGES", ("not_installed",))
    table = leaked()
    assert set(table["personal_data"]) == {"not looked for"}
    assert table["passage"][0] == MAIL


def test_nothing_leaked() -> None:
    nothing = {name: tables.to_frame(name, []) for name in ("spans", "matches", "prompts")}
    table = what_leaked(FRAME, **nothing)
    assert table.empty
    assert list(table.columns) == list(leaked().columns)
    assert leaked_by(FRAME, nothing["spans"], nothing["matches"], "source").empty


def test_generations_documents_and_longest_span_by_source() -> None:
    table = leaked_by(FRAME, SPANS, MATCHES, "source", least=1)
    # The whole match (span -1) and the span dropped as common do not count.
    assert table.to_numpy().tolist() == [
        ["generic", "greedy", "bible", 1, 2, 55],
        ["generic", "greedy", "law", 1, 1, 20],
        ["prefix", "greedy", "bible", 2, 1, 55],
        ["prefix", "greedy", "law", 1, 2, 55],
    ]


def test_short_passages_do_not_count_as_leaked() -> None:
    by_length = {
        least: leaked_by(FRAME, SPANS, MATCHES, "source", least)["longest"].tolist()
        for least in (1, 21, 56)
    }
    assert by_length == {1: [55, 20, 55, 55], 21: [55, 55, 55], 56: []}


def test_personal_data_is_counted_by_kind_and_generation() -> None:
    spans = SPANS.assign(
        text=[MAIL if row.dropped == "" else row.text for row in SPANS.itertuples()]
    )
    table = personal_data_leaked(FRAME, spans, PROMPTS, MATCHES, least=1)
    held = spans[spans["dropped"] == ""].merge(FRAME, on="generation_id")
    expected = held.groupby(["setting", "decoding"])["generation_id"].nunique()
    for kind in ("e-mail", "phone"):
        found = table[table["personal_data"] == kind].set_index(["setting", "decoding"])
        assert found["generations"].to_dict() == expected.to_dict()
    assert personal_data_leaked(FRAME, spans, PROMPTS, MATCHES, least=1000).empty


def test_personal_data_is_not_counted_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_PACKAGES", ("not_installed",))
    assert personal_data_leaked(FRAME, SPANS, PROMPTS, MATCHES, least=1).empty


def test_by_licence_and_by_nothing_else() -> None:
    table = leaked_by(FRAME, SPANS, MATCHES, "licence", least=1)
    assert table["licence"].tolist() == ["", "CC0", "CC0", ""]
    assert table["generations"].tolist() == [1, 1, 2, 1]
    with pytest.raises(ParameterError, match="'language'"):
        leaked_by(FRAME, SPANS, MATCHES, "language")


@pytest.mark.parametrize("order", [[3, 1, 0, 2, 7, 6, 5, 4], list(range(7, -1, -1))])
def test_the_order_of_spans_does_not_matter(order: list[int]) -> None:
    other = what_leaked(FRAME, SPANS.iloc[order], MATCHES, PROMPTS)
    pd.testing.assert_frame_equal(other, leaked())


def test_columns_can_be_counted_by() -> None:
    assert set(leaks.COLUMNS) <= set(tables.TABLES["matches"].columns)
