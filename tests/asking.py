"""A process that asks a server, for tests of several at a time; no test stands here."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from propme.index.remote.client import Client
from propme.index.remote.questions import find
from propme.index.remote.settings import RemoteSettings


def main(address: str, answers: str, start: str, seed: str) -> None:
    """Ask 60 questions, each process from another one on, once the file ``start`` is there."""
    client = Client(address, RemoteSettings(answers, rate=0, at_once=4))
    print("ready", flush=True)
    while not Path(start).exists():
        time.sleep(0.005)
    numbers = [(number + 7 * int(seed)) % 60 for number in range(60)]
    found = client.ask_all([find([number]) for number in numbers])
    counts = {number: answer["cnt"] for number, answer in zip(numbers, found, strict=True)}
    print(json.dumps({"counts": counts, "requests": client.n_requests}, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
