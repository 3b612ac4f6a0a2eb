"""Probabilities of true continuations, against sums over everything that could be generated."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_demo

from propme import tables
from propme.errors import InputError, MetricError
from propme.generation import TransformersGenerator, complete
from propme.generation import transformers as module
from propme.generation.extraction import (
    Agreement,
    agreement,
    agreement_table,
    extractable_within,
    extraction_table,
    n_p_curve,
    true_suffix,
)
from propme.generation.sampling import log_probability
from propme.generation.scoring import Pair
from propme.model_tokenizer import ModelTokenizer
from propme.records import Decoding, Prompt

GREEDY = Decoding("greedy", 0.0, 1.0, 1, 30)
PLAIN = Decoding("plain", 1.0, 1.0, 1, 30)
DECODINGS = (GREEDY, PLAIN, Decoding("cool", 0.7, 0.9, 1, 30), Decoding("few", 1.3, 1.0, 1, 30, 3))


@pytest.fixture(scope="module")
def generator() -> TransformersGenerator:
    return TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=4)


def prefix(text: str, target: str, name: str = "1", **more: int) -> Prompt:
    return Prompt(f"prefix/{name}", "prefix", "capability", text, target=target, **more)


# --- one sequence ---------------------------------------------------------------------------------


def by_hand(logits: np.ndarray, ids: list[int], decoding: Decoding) -> float:
    """The definition, one token at a time, with probabilities instead of logs."""
    product = 1.0
    for row, token in zip(logits, ids, strict=True):
        if decoding.temperature == 0:
            product *= float(token == row.argmax())
            continue
        weights = np.exp(row / decoding.temperature)
        if decoding.top_k:
            weights[weights < np.sort(weights)[-decoding.top_k]] = 0
        p = weights / weights.sum()
        order = np.argsort(-p)
        before = np.cumsum(p[order]) - p[order]
        p[order[before >= decoding.top_p]] = 0  # the one that reaches the mass stays in
        product *= p[token] / p.sum()
    return product


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    st.sampled_from([0.2, 0.6, 0.95, 1.0]),
    st.sampled_from([0, 1, 3, 5]),
)
@settings(max_examples=200, deadline=None)
def test_of_one_sequence_as_by_hand(seed: int, temperature: float, top_p: float, k: int) -> None:
    import torch

    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (4, 6)).astype(np.float32)
    ids = [int(row.argmax()) if rng.random() < 0.7 else int(rng.integers(6)) for row in logits]
    decoding = Decoding("d", temperature, top_p, 1, 9, k)
    found = log_probability(torch.from_numpy(logits), torch.tensor(ids), decoding)
    assert math.exp(found) == pytest.approx(by_hand(logits.astype(float), ids, decoding), rel=1e-5)


@pytest.mark.parametrize("decoding", DECODINGS)
def test_over_all_sequences_it_sums_to_one(decoding: Decoding) -> None:
    import torch

    logits = torch.from_numpy(np.random.default_rng(1).normal(0, 2, (3, 5)))
    every = itertools.product(range(5), repeat=3)
    total = sum(math.exp(log_probability(logits, torch.tensor(ids), decoding)) for ids in every)
    assert total == pytest.approx(1)


def test_what_a_product_would_lose_is_kept() -> None:
    import torch

    logits = torch.zeros(2000, 1000)
    found = log_probability(logits, torch.zeros(2000, dtype=torch.long), PLAIN)
    assert found == pytest.approx(-2000 * math.log(1000))


# --- many, with a real model ----------------------------------------------------------------------


def pairs_of(generator: TransformersGenerator, lengths: list[tuple[int, int]]) -> list[Pair]:
    rng = np.random.default_rng(0)
    return [
        Pair((0, *map(int, rng.integers(1, 500, n))), tuple(map(int, rng.integers(1, 500, m))))
        for n, m in lengths
    ]


LENGTHS = [(3, 5), (40, 1), (1, 30), (12, 12), (3, 5), (25, 2), (7, 20)]


def test_batches_and_their_padding_change_nothing(generator: TransformersGenerator) -> None:
    import torch

    pairs = pairs_of(generator, LENGTHS)
    found = list(generator.score(pairs, DECODINGS))
    for pair, scores in zip(pairs, found, strict=True):
        ids = torch.tensor([[*pair.prefix, *pair.suffix]])
        with torch.no_grad():
            logits = generator._model(ids).logits[0, len(pair.prefix) - 1 : -1].double().numpy()
        likeliest = (logits.argmax(-1) == np.array(pair.suffix)).sum()
        for decoding, score in zip(DECODINGS, scores, strict=True):
            expected = by_hand(logits, list(pair.suffix), decoding)
            assert math.exp(score.log_probability) == pytest.approx(expected, rel=1e-3)
            assert score.greedy_tokens == likeliest


def test_however_few_logits_are_held_the_scores_are_the_same(
    generator: TransformersGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = pairs_of(generator, LENGTHS)
    expected = [s[1].log_probability for s in generator.score(pairs, DECODINGS)]
    held = []
    really = generator._scores
    monkeypatch.setattr(
        generator, "_scores", lambda p, d: held.append(generator._width(p) * len(p)) or really(p, d)
    )
    monkeypatch.setattr(module, "_LOGITS_AT_A_TIME", 512 * 45)
    few = [s[1].log_probability for s in generator.score(pairs, DECODINGS)]
    assert few == pytest.approx(expected, rel=1e-5)
    assert max(held) <= 45


def test_where_memory_is_short_scoring_goes_on_with_less(
    generator: TransformersGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = pairs_of(generator, LENGTHS)
    expected = [s[1].log_probability for s in generator.score(pairs, DECODINGS)]
    really = generator._scores

    def short(part: list[Pair], decodings: list[Decoding]) -> object:
        if len(part) > 2:
            raise RuntimeError("out of memory")
        return really(part, decodings)

    monkeypatch.setattr(generator, "_scores", short)
    few = [s[1].log_probability for s in generator.score(pairs, DECODINGS)]
    assert few == pytest.approx(expected, rel=1e-5)


def test_greedy_probability_is_one_exactly_for_what_greedy_decoding_writes(
    generator: TransformersGenerator,
) -> None:
    asked = [prefix("And God said", "x", "1"), prefix("The children of", "x", "2")]
    for made in complete(generator, asked, [GREEDY], 0):
        ids = generator.given(next(p for p in asked if p.prompt_id == made.prompt_id), 1)
        wrong = (*made.token_ids[:-1], made.token_ids[-1] ^ 1)
        own, other = generator.score([Pair(ids, made.token_ids), Pair(ids, wrong)], [GREEDY])
        assert own[0] == (0.0, len(made.token_ids))
        assert other[0] == (-math.inf, len(made.token_ids) - 1)


@pytest.mark.parametrize(
    "decoding",
    [
        Decoding("s", 1.0, 1.0, 600, 3),
        Decoding("s", 0.7, 0.8, 600, 3),
        Decoding("s", 1, 1, 600, 3, 4),
    ],
    ids=["plain", "nucleus", "top-k"],
)
def test_as_often_sampled_as_the_probability_says(
    generator: TransformersGenerator, decoding: Decoding, tmp_path: Path
) -> None:
    big = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=600)
    text = "And God said"
    first = complete(big, [prefix(text, "x")], [replace(decoding, samples=1)], 5)[0]
    target = generator.tokenizer.decode(first.token_ids)  # something that is not too rare
    asked = [prefix(text, target, "1"), prefix("And it came to", " pass", "2")]
    made = complete(big, asked, [decoding], 0)
    table = extraction_table(big, asked, [decoding], made)
    assert table["n_samples"].tolist() == [600, 600]
    for row in table.itertuples():
        p = math.exp(row.log_probability)
        assert abs(row.n_extracted - 600 * p) < 4.5 * math.sqrt(600 * p * (1 - p)) + 1
    found = agreement(table, "s")
    assert found is not None
    assert found.holds
    assert found.observed == table["n_extracted"].sum() / 1200
    tables.write("extraction", table, tmp_path)


# --- prefixes and suffixes ------------------------------------------------------------------------


def test_the_suffix_is_spelled_as_it_follows_the_prefix() -> None:
    tokenizer = ModelTokenizer.load(str(tiny_demo().model))
    whole = "And God said, Let there be light: and there was light."
    for cut in range(1, len(whole)):
        pair = true_suffix(prefix(whole[:cut], whole[cut:]), tokenizer)
        assert pair.prefix == (0, *tokenizer.encode(whole[:cut]))
        assert tokenizer.decode([*pair.prefix[1:], *pair.suffix]) == whole
    whole_words = true_suffix(prefix("And God", " said,"), tokenizer)
    assert [*whole_words.prefix[1:], *whole_words.suffix] == tokenizer.encode("And God said,")


def test_of_a_long_target_only_what_is_asked_for_is_scored() -> None:
    tokenizer = ModelTokenizer.load(str(tiny_demo().model))
    short = true_suffix(prefix("And God", " said"), tokenizer)
    cut = true_suffix(prefix("And God", " said, Let there be", target_chars=5), tokenizer)
    assert cut == short


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (prefix("a", ""), "no true continuation is known"),
        (replace(prefix("a", "b"), chat=True), "a chat message has no true continuation"),
    ],
)
def test_a_prompt_without_a_continuation_is_told(prompt: Prompt, message: str) -> None:
    with pytest.raises(InputError, match=message):
        true_suffix(prompt, ModelTokenizer.load(str(tiny_demo().model)))


def test_a_continuation_that_does_not_fit_has_a_row_and_others_are_scored(
    generator: TransformersGenerator,
) -> None:
    asked = [
        prefix("a", " b" * 300, "long"),
        prefix("And", " God", "short"),
        prefix("no", "", "no"),
    ]
    table = extraction_table(generator, asked, [PLAIN], [])
    assert table["prompt_id"].tolist() == ["prefix/long", "prefix/short"]
    assert "the model's context 256" in table["error"][0]
    assert table["error"][1] == ""
    assert table["log_probability"].isna().tolist() == [True, False]


def test_completions_too_short_to_hold_the_continuation_are_not_counted(
    generator: TransformersGenerator,
) -> None:
    asked = [prefix("And God said", ", Let there be light: and there was light")]
    short = Decoding("sampled", 1.0, 1.0, 4, 3)
    table = extraction_table(generator, asked, [short], complete(generator, asked, [short], 0))
    assert table["n_samples"].tolist() == [0]
    assert agreement(table, "sampled") is None
    assert agreement_table(table).empty


# --- curves ---------------------------------------------------------------------------------------


def test_within_n_tries_as_by_hand() -> None:
    logs = np.log([0.5, 0.1, 1.0])
    # 1 - 0.5**3, 1 - 0.9**3
    assert extractable_within(logs, 3).tolist() == pytest.approx([0.875, 0.271, 1.0])
    assert extractable_within([-math.inf], 10**6).tolist() == [0.0]
    # p = e**-100: n * p, where 1 - p would be rounded to 1
    assert extractable_within([-100.0], 1e6)[0] == pytest.approx(1e6 * math.exp(-100))


@given(st.lists(st.floats(-60, 0), min_size=1, max_size=8))
def test_a_curve_rises_with_the_tries_and_falls_with_the_target(logs: list[float]) -> None:
    curve = n_p_curve(logs, tries=(1, 3, 50, 10**6), targets=(0.1, 0.5, 0.9))
    assert (np.diff(curve.to_numpy(), axis=0) >= 0).all()
    assert (np.diff(curve.to_numpy(), axis=1) <= 0).all()
    for n, row in curve.iterrows():
        for p, share in row.items():
            reached = [1 - (1 - math.exp(log)) ** int(str(n)) >= float(str(p)) for log in logs]
            near = [
                abs(1 - (1 - math.exp(log)) ** int(str(n)) - float(str(p))) < 1e-9 for log in logs
            ]
            assert any(near) or share == pytest.approx(np.mean(reached))


@pytest.mark.parametrize(
    ("logs", "tries", "targets"),
    [([], (1,), (0.5,)), ([math.nan], (1,), (0.5,)), ([-1], (0,), (0.5,)), ([-1], (1,), (1.0,))],
)
def test_a_curve_of_nothing_is_refused(
    logs: list[float], tries: tuple[int, ...], targets: tuple[float, ...]
) -> None:
    with pytest.raises(MetricError):
        n_p_curve(logs, tries, targets)


# --- agreement ------------------------------------------------------------------------------------


def table_of(*rows: tuple[float, int, int]) -> pd.DataFrame:
    """Probability, samples and extracted ones of each prefix."""
    return pd.DataFrame(
        {
            "prompt_id": [str(n) for n in range(len(rows))],
            "decoding": "sampled",
            "n_tokens": 5,
            "log_probability": [math.log(p) if p else -math.inf for p, _, _ in rows],
            "greedy_tokens": 5,
            "n_samples": [n for _, n, _ in rows],
            "n_extracted": [k for _, _, k in rows],
            "error": "",
        }
    )


def test_agreement_as_by_hand() -> None:
    # One fair coin thrown ten times: 0 or 10 heads in 2 of 1024 throws, so 99 % lie in 1 to 9.
    assert agreement(table_of((0.5, 10, 9)), "sampled") == Agreement(0.5, 0.9, 0.1, 0.9, 10)
    found = agreement(table_of((0.5, 10, 10)), "sampled")
    assert found is not None
    assert not found.holds
    # Certain ones move the count, and add no chance.
    found = agreement(table_of((0.5, 10, 9), (1.0, 5, 5), (0.0, 5, 0)), "sampled")
    assert found == Agreement(10 / 20, 14 / 20, 6 / 20, 14 / 20, 20)


def test_samples_that_follow_the_probabilities_agree_and_others_do_not() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(30) ** 3
    right = [table_of(*((x, 20, int(rng.binomial(20, x))) for x in p)) for _ in range(200)]
    wrong = [table_of(*((x, 20, int(rng.binomial(20, x**1.5))) for x in p)) for _ in range(50)]
    # 99 % of 200 are 198; fewer than 190 would come once in a million times.
    assert sum(agreement(t, "sampled").holds for t in right) >= 190  # type: ignore[union-attr]
    assert not any(agreement(t, "sampled").holds for t in wrong)  # type: ignore[union-attr]
