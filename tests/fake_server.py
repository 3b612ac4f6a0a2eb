"""A small server of OpenAI's protocol that misbehaves as told, and notes what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]


def completion(text: Any = " amen", finish: str | None = "stop", **choice: Any) -> Answer:
    """An answer of /v1/completions."""
    return 200, {"choices": [{"text": text, "finish_reason": finish, "index": 0, **choice}]}


class FakeServer(ThreadingHTTPServer):
    """Answers each request by ``script(path, body, number)``.

    The script returns status and content, bytes or what becomes JSON, and may raise to hang up.
    Requests of one token, as a client tries a server with, are answered by ``probe``.
    """

    daemon_threads = True

    def __init__(self, script: Callable[[str, dict[str, Any], int], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.probe: Callable[[str, dict[str, Any]], Answer] = lambda path, body: (
            completion("a")
            if path.endswith("/v1/completions")
            else (200, {"choices": [{"message": {"content": "a"}, "finish_reason": "length"}]})
        )
        self.models: Answer = (200, {"data": [{"id": "m"}]})
        self.headers: dict[str, str] = {}
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(*self.server.models)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.keys.add(self.headers["authorization"])
        if body["max_tokens"] == 1:
            self._send(*self.server.probe(self.path, body))
            return
        with self.server.lock:
            number = len(self.server.asked)
            self.server.asked.append(body | {"path": self.path})
        try:
            answer = self.server.script(self.path, body, number)
        except ConnectionError:
            self.connection.close()
            return
        self._send(*answer)

    def _send(self, status: int, content: Any) -> None:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextmanager
def fake_server(script: Callable[[str, dict[str, Any], int], Answer]) -> Iterator[FakeServer]:
    """A server on a free port of this machine, while the context lasts."""
    server = FakeServer(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
