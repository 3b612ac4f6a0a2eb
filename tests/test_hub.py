"""Corpora streamed from a hub: the hub's own protocol, spoken by a server on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

COMMIT = "a" * 40
ROWS = [{"id": f"i{n}", "text": f"document {n}, på dansk", "source": "s"} for n in range(50)]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as streaming the dataset ``owner/name`` asks for."""

    files: dict[str, bytes]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/datasets/owner/name/tree/"):
            self._answer(json.dumps(self._tree(path.partition(COMMIT)[2].strip("/"))).encode())
        elif path.startswith("/api/datasets/owner/name"):
            siblings = [{"rfilename": name} for name in self.files]
            about = {"id": "owner/name", "sha": COMMIT, "private": False, "gated": False}
            lists = {"siblings": siblings, "tags": [], "downloads": 0, "likes": 0}
            self._answer(json.dumps(about | lists).encode())
        elif "/resolve/" in path and (name := path.split("/", 6)[-1]) in self.files:
            self._file(self.files[name])
        else:
            self._answer(b"{}", 404, {"X-Error-Code": "EntryNotFound"})

    def _tree(self, folder: str) -> list[dict[str, object]]:
        """Files and folders that lie in a folder, as the hub lists them."""
        found: dict[str, dict[str, object]] = {}
        prefix = f"{folder}/" if folder else ""
        for path, content in self.files.items():
            if path.startswith(prefix):
                name, _, below = path.removeprefix(prefix).partition("/")
                kind = {"type": "directory"} if below else {"type": "file"}
                size = 0 if below else len(content)
                found[name] = kind | {"path": prefix + name, "oid": COMMIT, "size": size}
        return list(found.values())

    def _file(self, content: bytes) -> None:
        etag = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        if not asked:
            self._answer(content, 200, headers)
            return
        first, last = asked.removeprefix("bytes=").split("-")
        part = content[int(first) : int(last or len(content)) + 1]
        headers["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        self._answer(part, 206, headers)

    def _answer(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing of it in the tests' output."""


@contextmanager
def hub_with(files: dict[str, bytes]) -> Iterator[str]:
    handler = type("HubWithFiles", (Hub,), {"files": files})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def propme(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command, in a process of its own: the hub's address is read when its client is loaded."""

    def run(hub: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        offline = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
        environment = {k: v for k, v in os.environ.items() if k not in offline}
        environment |= {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "hf"), "TQDM_DISABLE": "1"}
        return subprocess.run(
            [sys.executable, "-m", "propme.cli", *map(str, arguments)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


BUILD = ("index", "build", "--tokenizer", "bytes", "--output", "index", "--input")


@pytest.mark.parametrize("name", ["owner/name", "owner/name:train"])
def test_a_dataset_is_streamed_into_an_index(
    name: str, propme: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    with hub_with({"README.md": b"---\nlicense: cc0-1.0\n---\n", "data/train.jsonl": DATA}) as hub:
        done = propme(hub, *BUILD, name)
    assert done.returncode == 0, done.stderr

    from propme.index import open_index

    index = open_index(tmp_path / "index")
    assert index.n_documents == len(ROWS)
    assert index.metadata(0, 7) == {"id": "i7", "source": "s"}
    assert index.tokenizer.decode(index.document_tokens(0, 7)) == ROWS[7]["text"]
    assert not list((tmp_path / "hf").rglob("*.jsonl")), "streamed, not downloaded"


def test_code_of_a_dataset_is_never_run(
    propme: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    code = b"from pathlib import Path\nPath('was-run').touch()\n"
    with hub_with({"name.py": code, "README.md": b""}) as hub:
        done = propme(hub, *BUILD, "owner/name")
    assert done.returncode == 1
    assert "owner/name: nothing of that name is on disk, and the hub gives no" in done.stderr
    assert not (tmp_path / "was-run").exists()
    assert not (tmp_path / "index").exists()


def test_a_dataset_that_is_not_there_is_told(
    propme: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    with hub_with({}) as hub:
        done = propme(hub, *BUILD, "owner/other")
    assert done.returncode == 1
    assert "owner/other: nothing of that name is on disk, and the hub gives no" in done.stderr
