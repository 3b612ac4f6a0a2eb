"""Generation with a real model of transformers."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from gguf_file import write_gguf
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_demo

from propme.errors import InputError, ParameterError
from propme.files import content_hash
from propme.generation import TransformersGenerator, as_written, complete
from propme.generation.protocol import Task, readable, sample_seed
from propme.index import Tokenizer
from propme.records import Decoding, Prompt

GREEDY = Decoding("greedy", 0.0, 1.0, 1, 24)
SAMPLED = Decoding("sampled", 1.0, 1.0, 3, 24)


def prompts(*texts):
    return [Prompt(f"generic/{i}", "generic", "propensity", text) for i, text in enumerate(texts)]


TEXTS = ("And God said", "Why?", "The children of Israel went up out of the land and", "Blå", "")


@pytest.fixture(scope="module")
def generator():
    return TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=4)


def by_id(generations):
    return {g.generation_id: g for g in generations}


def test_greedy_text_is_what_the_model_itself_would_choose(generator):
    """One step at a time, no batch, no padding, no cache: the slow truth."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_demo().model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_demo().model)
    made = {g.prompt_id: g for g in complete(generator, prompts(*TEXTS), [GREEDY], 0)}
    for prompt in prompts(*TEXTS):
        ids = [tokenizer.bos_token_id, *tokenizer.encode(prompt.text, add_special_tokens=False)]
        start = len(ids)
        while len(ids) < start + GREEDY.max_new_tokens:
            with torch.no_grad():
                chosen = int(model(torch.tensor([ids])).logits[0, -1].argmax())
            if chosen == tokenizer.eos_token_id:
                break
            ids.append(chosen)
        assert list(made[prompt.prompt_id].token_ids) == ids[start:]
        assert made[prompt.prompt_id].text == tokenizer.decode(ids[start:])


def test_each_prompt_is_completed_as_often_as_asked_and_reproducibly(generator):
    asked = prompts(*TEXTS)
    first, second = (by_id(complete(generator, asked, [SAMPLED], 7)) for _ in range(2))
    assert len(first) == len(asked) * SAMPLED.samples
    assert first == second
    other = by_id(complete(generator, asked, [SAMPLED], 8))
    assert sum(first[i].text != other[i].text for i in first) > len(first) // 2


def test_other_prompts_and_another_batch_size_leave_a_sample_as_it_was(generator):
    few = by_id(complete(generator, prompts(*TEXTS[:2]), [SAMPLED], 0))
    many = by_id(complete(generator, prompts(*TEXTS), [SAMPLED], 0))
    assert {i: few[i].text for i in few} == {i: many[i].text for i in few}
    alone = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=1)
    one_by_one = by_id(complete(alone, prompts(*TEXTS), [SAMPLED], 0))
    assert {g.batch_size for g in one_by_one.values()} == {1}
    assert {i: g.token_ids for i, g in one_by_one.items()} == {
        i: g.token_ids for i, g in many.items()
    }


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.0, 0.5)])
def test_samples_follow_the_distribution_that_was_asked_for(generator, temperature, top_p):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_demo().model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_demo().model)
    ids = [tokenizer.bos_token_id, *tokenizer.encode("And God said")]
    with torch.no_grad():
        p = (model(torch.tensor([ids])).logits[0, -1].double() / temperature).softmax(-1).numpy()
    order = np.argsort(-p)
    nucleus = order[: int(np.searchsorted(np.cumsum(p[order]), top_p)) + 1]
    expected = np.zeros_like(p)
    expected[nucleus] = p[nucleus] / p[nucleus].sum()
    n = 1500
    big = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=500)
    drawn = Counter(
        (g.token_ids or (tokenizer.eos_token_id,))[0]
        for g in complete(
            big, prompts("And God said"), [Decoding("s", temperature, top_p, n, 1)], seed=0
        )
    )
    assert set(drawn) <= set(np.flatnonzero(expected).tolist())
    # Tokens in eight groups, each of which must be drawn as often as it should be.
    groups = np.array_split(order[np.argsort(order % 8, kind="stable")], 8)
    for group in groups:
        wanted, got = n * expected[group].sum(), sum(drawn[int(t)] for t in group)
        assert abs(got - wanted) < 4.5 * np.sqrt(wanted) + 1e-9


def test_the_text_ends_at_the_first_end_token_and_says_so(generator):
    long = Decoding("sampled", 1.0, 1.0, 8, 100)
    made = list(complete(generator, prompts(*TEXTS), [long], 0))
    assert {g.finish_reason for g in made} == {"stop", "length"}
    for g in made:
        assert 0 not in g.token_ids
        assert (len(g.token_ids) == 100) == (g.finish_reason == "length")


def test_a_prompt_that_does_not_fit_has_a_row_that_says_so_and_the_others_are_made(generator):
    short, long = prompts("And God said", "And God said " * 100)
    made = by_id(complete(generator, [short, long], [GREEDY], 0))
    assert made["generic/0/greedy/0"].text
    row = made["generic/1/greedy/0"]
    assert (row.finish_reason, row.text) == ("error", "")
    assert "context of 256" in row.error


