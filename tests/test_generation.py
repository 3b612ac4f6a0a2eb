"""Generation with a real model of transformers."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from tiny import tiny_demo

from propme.errors import InputError, ParameterError
from propme.generation import TransformersGenerator
from propme.generation.protocol import sample_seed
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
    made = {g.prompt_id: g for g in generator.generate(prompts(*TEXTS), GREEDY, 0)}
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
    first, second = (by_id(generator.generate(asked, SAMPLED, 7)) for _ in range(2))
    assert len(first) == len(asked) * SAMPLED.samples
    assert first == second
    other = by_id(generator.generate(asked, SAMPLED, 8))
    assert sum(first[i].text != other[i].text for i in first) > len(first) // 2


def test_other_prompts_and_another_batch_size_leave_a_sample_as_it_was(generator):
    few = by_id(generator.generate(prompts(*TEXTS[:2]), SAMPLED, 0))
    many = by_id(generator.generate(prompts(*TEXTS), SAMPLED, 0))
    assert {i: few[i].text for i in few} == {i: many[i].text for i in few}
    alone = TransformersGenerator(str(tiny_demo().model), device="cpu", batch_size=1)
    assert by_id(alone.generate(prompts(*TEXTS), SAMPLED, 0)) == many


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
        for g in big.generate(
            prompts("And God said"), Decoding("s", temperature, top_p, n, 1), seed=0
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
    made = list(generator.generate(prompts(*TEXTS), long, 0))
    assert {g.finish_reason for g in made} == {"stop", "length"}
    for g in made:
        assert 0 not in g.token_ids
        assert (len(g.token_ids) == 100) == (g.finish_reason == "length")


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
    assert by_id(other.generate(asked, GREEDY, 0)) == by_id(generator.generate(asked, GREEDY, 0))


def test_a_prompt_that_does_not_fit_is_named(generator):
    long = Decoding("greedy", 0.0, 1.0, 1, 255)
    with pytest.raises(InputError, match=r"generic/0: .*context of 256"):
        list(generator.generate(prompts("And God said"), long, 0))


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
