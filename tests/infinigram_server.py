"""A server of infini-gram's HTTP API on this machine, over a local index and infini-gram's engine.

Written from the API's documentation, with what it does not say: errors of questions come with
status 200; of documents the text comes, and ``token_ids`` are those of the question; a separator's
``needle_offset`` is -1 in 64 bits without a sign.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from infini_gram.engine import InfiniGramEngine

from propme.index import layout, read_manifest
from propme.index.verify import read_tokenizer

NAME = "v4_test"

#: Fields of each type of question, beside ``index``, ``query_type`` and ``query_ids``.
FIELDS: dict[str, set[str]] = {
    "count": set(),
    "find": set(),
    "find_cnf": {"max_clause_freq", "max_diff_tokens"},
    "get_doc_by_rank": {"s", "rank", "max_disp_len"},
    "get_doc_by_ptr": {"s", "ptr", "max_disp_len"},
}


@dataclass
class Reply:
    """What is sent: bytes as they are, else as JSON; ``pause``: seconds behind each byte."""

    status: int = 200
    content: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.0


#: Answers a question otherwise, by the question and its number from 0; ``None``: as it should be.
Fault = Callable[[dict[str, Any], int], Reply | None]


class InfiniGramServer(ThreadingHTTPServer):
    """Answers out of the index in a folder.

    Attributes
    ----------
    fault : Fault
        May also raise a `ConnectionError`: the connection is cut without an answer.
    blocked : set of (int, int)
        Documents that are not shown, by shard and number in the index.
    asked : list of dict
        All questions, in order.
    keys : set of str
        Values of the header ``Authorization`` that came.
    """

    daemon_threads = True

    def __init__(
        self,
        folder: Path,
        longest_query: int = 500,
        longest_shown: int = 10_000,
        takes_separator: bool = True,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        manifest = read_manifest(folder)
        self.tokenizer = read_tokenizer(folder, manifest)
        self.vocabulary_size = self.tokenizer.vocabulary_size  # is counted anew each time
        self.separator = layout.separator(manifest["token_type"])
        # The engine crashes on a path with "table" in it, as that of many a test.
        self.folder = tempfile.TemporaryDirectory(prefix="served-")
        shards = Path(self.folder.name) / "shards"
        shards.symlink_to(folder / layout.SHARDS)
        self.engine = InfiniGramEngine(
            index_dir=[str(shards)],
            eos_token_id=0,
            vocab_size=self.separator,
            version=4,
            token_dtype=manifest["token_type"],
            ds_prefetch_depth=0,
            sa_prefetch_depth=0,
            od_prefetch_depth=0,
        )
        self.longest_query, self.longest_shown = longest_query, longest_shown
        self.takes_separator = takes_separator
        self.blocked: set[tuple[int, int]] = set()
        self.fault: Fault = lambda question, number: None
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/#{NAME}"

    def reply(self, question: dict[str, Any]) -> Reply:
        """The answer that the API gives."""
        for name in ("index", "query_type"):
            if name not in question:
                return Reply(400, {"error": f"[Flask] Missing required field: '{name}'"})
        if ("query" in question) == ("query_ids" in question):
            return Reply(400, {"error": "[Flask] Exactly one of query and query_ids, please"})
        if question["index"] != NAME:
            return Reply(400, {"error": f"[Flask] Invalid index: {question['index']}"})
        if question["query_type"] not in FIELDS:
            return Reply(400, {"error": f"[Flask] Invalid query_type: {question['query_type']}"})
        given = {k: v for k, v in question.items() if k not in ("index", "query_type", "query")}
        ids = given.pop("query_ids", None)
        if set(given) - FIELDS[question["query_type"]]:
            return Reply(500, {"error": "[Flask] Internal server error: unexpected argument"})
        if ids is None:
            if len(question["query"]) > 1000:
                return Reply(200, {"error": "Please limit your input to <= 1000 characters!"})
            ids = self.tokenizer.encode(question["query"])
        if refused := self._refused(ids):
            return Reply(200, {"error": refused})
        with self.lock:
            answer = self._answer(question["query_type"], ids, given)
        return Reply(200, answer | {"latency": 0.1, "token_ids": ids, "tokens": []})

    def _refused(self, ids: list[Any]) -> str:
        flat = [t for clause in ids for term in clause for t in term] if _is_nested(ids) else ids
        if len(flat) > self.longest_query:
            return f"Please limit your input to <= {self.longest_query} tokens!"
        most = self.vocabulary_size
        for token in flat:
            if token == self.separator and self.takes_separator:
                continue
            if not 0 <= token < most:
                return "Some item(s) in your query_ids are out-of-range!"
        return ""

    def _answer(self, query_type: str, ids: list[Any], given: dict[str, Any]) -> dict[str, Any]:
        if query_type == "find_cnf":
            return dict(self.engine.find_cnf(cnf=ids, **given))
        if query_type in ("count", "find"):
            return dict(getattr(self.engine, query_type)(input_ids=ids))
        if not 0 < given.get("max_disp_len", 1000) <= self.longest_shown:
            return {"error": f"max_disp_len must be an integer in [1, {self.longest_shown}]!"}
        shown = dict(getattr(self.engine, query_type)(**given))
        if "error" in shown:
            return shown
        shown["blocked"] = (given["s"], shown["doc_ix"]) in self.blocked
        tokens = [] if shown["blocked"] else shown["token_ids"]
        return shown | {"spans": [[self.tokenizer.decode(tokens), None]]}


def _is_nested(ids: list[Any]) -> bool:
    return bool(ids) and isinstance(ids[0], list)


class _Handler(BaseHTTPRequestHandler):
    server: InfiniGramServer
    protocol_version = "HTTP/1.1"  # connections stay, as they do with the real one
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        self.server.keys.add(self.headers["authorization"])
        try:
            question = json.loads(raw)
        except ValueError:
            self._send(Reply(415, {"error": "Unsupported Media Type"}))
            return
        with self.server.lock:
            number = len(self.server.asked)
            self.server.asked.append(question)
        try:
            reply = self.server.fault(question, number) or self.server.reply(question)
            self._send(reply)
        except ConnectionError:  # cut by the fault, or by who does not wait any longer
            self.close_connection = True

    def _send(self, reply: Reply) -> None:
        raw = reply.content
        raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if not reply.pause:
            self.wfile.write(raw)
            return
        for byte in raw:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(reply.pause)


@contextmanager
def infinigram_server(folder: Path, **limits: Any) -> Iterator[InfiniGramServer]:
    """A server of the index in a folder, on a free port of this machine, while it lasts."""
    server = InfiniGramServer(folder, **limits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        server.folder.cleanup()
