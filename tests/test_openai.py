"""Generation by servers: a real one that is killed, and one that misbehaves in every known way."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_server import FakeServer, completion, fake_server
from tiny import propme, tiny_demo, tiny_parameters

from propme import tables
from propme.errors import ParameterError, ServerError
from propme.generation import (
    OpenAIGenerator,
    TransformersGenerator,
    complete,
    extraction_table,
)
from propme.generation import server as module
from propme.records import Decoding, Generation, Prompt

GREEDY = Decoding("greedy", 0.0, 1.0, 1, 24)
SAMPLED = Decoding("sampled", 0.7, 0.9, 2, 24, top_k=5)
KEY = "sk-never-to-be-seen/+"

TEXTS = ("And God said", "Why?", "The children of Israel went up out of the land and", "Blå", "")


def prompts(*texts: str, chat: bool = False) -> list[Prompt]:
    return [
        Prompt(f"generic/{i}", "generic", "propensity", text, chat=chat)
        for i, text in enumerate(texts)
    ]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat requests without long waits, and have a key that must not be seen anywhere."""
    monkeypatch.setattr(module, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(module, "_LONGEST_WAIT", 0.1)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def generator_of(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> OpenAIGenerator:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return OpenAIGenerator(**{"concurrency": 2, "patience": 0.3} | options)


# --- a real server --------------------------------------------------------------------------------


class RealServer:
    """``transformers serve`` with the tiny model, on a port of its own."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.start()

    def start(self) -> None:
        command = Path(sys.executable).parent / "transformers"
        arguments = ["serve", tiny_demo().model, "--port", self.port, "--host", "127.0.0.1"]
        self.process = subprocess.Popen(
            [str(command), *map(str, arguments), "--device", "cpu"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self) -> None:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/models").close()  # noqa: S310
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def real() -> Iterator[RealServer]:
    pytest.importorskip("transformers.cli.serving.completion", exc_type=ImportError)
    server = RealServer()
    try:
        server.wait()
        yield server
    finally:
        server.kill()


def test_greedy_texts_of_a_server_are_those_of_the_same_weights_here(
    real: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", real.url)
    model = str(tiny_demo().model)
    there = complete(OpenAIGenerator("", model, 2), prompts(*TEXTS), [GREEDY], 0)
    here = complete(TransformersGenerator(model, device="cpu"), prompts(*TEXTS), [GREEDY], 0)
    assert [(g.text, g.finish_reason) for g in there] == [(g.text, g.finish_reason) for g in here]
    assert not any(g.note or g.error for g in there)


def test_a_server_that_is_told_to_sample_does(
    real: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", real.url)
    generator = OpenAIGenerator("", str(tiny_demo().model), 2)
    made = complete(generator, prompts("And God said"), [Decoding("s", 1.0, 1.0, 6, 24)], 0)
    assert len({g.text for g in made}) == 6


def test_a_whole_run_shows_neither_the_key_nor_the_address_credentials(
    real: RealServer, tmp_path: Path
) -> None:
    model = str(tiny_demo().model)
    of_server = {"backend": "openai", "served_model": model, "n_prompts": 2, "samples": 1}
    of_server["n_varied"] = 0  # what is traced anew comes after the server is asked
    given = tiny_parameters(tmp_path / "out", tmp_path / "cache") | of_server
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(given))
    url = real.url.replace("://", "://someone:pass-never-seen@")
    done = propme("run", tmp_path / "run.yaml", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=url)
    assert done.returncode == 0, done.stderr
    made = tables.read("generations", tmp_path / "out" / "tables")
    assert set(made["backend"]) == {"openai", "recorded"}  # people wrote the others
    assert set(made["error"]) == {""}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "run.json" for path in files)
    for content in (done.stdout.encode(), done.stderr.encode(), *(p.read_bytes() for p in files)):
        for secret in (KEY, "sk-never", "pass-never-seen"):
            assert secret.encode() not in content


def test_a_server_killed_in_mid_run_and_started_again_loses_nothing(
    real: RealServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", real.url)
    monkeypatch.setattr(module, "_LONGEST_WAIT", 0.5)
    model = str(tiny_demo().model)
    asked = prompts(*(f"{text} {n}" for n in range(8) for text in TEXTS))
    here = complete(TransformersGenerator(model, device="cpu"), asked, [GREEDY], 0)
    journal = tmp_path / "j"

    def lines() -> int:
        return journal.read_bytes().count(b"\n") if journal.exists() else 0

    def kill_at(n: int, start_again: bool) -> threading.Thread:
        def work() -> None:
            while lines() < n:
                time.sleep(0.005)
            real.kill()
            if start_again:
                real.start()

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    # Lost for good: the run ends and says so. What it had is kept.
    impatient = OpenAIGenerator("", model, 2, patience=0.5)
    killer = kill_at(5, start_again=False)
    with pytest.raises(ServerError, match="cannot be reached"):
        complete(impatient, asked, [GREEDY], 0, journal)
    killer.join()
    assert 5 <= lines() < len(asked)
    # Gone on with, and lost for a while: nobody notices but for the time.
    real.start()
    real.wait()
    patient = OpenAIGenerator("", model, 2, patience=60)
    killer = kill_at(lines() + 10, start_again=True)
    there = complete(patient, asked, [GREEDY], 0, journal)
    killer.join()
    assert [(g.generation_id, g.text) for g in there] == [(g.generation_id, g.text) for g in here]
    assert not any(g.error for g in there)
    assert lines() == len(asked)
    assert patient.noticed()["requests that had to be repeated"] > 0


# --- what is asked --------------------------------------------------------------------------------


def test_prompts_go_as_tokens_with_one_start_token_and_no_settings_of_the_servers_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_server(lambda *_: completion(" x", "length", token_ids=[7, 8, 0])) as server:
        generator = generator_of(server, monkeypatch, tokenizer=str(tiny_demo().model))
        made = complete(generator, prompts("And God said"), [SAMPLED], 0)
        ids = generator.tokenizer.prompt_ids(prompts("And God said")[0])
        assert ids.count(0) == 1
        for request, row in zip(
            sorted(server.asked, key=lambda r: r["seed"]),
            sorted(made, key=lambda g: g.seed % 2**31),
            strict=True,
        ):
            assert request["prompt"] == ids
            assert request["path"] == "/v1/completions"
            assert request["seed"] == row.seed % 2**31
            expected = {
                "model": "m", "max_tokens": 24, "temperature": 0.7, "top_p": 0.9, "top_k": 5,
                "min_p": 0.0, "repetition_penalty": 1.0,
            }  # fmt: skip
            assert expected.items() <= request.items()
            assert (row.text, row.token_ids, row.finish_reason) == (" x", (7, 8), "length")
            assert (row.backend, row.model) == ("openai", "m")


def test_a_server_that_takes_neither_tokens_nor_unknown_fields_gets_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def strict(path: str, body: dict[str, Any]) -> Any:
        allowed = {"model", "prompt", "max_tokens", "temperature", "top_p", "seed"}
        if not isinstance(body["prompt"], str) or set(body) - allowed:
            return 422, {"detail": "unexpected"}
        return completion("a")

    with fake_server(lambda *_: completion()) as server:
        server.probe = strict
        generator = generator_of(server, monkeypatch, tokenizer=str(tiny_demo().model))
        complete(generator, prompts("And God said"), [GREEDY], 0)
        assert server.asked[0]["prompt"] == "And God said"
        assert "top_k" not in server.asked[0]
        assert generator.describe()["prompts as"] == "text"


@pytest.mark.parametrize(
    ("adds", "expected"), [(1, "And God said"), (0, "<|endoftext|>And God said")]
)
def test_a_text_gets_the_start_token_that_the_server_does_not_add(
    monkeypatch: pytest.MonkeyPatch, adds: int, expected: str
) -> None:
    def counting(path: str, body: dict[str, Any]) -> Any:
        if not isinstance(body["prompt"], str):
            return 400, {"error": {"message": "a string is wanted"}}
        count = adds + body["prompt"].startswith("<|endoftext|>") + 1
        return 200, completion("a")[1] | {"usage": {"prompt_tokens": count}}

    with fake_server(lambda *_: completion()) as server:
        server.probe = counting
        generator = generator_of(server, monkeypatch, tokenizer=str(tiny_demo().model))
        complete(generator, prompts("And God said"), [GREEDY], 0)
        assert server.asked[0]["prompt"] == expected


def test_a_prompt_that_the_server_reads_otherwise_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = completion()[1] | {"usage": {"prompt_tokens": 77}}
    with fake_server(lambda *_: (200, answer)) as server:
        generator = generator_of(server, monkeypatch, tokenizer=str(tiny_demo().model))
        (row,) = complete(generator, prompts("Why?"), [GREEDY], 0)
        n = len(generator.tokenizer.prompt_ids(prompts("Why?")[0]))
        assert row.note == f"the server read the prompt as 77 tokens, not as {n}"


def test_a_chat_prompt_goes_as_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
    with fake_server(lambda *_: (200, answer)) as server:
        generator = generator_of(server, monkeypatch)
        (row,) = complete(generator, prompts("Why?", chat=True), [GREEDY], 0)
        assert row.text == "Yes."
        assert server.asked[0]["path"] == "/v1/chat/completions"
        assert server.asked[0]["messages"] == [{"role": "user", "content": "Why?"}]


def test_a_server_with_chat_alone_serves_chat_prompts_and_the_others_have_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}
    with fake_server(lambda *_: (200, answer)) as server:
        good = server.probe
        server.probe = lambda path, body: (
            good(path, body) if "chat" in path else (404, {"detail": "Not Found"})
        )
        generator = generator_of(server, monkeypatch)
        plain = Prompt("file/1", "file", "propensity", "Why?")
        chat, other = complete(generator, [*prompts("Why?", chat=True), plain], [GREEDY], 0)[::-1]
        assert (chat.text, chat.error) == ("", "")
        assert "no /v1/completions" in other.error


def test_no_more_requests_are_under_way_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, most, lock = 0, 0, threading.Lock()

    def slow(*_: Any) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.02)
        with lock:
            under_way -= 1
        return completion()

    with fake_server(slow) as server:
        generator = generator_of(server, monkeypatch, concurrency=3)
        complete(generator, prompts(*map(str, range(12))), [GREEDY], 0)
    assert most == 3


# --- what may go wrong ----------------------------------------------------------------------------


def not_seen(*outputs: Any) -> None:
    """The key is in none of these."""
    for output in outputs:
        told = output if isinstance(output, str) else repr(output)
        assert KEY not in told
        assert "sk-never" not in told


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ((429, {"error": {"message": f"slow down, {KEY}"}}), "the server failed (429): slow down"),
        ((500, {"detail": f"oops {KEY}"}), "the server failed (500): oops"),
        ((503, f"<html> {KEY}".encode()), "the server failed (503): <html>"),
        ((200, b'{"choices": [{"text": "a'), "no JSON object"),
        ((200, f'"{KEY}"'.encode()), "no JSON object"),
        ((200, {"choices": []}), "holds not one completion"),
        ((200, {"choices": [{"text": 3}]}), "holds no text"),
    ],
    ids=["429", "500", "503", "torn", "no object", "empty", "no text"],
)
def test_a_passing_failure_is_a_row_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Any, message: str
) -> None:
    broken = True

    def script(path: str, body: dict[str, Any], number: int) -> Any:
        return failure if broken and body["prompt"] == "Why?" else completion()

    with fake_server(script) as server:
        generator = generator_of(server, monkeypatch)
        made = complete(generator, prompts("And", "Why?"), [GREEDY], 0, tmp_path / "j")
        assert [bool(g.error) for g in made] == [False, True]
        assert message in made[1].error
        tables.write("generations", tables.to_frame("generations", made), tmp_path)
        kept = (tmp_path / "j").read_text()
        not_seen(made, generator.describe(), kept, (tmp_path / "generations.parquet").read_bytes())
        broken, n_asked = False, len(server.asked)
        again = complete(generator, prompts("And", "Why?"), [GREEDY], 0, tmp_path / "j")
        assert [g.error for g in again] == ["", ""]
        assert len(server.asked) == n_asked + 1
    assert server.keys == {f"Bearer {KEY}"}


def test_a_failure_that_passes_in_time_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(path: str, body: dict[str, Any], number: int) -> Any:
        if number == 2:
            raise ConnectionError
        return [(429, {}), (500, {})][number] if number < 2 else completion()

    with fake_server(script) as server:
        generator = generator_of(server, monkeypatch, patience=20)
        (row,) = complete(generator, prompts("Why?"), [GREEDY], 0)
    assert (row.text, row.error) == (" amen", "")
    assert generator.noticed() == {"requests that had to be repeated": 3}


def test_a_server_that_says_how_long_to_wait_is_given_that_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LONGEST_WAIT", 30.0)
    with fake_server(lambda p, b, n: (429, {}) if n == 0 else completion()) as server:
        generator = generator_of(server, monkeypatch, patience=20)
        server.headers = {"Retry-After": "0.4"}
        start = time.monotonic()
        complete(generator, prompts("Why?"), [GREEDY], 0)
        assert time.monotonic() - start >= 0.4


def test_a_time_to_wait_may_be_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 55 < module._seconds(soon) <= 60
    assert module._seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0  # has passed
    assert [module._seconds(told) for told in (None, "", "soon", "-3", "1.5")] == [0, 0, 0, 0, 1.5]


def test_what_the_server_refuses_is_a_row_and_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def script(path: str, body: dict[str, Any], number: int) -> Any:
        refused = (400, {"error": {"message": f"too long for {KEY}"}})
        return refused if body["prompt"] == "Why?" else completion()

    with fake_server(script) as server:
        generator = generator_of(server, monkeypatch)
        for _ in range(2):
            made = complete(generator, prompts("And", "Why?"), [GREEDY], 0, tmp_path / "j")
            assert made[1].error == "the server refused it (400): too long for ..."
            assert len(server.asked) == 2
        not_seen(made, (tmp_path / "j").read_text())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, {"error": {"message": f"wrong key {KEY}"}}), r"\(401\); see .*OPENAI_API_KEY"),
        ((404, {"error": {"message": f"no model, {KEY}"}}), r"\(404\): no model, \.\.\."),
    ],
)
def test_a_wrong_key_or_model_ends_the_run_at_once(
    monkeypatch: pytest.MonkeyPatch, answer: Any, message: str
) -> None:
    with fake_server(lambda *_: answer) as server:
        generator = generator_of(server, monkeypatch, patience=60)
        start = time.monotonic()
        with pytest.raises(ServerError, match=message) as caught:
            complete(generator, prompts(*map(str, range(50))), [GREEDY], 0)
        assert time.monotonic() - start < 10
        assert len(server.asked) <= 4
    not_seen(str(caught.value), whole_traceback(caught))


def whole_traceback(caught: Any) -> str:
    """As a notebook would show it."""
    import traceback

    return "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("status", [401, 403, 429, 500, 200])
def test_a_server_that_does_not_let_one_in_is_told_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    with fake_server(lambda *_: completion()) as server:
        server.models = (status, f"no entry for {KEY}".encode())
        with pytest.raises(ServerError) as caught:
            generator_of(server, monkeypatch, model="m")
    not_seen(str(caught.value), whole_traceback(caught))


def test_failures_without_end_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server(lambda *_: (500, {"error": "full"})) as server:
        generator = generator_of(server, monkeypatch, patience=0.05)
        with pytest.raises(ServerError, match=r"last 4 requests all failed.*\(500\): full"):
            complete(generator, prompts(*map(str, range(500))), [GREEDY], 0)
        assert len({body["prompt"] for body in server.asked}) < 20


def test_an_unreachable_server_is_named_without_its_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://me:hidden@127.0.0.1:{port}/v1?token=hidden")
    with pytest.raises(ServerError, match=f"http://127.0.0.1:{port}/v1 cannot") as caught:
        OpenAIGenerator(patience=0.2)
    assert "hidden" not in whole_traceback(caught)


def test_the_address_is_kept_without_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_server(lambda *_: (400, {"error": "hidden"})) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("//", "//me:hidden@"))
        generator = OpenAIGenerator(patience=0.2)
        assert generator.describe()["server"] == server.url
        (row,) = complete(generator, prompts("Why?"), [GREEDY], 0)
        assert "hidden" not in row.error


def test_without_an_address_nothing_is_sent_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ParameterError, match="OPENAI_BASE_URL is not set"):
        OpenAIGenerator()


def test_without_the_client_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ParameterError, match=r"pip install 'propme\[openai\]'"):
        OpenAIGenerator()


@pytest.mark.parametrize(
    ("models", "model", "message"),
    [
        (["a", "b"], "", r"serves \['a', 'b'\]"),
        (["a"], "b", "not 'b'; name one of them"),
    ],
)
def test_a_model_that_is_not_served_is_told(
    monkeypatch: pytest.MonkeyPatch, models: list[str], model: str, message: str
) -> None:
    with fake_server(lambda *_: completion()) as server:
        server.models = (200, {"data": [{"id": name} for name in models]})
        with pytest.raises(ServerError, match=message):
            generator_of(server, monkeypatch, model=model)


def made_of(monkeypatch: pytest.MonkeyPatch, answer: Any) -> Generation:
    with fake_server(lambda *_: answer) as server:
        (row,) = complete(generator_of(server, monkeypatch), prompts("Why?"), [GREEDY], 0)
        return row


def test_an_empty_completion_is_a_row_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    row = made_of(monkeypatch, completion(""))
    assert (row.text, row.finish_reason, row.error, row.note) == ("", "stop", "", "")


def test_nothing_is_stripped_from_a_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_of(monkeypatch, completion("\n  a \r\n\u00a0")).text == "\n  a \r\n\u00a0"


def test_lone_surrogates_are_replaced_and_that_is_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = made_of(monkeypatch, (200, b'{"choices": [{"text": "a\\ud83d b \\ud83d\\ude00"}]}'))
    assert row.text == "a\ufffd b \U0001f600"
    assert "lone surrogates" in row.note
    tables.write("generations", tables.to_frame("generations", [row]), tmp_path)


def test_another_end_of_a_text_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    row = made_of(monkeypatch, completion("a", "content_filter"))
    assert (row.finish_reason, row.note) == ("stop", "the server ended it by 'content_filter'")


# --- scoring --------------------------------------------------------------------------------------


def told_by(way: str, model: Any) -> Any:
    """What vLLM (``prompt_logprobs``) or a server with ``echo`` tells, by a real model."""
    import torch

    def probe(path: str, body: dict[str, Any]) -> Any:
        ids = body["prompt"]
        if way not in body:
            return completion("a")
        with torch.no_grad():
            logs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        best = logs.max(-1)
        own = [float(logs[n, token]) for n, token in enumerate(ids[1:])]
        tops = [(int(t), float(p)) for t, p in zip(best.indices, best.values, strict=True)]
        if way == "prompt_logprobs":
            rows: list[Any] = [None]
            for n, (token, p) in enumerate(zip(ids[1:], own, strict=True)):
                rank = 1 + int((logs[n] > logs[n, token]).sum())
                rows.append({str(tops[n][0]): {"logprob": tops[n][1], "rank": 1}})
                rows[-1][str(token)] = {"logprob": p, "rank": rank}
            return completion("a", prompt_logprobs=rows)
        top = [None, *({str(t): p} for t, p in tops)]  # with that of the token made beside
        return completion("a", logprobs={"token_logprobs": [None, *own, -1.0], "top_logprobs": top})

    return probe


@pytest.mark.parametrize("way", ["prompt_logprobs", "echo"])
def test_log_probabilities_that_a_server_tells_are_those_of_the_weights_here(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    from transformers import AutoModelForCausalLM

    model = str(tiny_demo().model)
    asked = [
        Prompt("prefix/1", "prefix", "capability", "And God said", target=", Let there be light"),
        Prompt("prefix/2", "prefix", "capability", "And it came to", target=" pass, that at"),
    ]
    decodings = [Decoding("sampled", 1.0, 1.0, 1, 24)]
    here = extraction_table(TransformersGenerator(model, device="cpu"), asked, decodings, [])
    with fake_server(lambda *_: completion()) as server:
        server.probe = told_by(way, AutoModelForCausalLM.from_pretrained(model))
        generator = generator_of(server, monkeypatch, tokenizer=model)
        there = extraction_table(generator, asked, [decodings[0], GREEDY], [])
    scored = there[there["decoding"] == "sampled"].reset_index(drop=True)
    expected = here[here["decoding"] == "sampled"].reset_index(drop=True)
    assert scored["greedy_tokens"].tolist() == expected["greedy_tokens"].tolist()
    assert scored["log_probability"].tolist() == pytest.approx(expected["log_probability"].tolist())
    assert set(there.loc[there["decoding"] == "greedy", "error"]) == {
        "the backend does not tell probabilities under this decoding"
    }


def test_a_server_that_tells_no_log_probabilities_leaves_the_column_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = [Prompt("prefix/1", "prefix", "capability", "And", target=" God")]
    with fake_server(lambda *_: completion()) as server:
        generator = generator_of(server, monkeypatch, tokenizer=str(tiny_demo().model))
        table = extraction_table(generator, asked, [Decoding("sampled", 1.0, 1.0, 1, 24)], [])
    assert table["log_probability"].isna().all()
    assert (table["error"] != "").all()
    assert table["greedy_tokens"].isna().all()
