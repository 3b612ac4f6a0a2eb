"""Texts that are there already: no model is asked."""

from __future__ import annotations

from collections.abc import Sequence

from propme.generation.protocol import generation_id
from propme.records import Decoding, Generation, Prompt


def as_written(prompts: Sequence[Prompt], decodings: Sequence[Decoding]) -> list[Generation]:
    """The control ``human``: what a person wrote stands as the completion of its prompt.

    One row for each decoding, so that each can be compared with its floor. No model is asked.
    """
    return [
        Generation(
            generation_id=generation_id(prompt.prompt_id, decoding.name, 0),
            prompt_id=prompt.prompt_id,
            decoding=decoding.name,
            sample=0,
            seed=0,
            text=prompt.text,
            token_ids=(),
            finish_reason="stop",
            temperature=float(decoding.temperature),
            top_p=float(decoding.top_p),
            max_new_tokens=decoding.max_new_tokens,
        )
        for prompt in prompts
        for decoding in decodings
    ]
