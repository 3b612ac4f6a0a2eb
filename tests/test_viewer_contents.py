"""What the viewer holds of a run: all completions, as many documents as there is room for."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from tokenizers import normalizers
from viewed import CORPUS, run_of

from propme import personal_data
from propme.errors import TableError
from propme.leaks import what_leaked
from propme.personal_data import finding
from propme.viewer.contents import Contents, contents
from propme.viewer.run import FOUND, Limits

RUN = run_of()


def by_name(found: Contents, name: str) -> dict[str, object]:
    return found.details[found.index["id"].index(name)]


def test_completions_are_listed_by_decoding_and_setting() -> None:
    run = run_of(decodings=("sampled", "greedy"))
    index = contents(run, mask=False).index
    assert index["settings"] == ["generic", "prefix", "human"]
    assert index["decodings"] == ["greedy", "sampled"]
    # Of each completion the first is sampled; generic are the third and fourth.
    assert index["id"] == ["g5", "g7", "g1", "g3", "g9", "g4", "g6", "g0", "g2", "g8"]
    assert index["decoding"] == [0] * 5 + [1] * 5


def test_the_index_tells_what_was_found() -> None:
    index = contents(RUN, mask=False).index
    found = dict(zip(index["id"], (FOUND[n] for n in index["tier"]), strict=True))
    assert found == {
        "g0": "full_raw", "g1": "partial", "g2": "partial", "g3": "none", "g4": "partial"
    }  # fmt: skip
    traces = RUN["traces"].set_index("generation_id")
    assert index["longest"] == [traces.loc[name, "longest_segment"] for name in index["id"]]
    assert index["sources"] == ["danish", "hostile", "verse"]
    sources = {
        name: {index["sources"][n] for n in numbers}
        for name, numbers in zip(index["id"], index["source"], strict=True)
    }
    assert sources["g0"] == {"verse"}
    assert sources["g2"] == {"danish"}
    assert sources["g3"] == set()


def test_a_passage_has_the_offsets_and_numbers_of_the_table() -> None:
    shown = contents(RUN, mask=False)
    spans = RUN["spans"].set_index(["generation_id", "span"])
    kept = 0
    for name, detail in zip(shown.index["id"], shown.details, strict=True):
        for span in detail["spans"]:
            row = spans.loc[(name, span["span"])]
            assert span["at"] == span["characters"] == [row["char_start"], row["char_stop"]]
            assert span["tokens"] == row["stop"] - row["start"]
            assert span["occurrences"] == row["n_occurrences"]
            assert (span["documents"], span["exact"]) == (
                row["n_documents"],
                row["documents_exact"],
            )
            kept += not span["dropped"]
    assert kept == (RUN["spans"]["dropped"] == "").sum()


def test_every_passage_is_there_kept_or_left_out() -> None:
    for detail in contents(RUN, mask=False).details:
        assert len(detail["spans"]) + len(detail["left_out"]["start"]) == detail["trace"]["n_spans"]


def test_a_document_has_its_match_in_context() -> None:
    shown = contents(RUN, mask=False)
    (document,) = by_name(shown, "g0")["documents"]
    assert document["document_id"] == "verse"
    assert document["copies"] == 4
    assert (document["tier"], document["recall"]) == ("full_raw", 1.0)
    assert document["licence"] == "CC0 & <free>"
    assert document["before"] + document["match"] == CORPUS["verse"]
    # The completion is nothing else, so that all of it agrees, in one row.
    assert [row[:2] for row in document["compared"]][-1] == [1, 14]


def test_rarity_is_in_quarters_of_the_kept_passages() -> None:
    shown = contents(RUN, mask=False)
    kept = RUN["spans"].loc[RUN["spans"]["dropped"] == "", "log_probability"].sort_values()
    kept = kept[kept > -math.inf]  # of a text that the corpus has in other tokens
    rare = {
        span["log_probability"]: span["rare"]
        for detail in shown.details
        for span in detail["spans"]
        if not span["dropped"]
    }
    assert rare[round(kept.iloc[0], 1)] == 3
    assert rare[round(kept.iloc[-1], 1)] == 0
    assert shown.index["rarity"] == [
        round(float(kept.astype(float).quantile(q)), 1) for q in (0.25, 0.5, 0.75)
    ]


def test_a_passage_without_a_probability_is_the_rarest() -> None:
    spans = RUN["spans"].copy()
    spans.loc[spans["generation_id"] == "g0", "log_probability"] = -math.inf
    shown = contents(RUN | {"spans": spans}, mask=False)
    (span,) = by_name(shown, "g0")["spans"]
    assert (span["log_probability"], span["rare"]) == (None, 3)
    assert all(map(math.isfinite, shown.index["rarity"]))


def test_what_is_beyond_the_limits_is_counted() -> None:
    limits = Limits(text=20, documents=1, comparisons=1)
    shown = contents(RUN, mask=False, limits=limits)
    cut = RUN["generations"]["text"].str.len().sub(20).clip(lower=0).sum()
    assert shown.left_out["characters of the text"] == cut
    assert all(len(text["text"]) <= 20 for text in shown.texts)
    # Both Danish documents hold the same passage; with text there is one.
    documents = by_name(shown, "g2")["documents"]
    assert len(documents) == len(RUN["matches"].query("generation_id == 'g2'"))
    spans = {document["span"] for document in documents}
    assert sum("match" in document for document in documents) == len(spans)
    assert sum("compared" in document for document in documents) == 1
    without = sum("match" not in d for detail in shown.details for d in detail["documents"])
    assert shown.left_out["texts of documents"] == without > 0
    assert shown.left_out["comparisons"] > 0


def test_where_there_is_little_room_what_leaked_most_is_shown() -> None:
    everything = contents(RUN, mask=False)
    nothing = contents(RUN, mask=False, limits=Limits(size=0))
    assert not any(detail["documents"] for detail in nothing.details)
    assert nothing.left_out["documents"] == len(RUN["matches"])
    assert nothing.left_out["completions without documents"] == 4  # one holds nothing
    assert [d["spans"] for d in nothing.details] == [d["spans"] for d in everything.details]
    some = contents(RUN, mask=False, limits=Limits(size=600))
    shown = [name for name in some.index["id"] if by_name(some, name)["documents"]]
    assert shown == ["g0"]  # the only one that stands whole in a document


def test_a_long_text_is_not_compared() -> None:
    shown = contents(RUN, mask=False, limits=Limits(compared=10))
    assert "compared" not in str([detail["documents"] for detail in shown.details])
    assert shown.left_out["comparisons"] > 0


MAIL = "Skriv til anna.andersen@example.dk eller ring +45 33 12 34 56, så svarer vi straks."


def personal() -> dict[str, pd.DataFrame]:
    corpus = CORPUS | {"mail": MAIL}
    return run_of([("prefix", "Hej", f"😀 {MAIL[6:]} Hej")], corpus)


def test_personal_data_is_masked_everywhere_and_offsets_follow() -> None:
    run = personal()
    shown = contents(run, mask=True)
    for secret in ("anna", "example.dk", "33 12"):
        assert secret not in str((shown.index, shown.texts, shown.details))
    (text,) = shown.texts
    assert text["text"] == "😀 til [e-mail] eller ring [phone], så svarer vi straks. Hej"
    spans = run["spans"].set_index("span")
    for span in shown.details[0]["spans"]:
        expected = personal_data.mask(spans.loc[span["span"], "text"])
        start, stop = span["at"]
        assert text["text"][start:stop] == expected
        assert span["characters"] == spans.loc[span["span"], ["char_start", "char_stop"]].tolist()


SECRET = "qwxz.jkvq@vkzw-qxj.dk"


@pytest.mark.parametrize("cut", [3, 8, 12])
def test_half_of_an_address_is_shown_nowhere(cut: int) -> None:
    # Of the same address a prompt has the first half, its completion and true continuation the
    # second; a completion breaks off within it, where the document goes on.
    text = f"Whoever wants to know more of it all may write to {SECRET} and will be answered."
    at = text.index(SECRET) + cut
    completions = [
        ("prefix", text[:at], text[at:]),
        ("prefix", text[:at], " something else that nobody ever said"),
        ("generic", "Hej", f"{text[8:at]} and nothing more is told of it"),
    ]
    run = run_of(completions, CORPUS | {"mail": text})
    run["prompts"] = run["prompts"].assign(target=[text[at:], text[at:], ""])
    shown = contents(run, mask=True)
    everything = str((shown.index, shown.texts, shown.details))
    assert "[e-mail]" in everything
    pieces = {SECRET[n : n + 4] for n in range(len(SECRET) - 3)}
    assert not {piece for piece in pieces if piece in everything}
    plain = contents(run, mask=False)
    assert SECRET in str(plain.details)


@pytest.mark.parametrize("normalizer", [normalizers.Lowercase(), normalizers.NFC()])
def test_half_of_an_address_is_not_shown_where_the_index_folds_the_text(normalizer: Any) -> None:
    # The document is there as the tokenizer has it, in lower case or with composed accents; the
    # completion is as it was written.
    text = f"Andre\u0301s VENNER, who wants to know more of it all, may write to {SECRET} soon."
    at = text.index(SECRET) + 8
    completions = [("generic", "Hej", f"{text[:at]} and nothing more is told of it")]
    run = run_of(completions, {"mail": text}, normalizer=normalizer)
    shown = contents(run, mask=True)
    everything = str((shown.index, shown.texts, shown.details))
    pieces = {SECRET[n : n + 4] for n in range(len(SECRET) - 3)}
    assert not {piece for piece in pieces if piece in everything}
    (table,) = what_leaked(
        run["generations"].merge(run["prompts"][["prompt_id", "setting"]], on="prompt_id"),
        run["spans"], run["matches"], run["prompts"], n=1,
    ).to_dict("records")  # fmt: skip
    assert table["passage"].endswith("may write to [e-mail]")
    assert table["personal_data"] == "e-mail"


def test_names_are_masked_and_stay_apart() -> None:
    run = personal()
    spans, matches, prompts = run["spans"], run["matches"], run["prompts"]
    more = matches.assign(document=matches["document"] + 1, document_id="d@e.dk", source="f@g.dk")
    matches = matches.assign(document_id="a@b.dk", source="b@c.dk", licence="of c@d.dk")
    run |= {"matches": pd.concat([matches, more]), "spans": spans}
    run["prompts"] = prompts.assign(prompt_id="p-33123456", category="h@i.dk", language="j@k.dk")
    name = {"g0": "33123456"}
    for table in ("generations", "traces", "spans", "matches"):
        run[table] = run[table].assign(generation_id=run[table]["generation_id"].map(name))
    run["generations"] = run["generations"].assign(prompt_id="p-33123456", model="l@m.dk")
    shown = contents(run, mask=True)
    everything = str((shown.index, shown.texts, shown.details))
    assert not {secret for secret in ("@", "33123456") if secret in everything}
    assert shown.index["id"] == ["[phone] 1"]
    assert shown.index["sources"] == ["[e-mail] 1", "[e-mail] 2"]
    assert {d["document_id"] for d in shown.details[0]["documents"]} == {"[e-mail] 1", "[e-mail] 2"}
    assert shown.texts[0]["documents"] == "[e-mail] 1 [e-mail] 2"
    assert shown.details[0]["generation"]["prompt_id"] == "p-[phone] 1"
    assert contents(run, mask=False).index["sources"] == ["b@c.dk", "f@g.dk"]


def test_personal_data_is_shown_when_asked_for_or_when_it_cannot_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = personal()
    assert "anna.andersen" in contents(run, mask=False).texts[0]["text"]
    monkeypatch.setattr(finding, "_PACKAGES", ("not_installed",))
    assert "anna.andersen" in contents(run, mask=True).texts[0]["text"]


def test_what_could_not_be_traced_says_why() -> None:
    traces = RUN["traces"].copy()
    traces.loc[traces["generation_id"] == "g3", "error"] = "too long"
    shown = contents(RUN | {"traces": traces}, mask=False)
    assert FOUND[shown.index["tier"][shown.index["id"].index("g3")]] == "not traced"
    assert by_name(shown, "g3")["trace"]["error"] == "too long"


def test_more_sources_than_can_be_chosen_are_counted() -> None:
    index = contents(RUN, mask=False, limits=Limits(sources=1)).index
    assert len(index["sources"]) == 1
    assert index["other_sources"] == 2


def test_a_run_with_no_completion_is_empty() -> None:
    empty = {name: frame.iloc[:0] for name, frame in RUN.items()}
    shown = contents(empty, mask=True)
    assert (shown.texts, shown.details, shown.index["rarity"]) == ([], [], [])


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("prompts", "5 generations have no row in table 'prompts', the first being 'g0'"),
        ("traces", "5 generations have no row in table 'traces', the first being 'g0'"),
        ("spans", "are not in table 'spans', the first being"),
    ],
)
def test_tables_that_do_not_belong_together_are_refused(table: str, named: str) -> None:
    with pytest.raises(TableError, match=named):
        contents(RUN | {table: RUN[table].iloc[:0]}, mask=False)
