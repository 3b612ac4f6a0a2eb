"""Generation by any server that speaks OpenAI's protocol: vLLM, llama.cpp, TGI, transformers serve.

What a server can do is found out by trying it; `propme.generation.server` does the requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from importlib.metadata import version
from itertools import islice
from typing import Any

from propme.errors import InputError, ParameterError, ServerError
from propme.generation.dialect import Dialect
from propme.generation.protocol import Made, Task, readable
from propme.generation.scoring import Pair, Score
from propme.generation.server import (
    CHAT,
    COMPLETIONS,
    PassingError,
    RefusedError,
    Server,
    choice_of,
    n_prompt_tokens,
    text_of,
)
from propme.model_tokenizer import ModelTokenizer
from propme.records import Decoding, Generation, Prompt


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
        self._dialect = Dialect(self._server, model, self.tokenizer)

    @property
    def identity(self) -> str:
        """What decides a completion beside the task, as far as a server tells."""
        return f"openai {self._dialect.model} {self._dialect.form}"

    def describe(self) -> dict[str, Any]:
        """What makes the generations."""
        form = self._dialect.form
        return {
            "backend": "openai",
            "model": self._dialect.model,
            "server": self._server.address,
            "concurrency": self._concurrency,
            "prompts as": "chat messages only"
            if form is None
            else ("token ids" if form.as_tokens else "text"),
            "start token": self._dialect.start_told(),
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
            _ = self._dialect.chat_style  # or an error, before any is asked
            return prompt.text
        form = self._dialect.form
        if form is None:
            raise InputError(
                "the server has no /v1/completions, which any prompt but chat needs",
                prompt.prompt_id,
            )
        ids = self.tokenizer.require_room(prompt, max_new_tokens) if self.tokenizer else []
        return tuple(ids) if form.as_tokens else form.start + prompt.text

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
        return as_is and bool(self._dialect.scoring)

    def score(self, pairs: Sequence[Pair], decodings: Sequence[Decoding]) -> Iterator[list[Score]]:
        """Scores from the log-probabilities that the server tells of a prompt's own tokens."""
        with ThreadPoolExecutor(self._concurrency) as pool:
            for score in pool.map(self._score, pairs):
                yield [score] * len(decodings)

    # --- what is asked ----------------------------------------------------------------------------

    def _made(self, task: Task) -> Made:
        columns = {
            "backend": "openai",
            "model": self._dialect.model,
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
        body = self._dialect.body(task.decoding, task.seed, task.prompt.chat)
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

    def _score(self, pair: Pair) -> Score:
        ids = [*pair.prefix, *pair.suffix]
        try:
            found = self._dialect.log_probabilities(ids)
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