@pytest.mark.parametrize(
    ("options", "message"),
    [({"batch_size": 0}, "batch_size"), ({"device": "nowhere"}, "device 'nowhere'")],
)
def test_a_wrong_option_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        TransformersGenerator(str(tiny_demo().model), **options)


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_demo().model, folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 512, "content": "<x>"})
    file.write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match="more tokens than the model"):
        TransformersGenerator(str(folder))


def test_the_models_own_generation_settings_do_not_creep_in(generator, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny_demo().model, folder)
    own = {"do_sample": True, "repetition_penalty": 5.0, "max_length": 3, "temperature": 9.0}
    (folder / "generation_config.json").write_text(json.dumps(own))
    other = TransformersGenerator(str(folder), device="cpu", batch_size=4)
    asked = prompts(*TEXTS)
    texts = [[g.text for g in complete(each, asked, [GREEDY], 0)] for each in (other, generator)]
    assert texts[0] == texts[1]


def test_if_no_prompt_fits_nothing_is_made(generator):
    long = Decoding("greedy", 0.0, 1.0, 1, 255)
    with pytest.raises(InputError, match=r"generic/0: .*context of 256"):
        complete(generator, prompts("And God said"), [long], 0)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot load") as caught:
        TransformersGenerator(str(tmp_path))
    assert str(tmp_path) in str(caught.value)


def test_what_made_the_generations_is_told(generator):
    told = generator.describe()
    assert told["device"] == "cpu"
    assert told["dtype"] == "float32"
    assert told["end_tokens"] == [0]
    assert set(told["versions"]) == {"torch", "transformers", "tokenizers"}


def test_seeds_depend_on_each_of_the_four():
    base = ("p", "sampled", 0)
    seeds = {
        sample_seed(0, *base),
        sample_seed(1, *base),
        sample_seed(0, "q", "sampled", 0),
        sample_seed(0, "p", "greedy", 0),
        sample_seed(0, "p", "sampled", 1),
    }
    assert len(seeds) == 5
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_each_row_says_what_made_it(generator):
    row = complete(generator, prompts("And God said"), [SAMPLED], 0)[1]
    told = generator.describe()
    assert (row.backend, row.model, row.device) == ("transformers", "model", "cpu")
    assert (row.dtype, row.batch_size, row.top_k) == ("float32", 3, 0)
    assert row.revision == told["revision"] == content_hash(tiny_demo().model)
    assert f"torch {told['versions']['torch']}" in row.versions


def test_a_prompt_may_ask_for_its_own_number_of_samples(generator):
    one, other = prompts("And God said", "Why?")
    made = complete(generator, [one, replace(other, samples=5)], [GREEDY, SAMPLED], 0)
    assert Counter((g.prompt_id, g.decoding) for g in made) == {
        ("generic/0", "greedy"): 1,
        ("generic/1", "greedy"): 1,
        ("generic/0", "sampled"): 3,
        ("generic/1", "sampled"): 5,
    }


def test_what_people_wrote_is_given_to_no_model(generator):
    human = Prompt("human/1", "human", "control", "I will not.\n")
    assert [g.prompt_id for g in complete(generator, [human, *prompts("Why?")], [GREEDY], 0)] == [
        "generic/0"
    ]
    rows = as_written([human], [GREEDY, SAMPLED])
    assert [(g.decoding, g.sample, g.text, g.finish_reason) for g in rows] == [
        ("greedy", 0, "I will not.\n", "stop"),
        ("sampled", 0, "I will not.\n", "stop"),
    ]


def test_only_the_most_likely_tokens_are_drawn_if_so_asked(generator):
    narrow = Decoding("sampled", 1.0, 1.0, 4, 24, top_k=1)
    greedy = {g.prompt_id: g.token_ids for g in complete(generator, prompts(*TEXTS), [GREEDY], 0)}
    for g in complete(generator, prompts(*TEXTS), [narrow], 0):
        assert g.top_k == 1
        assert g.token_ids == greedy[g.prompt_id]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            lambda: __import__("torch").OutOfMemoryError("CUDA out of memory."), id="cuda"
        ),
        pytest.param(
            lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), id="cpu"
        ),
        pytest.param(lambda: RuntimeError("Invalid buffer size: 9.31 GiB"), id="mps"),
    ],
)
def test_where_memory_is_short_the_batch_is_halved_and_nothing_lost(generator, monkeypatch, error):
    small = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=16)
    really, tried = small._model.generate, []

    def short_of_memory(input_ids, **rest):
        tried.append(len(input_ids))
        if len(input_ids) > 5:
            raise error()
        return really(input_ids=input_ids, **rest)

    monkeypatch.setattr(small._model, "generate", short_of_memory)
    made = complete(small, prompts(*TEXTS), [SAMPLED], 0)
    # 15 tasks: 15, then halves of 8, which are too many too, then 4, 4, 4 and 3.
    assert tried == [15, 8, 4, 4, 4, 3]
    assert {g.batch_size for g in made} == {4, 3}
    expected = complete(generator, prompts(*TEXTS), [SAMPLED], 0)
    assert [g.text for g in made] == [g.text for g in expected]
    assert small.noticed()["completions at a time that memory allowed"] == 4


