"""Generation by any server that speaks OpenAI's protocol: vLLM, llama.cpp, TGI, transformers serve.

The key is read from OPENAI_API_KEY and the address from OPENAI_BASE_URL, and from nowhere else.
Neither the key nor credentials in the address are in anything that is told or kept; errors of the
client, which could quote both, are not passed on.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from typing import Any
from urllib.parse import quote, urlsplit

from propme.errors import InputError, ParameterError, PropMeError, ServerError
from propme.generation.protocol import Made, Task, readable
from propme.generation.scoring import Pair, Score
from propme.model_tokenizer import ModelTokenizer
from propme.records import Decoding, Generation, Prompt

#: Ways in which servers are told not to add settings of their own; the first one accepted is used.
STYLES = ("plain fields", "generation_config", "none")

#: Seconds before the first repetition of a request, doubled each time up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0

#: Longest time in which one completion must have come, and a connection be made, in seconds.
_TIMEOUT, _CONNECT_TIMEOUT = 900.0, 10.0

_COMPLETIONS, _CHAT = "/completions", "/chat/completions"
_MOST_TOLD = 300


class _RefusedError(PropMeError):
    """The server will not answer this request, however often it is asked."""

    def __init__(self, status: int, told: str) -> None:
        self.status = status
        super().__init__(f"the server refused it ({status}): {told}")


class _PassingError(PropMeError):
    """The server did not answer this request now; ``lost``: it could not be reached."""

    def __init__(self, told: str, lost: bool = False, after: float = 0.0) -> None:
        self.lost, self.after = lost, after
        super().__init__(told)


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
        self._concurrency, self._patience = concurrency, patience
        self._key = os.environ.get("OPENAI_API_KEY", "")
        self._url = os.environ.get("OPENAI_BASE_URL", "")
        if not self._url:
            raise ParameterError(
                "the environment variable OPENAI_BASE_URL is not set; it is the server's address,"
                " such as http://localhost:8000/v1"
            )
        self._client = _client(self._url, self._key)
        self._stopped = threading.Event()
        self._n_repeated = 0
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
            "server": _without_credentials(self._url),
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
        return {"requests that had to be repeated": self._n_repeated}

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
        self._stopped.clear()
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
                    self._stopped.set()
                    yield from ([one] for one in _results(wait(running).done)[0])
                    raise lost
                running |= {pool.submit(self._made, t) for t in islice(tasks, len(done))}
        finally:
            self._stopped.set()  # whoever waits to ask again need not
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
        except _RefusedError as error:
            if error.status == 404:  # it was there before
                raise ServerError(f"{error}; what is finished is kept, so start again") from None
            return Made(task, task.failed(str(error), **columns))
        except _PassingError as error:
            if error.lost:
                raise ServerError(f"{error}; what is finished is kept, so start again") from None
            return Made(task, task.failed(str(error), **columns), passing=True)

    def _generation(self, task: Task, columns: dict[str, Any]) -> Generation:
        style = self._chat_style if task.prompt.chat else self._form and self._form.style
        body = self._body(task.decoding, task.seed, style or "none")
        path = _COMPLETIONS
        if task.prompt.chat:
            path = _CHAT
            body["messages"] = [{"role": "user", "content": task.given}]
        else:
            body["prompt"] = list(task.given) if isinstance(task.given, tuple) else task.given
        answer = self._answer(path, body)
        choice = _choice(answer)
        text, note = readable(_text(choice))
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
        counted = _n_prompt_tokens(answer)
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
            answer = self._answer("/models", None)
        except _RefusedError as error:
            if model:
                return model
            raise ServerError(f"{error}; name the model with served_model") from None
        except _PassingError as error:
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
                    n = self._probe(_COMPLETIONS, style, prompt=self._sample(as_tokens))
                except _RefusedError as error:
                    if error.status == 404:
                        return None
                    refusal = error
                    continue
                if as_tokens and n not in (None, len(self._sample(True))):
                    refusal = _RefusedError(200, f"it read token ids as {n} tokens")
                    break
                return _Form(as_tokens, style, "" if as_tokens else self._start(n, style))
        raise ServerError(f"the server takes no request for a completion: {refusal}")

    def _probe_chat(self) -> str:
        refusal = None
        for style in STYLES:
            if style == "generation_config" and not self.tokenizer:
                continue
            try:
                self._probe(_CHAT, style, messages=[{"role": "user", "content": "a"}])
            except _RefusedError as error:
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
        with_start = self._probe(_COMPLETIONS, style, prompt=start + "a")
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
            answer = self._answer(path, body)
        except _PassingError as error:
            raise ServerError(str(error)) from None
        try:
            _text(_choice(answer))
        except _PassingError as error:  # as where a list of tokens is taken for several prompts
            raise _RefusedError(200, str(error)) from None
        return _n_prompt_tokens(answer)

    def _probe_scoring(self, tokenizer: ModelTokenizer) -> str:
        """By which field the server tells log-probabilities of a prompt; empty: by none."""
        ids = tokenizer.encode("a a a")
        for way in ("prompt_logprobs", "echo"):
            try:
                _log_probabilities(self._scored(ids, way), way, ids)
            except (_RefusedError, _PassingError):
                continue
            return way
        return ""

    def _scored(self, ids: Sequence[int], way: str) -> dict[str, Any]:
        body = self._body(Decoding("score", 0.0, 1.0, 1, 1), 0, "none") | {"prompt": list(ids)}
        body |= (
            {"prompt_logprobs": 1} if way == "prompt_logprobs" else {"echo": True, "logprobs": 1}
        )
        return _choice(self._answer(_COMPLETIONS, body))

    def _score(self, pair: Pair) -> Score:
        ids = [*pair.prefix, *pair.suffix]
        way = self._scoring or ""
        try:
            found = _log_probabilities(self._scored(ids, way), way, ids)
        except (_RefusedError, _PassingError) as error:
            raise ServerError(f"a continuation could not be scored: {error}") from None
        own = found[len(pair.prefix) :]
        return Score(min(0.0, sum(p for p, _ in own)), sum(first for _, first in own))

    # --- requests ---------------------------------------------------------------------------------

    def _answer(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """What the server answers; asked again, ever more slowly, while it may yet do so."""
        deadline = time.monotonic() + self._patience
        pause = _FIRST_WAIT
        while True:
            try:
                return self._ask(path, body)
            except _PassingError as error:
                pause = max(min(pause, _LONGEST_WAIT), error.after)
                over = time.monotonic() + pause > deadline
                if over or self._stopped.wait(pause):
                    raise
                self._n_repeated += 1
                pause *= 2

    def _ask(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """One request.

        Raises
        ------
        ServerError
            The key is not accepted.
        """
        import openai

        try:
            content = self._request(path, body).http_response.content
        except openai.APITimeoutError:
            raise _PassingError("the server did not answer in time") from None
        except openai.APIConnectionError:
            where = _without_credentials(self._url)
            raise _PassingError(
                f"the server at {where} cannot be reached (OPENAI_BASE_URL)", lost=True
            ) from None
        except openai.APIStatusError as error:
            raise self._of_status(error.status_code, error.response) from None
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _PassingError("the server's answer is no JSON object")
        return answer

    def _request(self, path: str, body: dict[str, Any] | None) -> Any:
        """What the client has of an answer before it takes it apart."""
        if body is None:
            return self._client.models.with_raw_response.list()
        fields = dict(body)
        wanted = ("model", "messages" if path == _CHAT else "prompt")
        named = {name: fields.pop(name) for name in wanted}
        client = self._client.chat if path == _CHAT else self._client
        return client.completions.with_raw_response.create(**named, extra_body=fields)

    def _of_status(self, status: int, response: Any) -> PropMeError:
        told = self._scrubbed(_message(response))
        where = _without_credentials(self._url)
        if status in (401, 403):  # such an answer likes to quote the key, so it is not told
            return ServerError(
                f"the server at {where} does not accept the key ({status}); see the environment"
                " variable OPENAI_API_KEY"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            after = _seconds(response.headers.get("retry-after"))
            return _PassingError(f"the server failed ({status}): {told}", after=after)
        return _RefusedError(status, told)

    def _scrubbed(self, text: str) -> str:
        """Text of a server without the key and the credentials of the address."""
        parts = urlsplit(self._url)
        for secret in (self._key, parts.password, parts.username, parts.query):
            for spelled in {secret or "", quote(secret or "", safe="")} - {""}:
                text = text.replace(spelled, "...")
        return text[:_MOST_TOLD]

    def _hopeless(self, last: str) -> ServerError:
        n = 2 * self._concurrency
        return ServerError(
            f"the last {n} requests all failed, the last one so: {last}; what is finished is kept,"
            " so start again"
        )


def _client(url: str, key: str) -> Any:
    try:
        import openai
    except ImportError:
        raise ParameterError(
            "backend 'openai' is not installed: pip install 'propme[openai]'"
        ) from None
    try:
        return openai.OpenAI(
            base_url=url,
            api_key=key or "none",  # servers of one's own want none
            max_retries=0,
            timeout=openai.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT),
        )
    except Exception as error:  # it may quote the address
        raise ParameterError(
            f"the address in OPENAI_BASE_URL cannot be used ({type(error).__name__})"
        ) from None


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


def _without_credentials(url: str) -> str:
    """An address without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _message(response: Any) -> str:
    """What a server says of an error, in one line."""
    try:
        answer = json.loads(response.content)
    except (ValueError, AttributeError, RuntimeError):
        return " ".join(str(getattr(response, "text", "")).split())
    inner = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("detail") or inner
    return " ".join(str(inner).split())


