"""Generation by any server that speaks OpenAI's protocol: vLLM, llama.cpp, TGI, transformers serve.

What a server can do is found out by trying it; `propme.generation.server` does the requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from typing import Any

from propme.errors import InputError, ParameterError, ServerError
from propme.generation.protocol import Made, Task, readable
from propme.generation.scoring import Pair, Score
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
from propme.records import Decoding, Generation, Prompt

#: Ways in which servers are told not to add settings of their own; the first one accepted is used.
STYLES = ("plain fields", "generation_config", "none")


@dataclass(frozen=True)
class _Form:
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


class OpenAIGenerator:
    """A model behind a server.

    Parameters
    ----------
    model : str
        Name by which the server knows the model; empty: the only one that it serves.
    tokenizer : str
        The same model's folder or name on the hub, for its tokenizer; empty, or none to be had
        there: prompts go as text, and it cannot be checked how many start tokens they get.
    concurrency : int
        Requests that are under way at a time.
    patience : float
        Seconds for which a request is repeated while the server is lost, busy or failing.
    trust_remote_code : bool
        Whether code that comes with the tokenizer may run.

    Raises
    ------
    ServerError
        The server cannot be reached, does not accept the key, or does not serve the model.

    Notes
    -----
    Prompts go as token ids where the server takes them, else as text; ``chat`` prompts go as a
    user's message to ``/v1/chat/completions``. The server is asked to add no settings of its own.
    What is not in a server's power to promise: the same text for the same seed when it batches
    requests with others, and which revision and number type of the weights it holds.
    """

    def __init__(
        self,
        model: str = "",
        tokenizer: str = "",
        concurrency: int = 8,
        patience: float = 120.0,
        trust_remote_code: bool = False,
    ) -> None:
        if concurrency < 1:
            raise ParameterError(f"concurrency must be at least 1, not {concurrency}")
        self._concurrency = concurrency
        self._server = Server(patience)
        self.tokenizer = _tokenizer(tokenizer, trust_remote_code)
        self._model = self._served(model)
        self._form = self._probe_completions()
        self._chat_style: str | None = None
        self._scoring: str | None = None

    @property
    def identity(self) -> str:
        """What decides a completion beside the task, as far as a server tells."""
        return f"openai {self._model} {self._form}"

    def describe(self) -> dict[str, Any]:
        """What makes the generations."""
        form = self._form
        return {
            "backend": "openai",
            "model": self._model,
            "server": self._server.address,
            "concurrency": self._concurrency,
            "prompts as": "chat messages only"
            if form is None
            else ("token ids" if form.as_tokens else "text"),
            "start token": self._start_told(),
            "settings of the server's own switched off by": form.style if form else "none",
            "versions": {"openai": version("openai")},
        }

    def noticed(self) -> dict[str, Any]:
        """What was noticed while generating: requests that were repeated."""
        return {"requests that had to be repeated": self._server.n_repeated}

    def given(self, prompt: Prompt, max_new_tokens: int) -> tuple[int, ...] | str:
        """Token ids of a prompt, or its text where the server takes no ids or makes the chat.

        Raises
        ------
        TooLongError
            With the completion it does not fit into the model's context, where that is known.
        InputError
            The server completes no text, and this is no chat prompt.
        """
        if prompt.chat:
            if self._chat_style is None:
                self._chat_style = self._probe_chat()
            return prompt.text
        if self._form is None:
            raise InputError(
                "the server has no /v1/completions, which any prompt but chat needs",
                prompt.prompt_id,
            )
        ids = self.tokenizer.require_room(prompt, max_new_tokens) if self.tokenizer else []
        return tuple(ids) if self._form.as_tokens else self._form.start + prompt.text

    def batches(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Each task alone: the server puts requests together as it likes."""
        return [[task] for task in tasks]

    def generate(self, batches: Sequence[Sequence[Task]]) -> Iterator[list[Made]]:
        """Complete each task, so many at a time.

        Raises
        ------
        ServerError
            The server is lost for longer than `patience`, or nothing but failures come. What was
            finished has been yielded before.
        """
        tasks = iter([task for batch in batches for task in batch])
        self._server.stopped.clear()
        n_failed = 0
        pool = ThreadPoolExecutor(self._concurrency)
        try:
            running = {pool.submit(self._made, t) for t in islice(tasks, self._concurrency)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                made, lost = _results(done)
                for one in made:
                    n_failed = n_failed + 1 if one.passing else 0
                    yield [one]
                if n_failed >= 2 * self._concurrency:
                    lost = lost or self._hopeless(made[-1].generation.error)
                if lost:
                    self._server.stopped.set()
                    yield from ([one] for one in _results(wait(running).done)[0])
                    raise lost
                running |= {pool.submit(self._made, t) for t in islice(tasks, len(done))}
        finally:
            self._server.stopped.set()  # whoever waits to ask again need not
            pool.shutdown(wait=False, cancel_futures=True)

    def can_score(self, decoding: Decoding) -> bool:
        """Whether the server tells log-probabilities of a prompt, and the decoding leaves them."""
        as_is = decoding.temperature == 1 and decoding.top_p == 1 and decoding.top_k == 0
        if not as_is or self._form is None or not self._form.as_tokens or self.tokenizer is None:
            return False
        if self._scoring is None:
            self._scoring = self._probe_scoring(self.tokenizer)
        return bool(self._scoring)

    def score(self, pairs: Sequence[Pair], decodings: Sequence[Decoding]) -> Iterator[list[Score]]:
        """Scores from the log-probabilities that the server tells of a prompt's own tokens."""
        with ThreadPoolExecutor(self._concurrency) as pool:
            for score in pool.map(self._score, pairs):
                yield [score] * len(decodings)

    # --- what is asked ----------------------------------------------------------------------------

    def _made(self, task: Task) -> Made:
        columns = {
            "backend": "openai",
            "model": self._model,
            "versions": f"openai {version('openai')}",
        }
        try:
            return Made(task, self._generation(task, columns))
        except RefusedError as error:
            if error.status == 404:  # it was there before
                raise ServerError(f"{error}; what is finished is kept, so start again") from None
            return Made(task, task.failed(str(error), **columns))
        except PassingError as error:
            if error.lost:
                raise ServerError(f"{error}; what is finished is kept, so start again") from None
            return Made(task, task.failed(str(error), **columns), passing=True)

    def _generation(self, task: Task, columns: dict[str, Any]) -> Generation:
        style = self._chat_style if task.prompt.chat else self._form and self._form.style
        body = self._body(task.decoding, task.seed, style or "none")
        path = COMPLETIONS
        if task.prompt.chat:
            path = CHAT
            body["messages"] = [{"role": "user", "content": task.given}]
        else:
            body["prompt"] = list(task.given) if isinstance(task.given, tuple) else task.given
        answer = self._server.answer(path, body)
        choice = choice_of(answer)
        text, note = readable(text_of(choice))
        reason = choice.get("finish_reason")
        notes = [note, self._count_told(task, answer)]
        if reason not in ("stop", "length"):
            notes.append(f"the server ended it by {reason!r}")
        return task.generation(
            text=text,
            token_ids=self._token_ids(choice),
            finish_reason="length" if reason == "length" else "stop",
            note="; ".join(filter(None, notes)),
            **columns,
        )

    def _token_ids(self, choice: dict[str, Any]) -> tuple[int, ...]:
        ids = choice.get("token_ids") or []
        ends = self.tokenizer.ends if self.tokenizer else frozenset()
        end = next((n for n, token in enumerate(ids) if token in ends), len(ids))
        return tuple(map(int, ids[:end]))

    def _count_told(self, task: Task, answer: dict[str, Any]) -> str:
        """What is wrong with the server's number of prompt tokens; empty: nothing that is known."""
        counted = n_prompt_tokens(answer)
        if counted is None or self.tokenizer is None or task.prompt.chat:
            return ""
        expected = len(self.tokenizer.prompt_ids(task.prompt))
        if counted == expected:
            return ""
        return f"the server read the prompt as {counted} tokens, not as {expected}"

    def _body(self, decoding: Decoding, seed: int, style: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
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
            ends = sorted(self.tokenizer.ends) if self.tokenizer else []
            settings = {
                "do_sample": decoding.temperature > 0,
                "top_k": decoding.top_k,
                "eos_token_id": ends or None,
                "pad_token_id": min(ends, default=0),
            }
            body["generation_config"] = json.dumps(settings)
        return body

    # --- what the server can do -------------------------------------------------------------------

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

    def _probe_completions(self) -> _Form | None:
        """The first form that ``/completions`` accepts; ``None`` where there is no such path."""
        refusal = None
        for as_tokens in (True, False) if self.tokenizer else (False,):
            for style in STYLES:
                if style == "generation_config" and not self.tokenizer:
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
                return _Form(as_tokens, style, "" if as_tokens else self._start(n, style))
        raise ServerError(f"the server takes no request for a completion: {refusal}")

    def _probe_chat(self) -> str:
        refusal = None
        for style in STYLES:
            if style == "generation_config" and not self.tokenizer:
                continue
            try:
                self._probe(CHAT, style, messages=[{"role": "user", "content": "a"}])
            except RefusedError as error:
                refusal = error
                continue
            return style
        raise ServerError(f"the server takes no chat message: {refusal}")

    def _sample(self, as_tokens: bool) -> Any:
        """A prompt to try a server with."""
        return self.tokenizer.encode("a") if as_tokens and self.tokenizer else "a"

    def _start(self, n_counted: int | None, style: str) -> str:
        """What a text must begin with to have one start token: nothing if the server adds it."""
        if self.tokenizer is None or not self.tokenizer.start_text:
            return ""
        own = len(self.tokenizer.encode("a"))
        if n_counted != own:
            return ""
        start = self.tokenizer.start_text
        with_start = self._probe(COMPLETIONS, style, prompt=start + "a")
        return start if with_start == own + 1 else ""

    def _start_told(self) -> str:
        if self._form is None:
            return "in the server's chat template"
        if self._form.as_tokens:
            return "given as a token"
        if self._form.start:
            return f"given as {self._form.start!r}, for the server adds none"
        return "left to the server" + ("" if self.tokenizer else ", and not checked")

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

    def _probe_scoring(self, tokenizer: ModelTokenizer) -> str:
        """By which field the server tells log-probabilities of a prompt; empty: by none."""
        ids = tokenizer.encode("a a a")
        for way in ("prompt_logprobs", "echo"):
            try:
                log_probabilities(self._scored(ids, way), way, ids)
            except (RefusedError, PassingError):
                continue
            return way
        return ""

    def _scored(self, ids: Sequence[int], way: str) -> dict[str, Any]:
        body = self._body(Decoding("score", 0.0, 1.0, 1, 1), 0, "none") | {"prompt": list(ids)}
        body |= (
            {"prompt_logprobs": 1} if way == "prompt_logprobs" else {"echo": True, "logprobs": 1}
        )
        return choice_of(self._server.answer(COMPLETIONS, body))

    def _score(self, pair: Pair) -> Score:
        ids = [*pair.prefix, *pair.suffix]
        way = self._scoring or ""
        try:
            found = log_probabilities(self._scored(ids, way), way, ids)
        except (RefusedError, PassingError) as error:
            raise ServerError(f"a continuation could not be scored: {error}") from None
        own = found[len(pair.prefix) :]
        return Score(min(0.0, sum(p for p, _ in own)), sum(first for _, first in own))

    def _hopeless(self, last: str) -> ServerError:
        n = 2 * self._concurrency
        return ServerError(
            f"the last {n} requests all failed, the last one so: {last}; what is finished is kept,"
            " so start again"
        )


def _tokenizer(name: str, trust_remote_code: bool) -> ModelTokenizer | None:
    if not name:
        return None
    try:
        return ModelTokenizer.load(name, trust_remote_code)
    except (InputError, ImportError):
        return None


def _results(done: set[Future[Made]]) -> tuple[list[Made], ServerError | None]:
    """What came of requests, and why no more will."""
    made, lost = [], None
    for future in done:
        error = future.exception()
        if error is None:
            made.append(future.result())
        elif isinstance(error, ServerError):
            lost = error
        else:
            raise error
    return made, lost