def test_a_prompt_for_which_there_is_no_memory_at_all_has_a_row_and_is_tried_again(
    tmp_path, monkeypatch
):
    own = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=4)
    really = own._model.generate

    def short_of_memory(input_ids, **rest):
        if input_ids.shape[1] > 5:
            raise RuntimeError("out of memory")
        return really(input_ids=input_ids, **rest)

    asked = prompts("Why?", "The children of Israel went up out of the land")
    with monkeypatch.context() as patch:
        patch.setattr(own._model, "generate", short_of_memory)
        made = complete(own, asked, [GREEDY], 0, tmp_path / "j")
    assert [bool(g.error) for g in made] == [False, True]
    assert "out of memory" in made[1].error
    assert not any(g.error for g in complete(own, asked, [GREEDY], 0, tmp_path / "j"))


def test_another_error_is_not_taken_for_want_of_memory(monkeypatch):
    own = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=4)

    def broken(**_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(own._model, "generate", broken)
    with pytest.raises(RuntimeError, match="mat1"):
        complete(own, prompts("Why?"), [GREEDY], 0)


def test_a_row_without_numbers_has_an_error_and_its_neighbours_have_none(generator):
    """As half precision overflows for some prompts and not for others."""
    import torch

    own = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=4)
    embedding = own._model.get_input_embeddings()
    marked = own.tokenizer.encode("Q")[0]
    with torch.no_grad():
        own._model.get_output_embeddings().weight = torch.nn.Parameter(embedding.weight.clone())
        embedding.weight[marked] = float("nan")
    for decoding in (GREEDY, SAMPLED):
        made = complete(own, prompts("Why?", "Q"), [decoding], 0)
        assert {g.prompt_id for g in made if g.error} == {"generic/1"}
        assert all("NaN" in g.error for g in made if g.error)
        sound = complete(generator, prompts("Why?"), [decoding], 0)
        assert [g.text for g in made if not g.error] == [g.text for g in sound]


def test_batches_hold_prompts_of_like_length_of_one_decoding(generator):
    asked = [*prompts("a", "The children of Israel went up", "b", "He went up to the land of")]
    made = [
        Task(p, d, n, 0, generator.given(p, 1))
        for d in (GREEDY, SAMPLED)
        for p in asked
        for n in range(d.samples)
    ]
    batches = generator.batches(made)
    assert sorted(map(len, batches)) == [4, 4, 4, 4]
    for batch in batches:
        assert len({task.decoding for task in batch}) == 1
    lengths = [len(t.given) for b in batches if b[0].decoding == SAMPLED for t in b]
    assert lengths == sorted(lengths, reverse=True)
    assert generator.batches(made[::-1]) == batches


@given(st.text(st.characters(codec=None), max_size=8))
def test_half_a_pair_of_surrogates_is_replaced_and_nothing_else(text):
    whole, note = readable(text)
    whole.encode("utf-8")
    # Pairs joined first, as JSON means them; what is left is half of one.
    joined = re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda m: chr(0x10000 + (ord(m[0][0]) - 0xD800) * 0x400 + ord(m[0][1]) - 0xDC00),
        text,
    )
    expected, n_lone = re.subn("[\ud800-\udfff]", "\ufffd", joined)
    assert whole == expected
    assert bool(note) == bool(n_lone)


def test_a_folder_without_weights_is_named(tmp_path):
    for file in tiny_demo().model.iterdir():
        if not file.name.endswith(".safetensors"):
            shutil.copy(file, tmp_path)
    with pytest.raises(InputError, match="cannot load a causal language model") as caught:
        TransformersGenerator(str(tmp_path))
    assert caught.value.path == str(tmp_path)


def test_a_gguf_file_gives_the_texts_of_the_folder_with_the_same_weights(generator, tmp_path):
    of_file = TransformersGenerator(str(write_gguf(tmp_path / "model.gguf")), "cpu", batch_size=4)
    for decoding in (GREEDY, SAMPLED):
        made = complete(of_file, prompts(*TEXTS), [decoding], 0)
        expected = complete(generator, prompts(*TEXTS), [decoding], 0)
        assert [(g.text, g.token_ids) for g in made] == [(g.text, g.token_ids) for g in expected]


def test_an_index_can_have_the_tokenizer_of_a_gguf_file(tmp_path):
    of_file = Tokenizer.load(str(write_gguf(tmp_path / "model.gguf")))
    of_folder = Tokenizer.load(str(tiny_demo().model))
    for text in (*TEXTS, "  two\n\nlines <|endoftext|> of blå"):
        assert of_file.encode(text) == of_folder.encode(text)
        assert of_file.decode(of_file.encode(text)) == text


def test_a_gguf_file_without_its_readers_is_told(monkeypatch, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("propme.model_tokenizer.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'propme\[gguf\]'"):
        TransformersGenerator(str(tmp_path / "model.gguf"))