def _seconds(header: str | None) -> float:
    """Seconds of a Retry-After header; 0 where there is none, or a date."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0


def _choice(answer: dict[str, Any]) -> dict[str, Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise _PassingError("the server's answer holds not one completion")
    choice: dict[str, Any] = choices[0]
    return choice


def _text(choice: dict[str, Any]) -> str:
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if text is None and isinstance(message, dict):
        return ""  # a chat answer without content
    if not isinstance(text, str):
        raise _PassingError("the server's answer holds no text")
    return text


def _n_prompt_tokens(answer: dict[str, Any]) -> int | None:
    usage = answer.get("usage")
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return counted if isinstance(counted, int) else None


def _log_probabilities(
    choice: dict[str, Any], way: str, ids: Sequence[int]
) -> list[tuple[float, bool]]:
    """Of each of a prompt's tokens: its log-probability, and whether it is the likeliest.

    The first token has none: nothing comes before it.
    """
    try:
        if way == "prompt_logprobs":
            told = choice["prompt_logprobs"][1 : len(ids)]
            chosen = [each[str(ids[k])] for k, each in enumerate(told, 1)]
            found = [(float(each["logprob"]), each["rank"] == 1) for each in chosen]
        else:
            logprobs = choice["logprobs"]
            own, top = (
                logprobs["token_logprobs"][1 : len(ids)],
                logprobs["top_logprobs"][1 : len(ids)],
            )
            found = [
                (float(p), float(p) >= max(map(float, best.values())))
                for p, best in zip(own, top, strict=True)
            ]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise _PassingError("the server tells no log-probabilities of the prompt") from None
    if len(found) != len(ids) - 1:
        raise _PassingError("the server tells log-probabilities of a part of the prompt only")
    return [(0.0, True), *found]
