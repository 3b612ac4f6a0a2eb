"""The look-up of every prompt in the corpus, and the choice of those that are used."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import DANISH, byte_tokenizer, index_of, metaspace_tokenizer, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_demo
from tokenizers import normalizers

from propme import tables
from propme.errors import InputError
from propme.index.brute_force import BruteForceIndex
from propme.index.tokenizer import Tokenizer
from propme.model_tokenizer import ModelTokenizer
from propme.prompts import audit, choose, fit, prefix_prompts, require_contrast
from propme.records import Prompt

WORDS = word_tokenizer([f"w{n}" for n in range(400)])
BYTES = byte_tokenizer()
BPE = byte_tokenizer(DANISH, 80)


# --- the look-up ----------------------------------------------------------------------------------


def prompt_of(text: str, kind: str = "propensity", name: str = "generic/x") -> Prompt:
    return Prompt(name, name.split("/")[0], kind, text)


def audited(text: str, index: BruteForceIndex, limit: int = 8, kind: str = "propensity") -> Prompt:
    (prompt,) = audit([prompt_of(text, kind)], index, limit)
    return prompt


def slow_longest(documents: list[str], text: str, tokenizer: Tokenizer) -> int:
    """Longest window that occurs: as tokens, or at an end of the text as characters."""
    text = text.strip()
    ids, offsets = tokenizer.encode_with_offsets(text)
    encoded = [tokenizer.encode(document) for document in documents]

    def occurs(start: int, stop: int) -> bool:
        window = text[offsets[start][0] : offsets[stop - 1][1]]
        # The token at the end that lies inside the prompt must not be blank.
        inner = [stop - 1] * (start == 0) + [start] * (stop == len(ids))
        ends = any(text[slice(*offsets[token])].strip() for token in inner)
        if ends and any(window.strip() in d for d in documents):
            return True
        size = stop - start
        return any(d[i : i + size] == ids[start:stop] for d in encoded for i in range(len(d)))

    n = len(ids)
    windows = [(start, stop) for start in range(n) for stop in range(start + 1, n + 1)]
    return max((stop - start for start, stop in windows if occurs(start, stop)), default=0)


def test_prompts_are_looked_up_in_an_index_of_bytes() -> None:
    found = audited("bæ ", index_of(["abæ"], Tokenizer.load("bytes")))
    assert (found.n_tokens, found.longest_span, found.occurs_whole) == (3, 3, True)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.text("ab \n", min_size=1, max_size=12), min_size=1, max_size=3),
    st.text("ab ", min_size=1, max_size=9),
)
def test_the_longest_span_is_that_of_brute_force(documents: list[str], text: str) -> None:
    tokenizer = byte_tokenizer(["ab ba aab bba ab"] * 4, 6)
    found = audited(text, index_of(documents, tokenizer))
    assert found.n_tokens == len(tokenizer.encode(text.strip()))
    assert found.longest_span == slow_longest(documents, text, tokenizer)
    assert found.overlap == found.longest_span / max(1, found.n_tokens)
    stands = [d for d in documents if text.strip() and text.strip() in d]
    assert found.occurs_whole == bool(stands)
    assert found.documents_exact
    # A document that stands there twice is two.
    assert found.n_documents == len(stands)
    if len(text.split()) >= 3:
        assert found.n_occurrences == sum(
            document.startswith(text.strip(), at) for document in documents for at in range(12)
        )


@pytest.mark.parametrize("leading_space", [True, False])
@pytest.mark.parametrize("before", ["\n", '"', " "])
def test_a_sentence_is_found_behind_a_newline_a_quote_and_a_space(
    leading_space: bool, before: str
) -> None:
    sentence = "Smørrebrød og kål hører sommeren til"
    texts = [*DANISH, f"Hun sagde:{before}{sentence}, og lo."] * 3
    tokenizer = byte_tokenizer(texts, 120) if leading_space else metaspace_tokenizer(texts, 160)
    spellings = {tuple(tokenizer.encode(f"x{b}{sentence}")[1:4]) for b in '\n" '}
    assert len(spellings) > 1  # it is spelt otherwise behind them
    found = audited(sentence, index_of(texts[3:4], tokenizer))
    assert (found.occurs_whole, found.n_occurrences, found.overlap) == (True, 1, 1.0)
    # And what of it stands at either end of another prompt.
    for prompt in (f"{sentence}. Hvorfor?", f"Sig det: {sentence}"):
        shared = len(tokenizer.encode(sentence)) - 1
        assert audited(prompt, index_of(texts[3:4], tokenizer)).longest_span >= shared


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


def test_blanks_inside_a_prompt_are_not_shared_text() -> None:
    found = audited("Hej" + "\n" * 20 + "verden", index_of(["Hej hej"], BYTES), limit=16)
    assert (found.longest_span, found.refused) == (3, "")


def test_accents_are_compared_as_the_index_holds_them() -> None:
    backend = byte_tokenizer(DANISH, 80)._backend
    backend.normalizer = normalizers.NFC()
    tokenizer = Tokenizer(backend)
    text = "Cafe\u0301 au lait og smørrebrød på åen"
    index = index_of([f"En {text}."], tokenizer)
    for written in (text, unicodedata.normalize("NFC", text)):
        assert audited(written, index).occurs_whole


def test_a_set_of_ones_own_and_what_asks_for_nothing_are_used_whole() -> None:
    own, cues = named("file", 5), named("minimal_cue", 7)
    assert choose([*own, *cues, *named("generic", 3)], 2) == [*own, *cues, *named("generic", 2)]
    with pytest.raises(InputError, match="setting 'file': 0 usable prompts, 1 wanted"):
        choose(named("file", 2, refused="r"), 2)


# --- what asks for nothing, and what stands twice -------------------------------------------------


def test_what_asks_for_nothing_is_counted_and_not_refused() -> None:
    index = index_of(["w1 w2", "w1"], WORDS)
    nothing = Prompt("unconditional/start", "unconditional", "propensity", "", samples=9)
    cue = Prompt("minimal_cue/1", "minimal_cue", "propensity", "w1", samples=1)
    again = Prompt("minimal_cue/2", "minimal_cue", "propensity", "w1", samples=1)
    found = audit([nothing, cue, again], index, 0)
    assert [p.refused for p in found] == ["", "", ""]
    assert (found[0].n_tokens, found[0].overlap, found[0].occurs_whole) == (0, 0.0, False)
    assert (found[1].occurs_whole, found[1].n_occurrences, found[1].n_documents) == (True, 2, 2)


def test_of_equal_prompts_of_one_setting_the_first_is_used() -> None:
    index = index_of(["w1 w2"], WORDS)
    prompts = [
        Prompt("generic/a", "generic", "propensity", "w9 w7"),
        Prompt("chat/a", "chat", "propensity", "w9 w7", chat=True),
        Prompt("generic/b", "generic", "propensity", "w9 w7"),
    ]
    found = audit(prompts, index, 5)
    assert [p.refused for p in found] == ["", "", "the same text as generic/a"]
    assert audit(found, index, 5) == found


def test_a_refusal_from_before_stays() -> None:
    prompt = Prompt("specific/a", "specific", "propensity", "", refused="nothing of use")
    (found,) = audit([prompt], index_of(["w1"], WORDS), 5)
    assert found.refused == "nothing of use"


# --- the model's context --------------------------------------------------------------------------


def test_what_leaves_no_room_for_its_completion_is_refused() -> None:
    model = ModelTokenizer.load(str(tiny_demo().model))
    short, long = prompt_of("And God said"), prompt_of("And God said " * 100, name="generic/y")
    human = Prompt("human/x", "human", "control", "And God said " * 100)
    known = Prompt("generic/z", "generic", "propensity", "And", refused="r")
    fitted = fit([short, long, human, known], model, 24)
    n = 1 + len(model.encode("And God said"))
    assert (fitted[0].n_model_tokens, fitted[0].refused) == (n, "")
    assert "context of 256" in fitted[1].refused
    assert fitted[1].n_model_tokens == len(model.prompt_ids(long))
    assert (fitted[2].n_model_tokens, fitted[2].refused) == (None, "")
    assert fitted[3].refused == "r"


def test_without_the_models_tokenizer_nothing_is_known() -> None:
    prompts = [prompt_of("And God said")]
    assert fit(prompts, None, 24) == prompts


# --- contrast with the attack ---------------------------------------------------------------------


def shares(setting: str, kind: str, *overlaps: float) -> list[Prompt]:
    return [
        Prompt(f"{setting}/{n}", setting, kind, "t", overlap=overlap)
        for n, overlap in enumerate(overlaps)
    ]


def test_ordinary_prompts_must_overlap_much_less_than_an_attack() -> None:
    attack = shares("prefix", "capability", 1.0, 1.0)
    fine = shares("generic", "propensity", 0.1, 0.49, 0.9)
    require_contrast([*attack, *fine, *shares("human", "control", 0.9)])
    require_contrast([*attack, *shares("minimal_cue", "propensity", 1.0)])
    require_contrast(shares("generic", "propensity", 1.0))  # nothing to compare with
    near = shares("file", "propensity", 0.1, 0.5, 0.9)
    with pytest.raises(InputError, match=r"setting 'file': half of its prompts share 50%.*50%"):
        require_contrast([*attack, *fine, *near])


def test_where_enough_of_a_set_is_usable_the_rest_is_not_looked_up() -> None:
    index = index_of(["w1 w2 w3 w4"], WORDS)
    stands, usable = "w1 w2 w3 w4", [f"w{n} w{n + 1}" for n in (10, 20, 30)]
    prompts = [
        prompt_of(text, name=f"{setting}/{number}")
        for setting in ("generic", "specific", "file")
        for number, text in enumerate([stands, *usable])
    ]
    few = audit(prompts, index, 8, enough=2)
    # Of each set the refused one and the first two others; of one's own file, all.
    assert [p.prompt_id[-1] for p in few] == [*"012", *"012", *"0123"]
    kept = [p for p in choose(audit(prompts, index, 8), 2) if not p.refused]
    assert kept == [p for p in choose(few, 2) if not p.refused]
    # One that does not fit into the model's context is none of the two.
    prompts[1] = replace(prompts[1], refused="no room")
    few = audit(prompts, index, 8, enough=2)
    assert [p.prompt_id[-1] for p in few] == [*"0123", *"012", *"0123"]
    assert len([p for p in choose(few, 2) if p.setting == "generic" and not p.refused]) == 2
