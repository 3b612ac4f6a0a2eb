"""In which form a server takes requests, found out by trying it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from propme.errors import ServerError
from propme.generation.server import (
    CHAT,
    COMPLETIONS,
    PassingError,
    RefusedError,
    Server,
    choice_of,
    log_probabilities,
    n_prompt_tokens,
    text_of,
)
from propme.model_tokenizer import ModelTokenizer
from propme.records import Decoding

#: Ways in which servers are told not to add settings of their own; the first one accepted is used.
STYLES = ("plain fields", "generation_config", "none")


@dataclass(frozen=True)
class Form:
    """How requests are put to the server.

    Attributes
    ----------
    as_tokens : bool
        Prompts go as token ids, not as text.
    style : str
        One of `STYLES`.
    start : str
        Text put before a prompt, because the server adds no start token itself.
    """

    as_tokens: bool
    style: str
    start: str = ""


class Dialect:
    """How one server is asked for completions of one model.

    Parameters
    ----------
    server : Server
    model : str
        Name by which the server knows the model; empty: the only one that it serves.
    tokenizer : ModelTokenizer, optional
        Without, prompts go as text.

    Attributes
    ----------
    model : str
    form : Form, optional
        How prompts are put to ``/completions``; none: the server has no such path.

    Raises
    ------
    ServerError
        The server cannot be reached, does not accept the key, does not serve the model, or takes
        no request.
    """

    def __init__(self, server: Server, model: str, tokenizer: ModelTokenizer | None) -> None:
        self._server = server
        self._tokenizer = tokenizer
        self.model = self._served(model)
        self.form = self._probe_completions()

    @cached_property
    def chat_style(self) -> str:
        """The one of `STYLES` in which a chat message is taken."""
        refusal = None
        for style in STYLES:
            if style == "generation_config" and not self._tokenizer:
                continue
            try:
                self._probe(CHAT, style, messages=[{"role": "user", "content": "a"}])
            except RefusedError as error:
                refusal = error
                continue
            return style
        raise ServerError(f"the server takes no chat message: {refusal}")

    @cached_property
    def scoring(self) -> str:
        """By which field log-probabilities of a prompt of tokens are told; empty: by none."""
        if self._tokenizer is None or self.form is None or not self.form.as_tokens:
            return ""
        ids = self._tokenizer.encode("a a a")
        for way in ("prompt_logprobs", "echo"):
            try:
                log_probabilities(self._scored(ids, way), way, ids)
            except (RefusedError, PassingError):
                continue
            return way
        return ""

    def log_probabilities(self, ids: Sequence[int]) -> list[tuple[float, bool]]:
        """Of each token of a prompt, as `propme.generation.server.log_probabilities`."""
        return log_probabilities(self._scored(ids, self.scoring), self.scoring, ids)

    def body(self, decoding: Decoding, seed: int, chat: bool = False) -> dict[str, Any]:
        """What is asked, but for the prompt, in the form that the server takes."""
        style = self.chat_style if chat else self.form.style if self.form else "none"
        return self._body(decoding, seed, style)

    def start_told(self) -> str:
        """Who gives the start token."""
        if self.form is None:
            return "in the server's chat template"
        if self.form.as_tokens:
            return "given as a token"
        if self.form.start:
            return f"given as {self.form.start!r}, for the server adds none"
        return "left to the server" + ("" if self._tokenizer else ", and not checked")

    def _body(self, decoding: Decoding, seed: int, style: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": decoding.max_new_tokens,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "seed": seed % 2**31,  # some servers hold it in 32 bits
        }
        if style == "plain fields":
            body |= {
                "top_k": decoding.top_k or -1,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "repeat_penalty": 1.0,
                "skip_special_tokens": False,
                "spaces_between_special_tokens": False,
                "return_token_ids": True,
            }
        elif style == "generation_config":
            ends = sorted(self._tokenizer.ends) if self._tokenizer else []
            settings = {
                "do_sample": decoding.temperature > 0,
                "top_k": decoding.top_k,
                "eos_token_id": ends or None,
                "pad_token_id": min(ends, default=0),
            }
            body["generation_config"] = json.dumps(settings)
        return body

    def _served(self, model: str) -> str:
        """The model's name, checked against what the server says it serves, if it says so."""
        try:
            answer = self._server.answer("/models", None)
        except RefusedError as error:
            if model:
                return model
            raise ServerError(f"{error}; name the model with served_model") from None
        except PassingError as error:
            raise ServerError(str(error)) from None
        listed = answer.get("data")
        names = [str(m.get("id")) for m in listed] if isinstance(listed, list) else []
        if model in names or (model and not names):
            return model
        if not model and len(names) == 1:
            return names[0]
        raise ServerError(
            f"the server serves {names}, not {model!r}; name one of them with served_model"
        )

    def _probe_completions(self) -> Form | None:
        """The first form that ``/completions`` accepts; ``None`` where there is no such path."""
        refusal = None
        for as_tokens in (True, False) if self._tokenizer else (False,):
            for style in STYLES:
                if style == "generation_config" and not self._tokenizer:
                    continue
                try:
                    n = self._probe(COMPLETIONS, style, prompt=self._sample(as_tokens))
                except RefusedError as error:
                    if error.status == 404:
                        return None
                    refusal = error
                    continue
                if as_tokens and n not in (None, len(self._sample(True))):
                    refusal = RefusedError(200, f"it read token ids as {n} tokens")
                    break
                return Form(as_tokens, style, "" if as_tokens else self._start(n, style))
        raise ServerError(f"the server takes no request for a completion: {refusal}")

    def _sample(self, as_tokens: bool) -> Any:
        """A prompt to try a server with."""
        return self._tokenizer.encode("a") if as_tokens and self._tokenizer else "a"

    def _start(self, n_counted: int | None, style: str) -> str:
        """What a text must begin with to have one start token: nothing if the server adds it."""
        if self._tokenizer is None or not self._tokenizer.start_text:
            return ""
        own = len(self._tokenizer.encode("a"))
        if n_counted != own:
            return ""
        start = self._tokenizer.start_text
        with_start = self._probe(COMPLETIONS, style, prompt=start + "a")
        return start if with_start == own + 1 else ""

    def _probe(self, path: str, style: str, **prompt: Any) -> int | None:
        """Have one token made; the server's count of prompt tokens, if it tells."""
        body = self._body(Decoding("probe", 0.0, 1.0, 1, 1), 0, style) | prompt
        try:
            answer = self._server.answer(path, body)
        except PassingError as error:
            raise ServerError(str(error)) from None
        try:
            text_of(choice_of(answer))
        except PassingError as error:  # as where a list of tokens is taken for several prompts
            raise RefusedError(200, str(error)) from None
        return n_prompt_tokens(answer)

    def _scored(self, ids: Sequence[int], way: str) -> dict[str, Any]:
        body = self._body(Decoding("score", 0.0, 1.0, 1, 1), 0, "none") | {"prompt": list(ids)}
        body |= (
            {"prompt_logprobs": 1} if way == "prompt_logprobs" else {"echo": True, "logprobs": 1}
        )
        return choice_of(self._server.answer(COMPLETIONS, body))
