"""A whole run whose index lies behind a server: no corpus, no index, no key in what it leaves."""

import json

import pytest
import yaml
from helpers import needs_engine
from tiny import propme, tiny_demo, tiny_parameters

from propme import tables
from propme.corpus import Corpus
from propme.index import Tokenizer, build_index
from propme.run import STAGES, open_run
from propme.runner import effective_parameters
from propme.runner.server_requests import requests_foreseen
from propme.simpletrace import IndexAddress, TraceSettings, trace_table

pytest.importorskip("httpx")
pytest.importorskip("infini_gram")

from infinigram_server import infinigram_server

pytestmark = [needs_engine, pytest.mark.slow]


def test_a_run_through_a_server_finds_what_a_local_index_holds_and_asks_nothing_twice(tmp_path):
    demo = tiny_demo()
    model = str(demo.model)
    index = build_index(Corpus([demo.corpus]), Tokenizer.load(model), tmp_path / "i", n_shards=2)
    chosen = tiny_parameters(tmp_path / "out", tmp_path / "cache") | {
        "corpus": "",
        "heldout": str(demo.heldout),
        "human": str(demo.human),
        "model": model,
        "tokenizer": model,
        "request_rate": 0,
        "n_varied": 1,
    }
    file = tmp_path / "run.yaml"
    with infinigram_server(index) as server:
        file.write_text(yaml.safe_dump(chosen | {"index": server.address}))
        effective = effective_parameters([file], {}, None)
        foreseen = requests_foreseen(STAGES, effective, open_run(effective["output"]))
        assert server.asked == []
        done = propme("run", file, PROPME_INDEX_KEY="open-sesame")
        assert done.returncode == 0, done.stderr
        assert server.keys == {"Bearer open-sesame"}
        questions = [json.dumps(each, sort_keys=True) for each in server.asked]
        assert len(set(questions)) == len(questions) > 0
        assert len(questions) <= sum(foreseen.values())
        again = propme("run", file)
        assert again.returncode == 0, again.stderr
        assert len(server.asked) == len(questions)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if b"open-sesame" in path.read_bytes()] == []
    recorded = json.loads((tmp_path / "out" / "run.json").read_text())["inputs"]["index"]
    assert recorded["path"] == server.address
    assert len(recorded["sha256"]) == 64

    folder = tmp_path / "out" / "tables"
    found = tables.read("spans", folder)
    rows = tables.read("generations", folder)
    local = trace_table(rows, IndexAddress((str(index),)), TraceSettings(), tmp_path / "parts")[
        "spans"
    ]
    # Through the server 20 places are read at most, of a whole text too, which then says so.
    counted = ["n_occurrences", "n_documents", "documents_exact"]
    assert len(local)
    assert found.drop(columns=counted).equals(local.drop(columns=counted))
    exact = found["documents_exact"]
    assert found[exact].equals(local[exact])
    assert (found["n_occurrences"] <= local["n_occurrences"]).all()
    assert (found["n_documents"] <= local["n_documents"]).all()
