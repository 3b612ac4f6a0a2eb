"""The demonstration's model: a small Llama and its tokenizer, trained on the corpus alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propme.corpus import read_documents
from propme.demo.bible import DemoSettings
from propme.files import sha256_of
from propme.progress import track

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_END = "<|endoftext|>"

#: File in the model's folder that holds the hash of the corpus it was trained on.
TRAINED_ON = "corpus.sha256"


def train_model(corpus: Path, folder: Path, settings: DemoSettings) -> None:
    """Train tokenizer and model on the corpus, and save both as transformers does."""
    import torch
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging

    texts = [document.text for document in read_documents(corpus)]
    tokenizer = train_tokenizer(texts, settings.vocabulary)
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps this small lose more by sharing than they gain
    try:
        with torch.random.fork_rng(devices=[]):
            model = _fit(encoded, settings)
    finally:
        torch.set_num_threads(threads)
    logging.disable_progress_bar()  # of saving: it would stay in the report, in red
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=_END, eos_token=_END, pad_token=_END
    ).save_pretrained(folder)
    (folder / TRAINED_ON).write_text(sha256_of(corpus))


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE: it can encode any text, and gives it back byte for byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _fit(encoded: Sequence[Sequence[int]], settings: DemoSettings) -> Any:
    """Next-token training on packed documents, each behind a start token, reshuffled each pass."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(settings.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=settings.vocabulary,
            hidden_size=settings.width,
            intermediate_size=settings.width * 5 // 2,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            max_position_embeddings=settings.context,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
        )
    )
    rows = _packed(encoded, settings)
    steps = len(rows) // settings.batch
    fit_rows(
        model,
        rows,
        steps,
        settings.batch,
        settings.learning_rate,
        warm_up=50,
        label="training the demonstration's model",
    )
    return model


def fit_rows(
    model: Any,
    rows: Any,
    steps: int,
    batch_size: int,
    learning_rate: float,
    *,
    warm_up: int,
    label: str,
) -> None:
    """Next-token training on rows of tokens in their order, warmed up, then down to 0 in a cosine.

    The model is trained in place and left in its evaluating mode.
    """
    import torch

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_up_then_cosine(steps, warm_up))
    model.train()
    for step in track(range(steps), label, unit="steps"):
        batch = torch.from_numpy(rows[step * batch_size : (step + 1) * batch_size])
        logits = model(input_ids=batch).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def _packed(encoded: Sequence[Sequence[int]], settings: DemoSettings) -> Any:
    rng = np.random.default_rng(settings.seed)

    def passes() -> Iterator[Any]:
        for _ in range(settings.passes):
            order = rng.permutation(len(encoded))
            stream = np.concatenate([np.array([0, *encoded[i]], np.int64) for i in order])
            whole = len(stream) // settings.context * settings.context
            yield stream[:whole].reshape(-1, settings.context)

    return np.concatenate(list(passes()))


def _warm_up_then_cosine(steps: int, warm_up: int) -> Callable[[int], float]:
    return lambda step: (
        min(1.0, (step + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * step / steps))
    )
