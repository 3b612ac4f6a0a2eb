"""What a trace behind a server is said to need, against what it asks; and all that leads there."""

import json

import pytest
from helpers import generation, needs_engine

from propme import tables
from propme.cli import main
from propme.errors import InputError
from propme.index import RemoteSettings, build_index, describe_remote, open_index, size_of
from propme.index.remote.questions import DisbelievedError
from propme.prompts import PrefixCut, prefix_prompts, prefix_prompts_from
from propme.records import Document
from propme.simpletrace import (
    IndexAddress,
    TraceSettings,
    Workers,
    batch,
    requests_needed,
    trace_all,
    trace_table,
)
from propme.simpletrace.workers import trace_units

pytest.importorskip("httpx")
pytest.importorskip("infini_gram")

from infinigram_server import infinigram_server

pytestmark = needs_engine


@pytest.fixture
def served(text_index):
    with infinigram_server(text_index) as server:
        yield server


@pytest.fixture
def address(served, text_index, tmp_path):
    settings = RemoteSettings(str(tmp_path / "answers"), rate=0, most_read=20)
    return IndexAddress(
        (served.address,), tokenizer=str(text_index / "tokenizer.json"), remote=settings
    )


def test_it_asks_nothing_and_the_trace_then_asks_no_more_than_it_says(address, served, real_texts):
    texts = [(f"g{n}", text[10:140]) for n, text in enumerate(real_texts[:4])]
    texts.append(("novel", "the sea was a house; wide foolish hus belief (main) epoch"))
    needed = requests_needed(texts, address, TraceSettings())
    assert served.asked == []
    assert (needed.generations, needed.answered) == (5, 0)
    trace_all([generation(text, name) for name, text in texts], address.open())
    assert 0 < len(served.asked) <= needed.estimated
    again = requests_needed(texts, address, TraceSettings())
    assert (again.answered, again.estimated) == (5, 0)
    assert again.told().startswith("0 requests")


@pytest.mark.parametrize("text", ["ozw havet", "hus", "sow rivers,"])
def test_a_text_of_few_words_is_looked_up_in_many_spellings(text, address, served):
    needed = requests_needed([("few", text)], address, TraceSettings())
    assert needed.estimated > 10 * 20  # so many spellings, of which 20 places are read
    trace_all([generation(text, "few")], address.open())
    assert 0 < len(served.asked) <= needed.estimated


def test_an_index_on_this_machine_needs_none(text_index):
    needed = requests_needed([("a", "b")], IndexAddress((str(text_index),)), TraceSettings())
    assert needed.estimated == 0


def test_hours_are_told_by_the_rate(address):
    text = [("a", "It was the best of times and the worst of hours")]
    needed = requests_needed(text, address, TraceSettings())
    assert f"at most, {needed.estimated:,} requests (an estimate)" in needed.told()
    assert "h at 8 a second" in type(needed)(1, 0, 57_600, 8.0).told()
    assert "2.0 h" in type(needed)(1, 0, 57_600, 8.0).told()


def test_the_command_says_what_it_needs_and_then_traces(served, text_index, tmp_path, capsys):
    texts = tmp_path / "texts.jsonl"
    texts.write_text(json.dumps({"id": "a", "text": "the age of wisdom, it was the sea"}) + "\n")
    common = [
        *("trace", "--index", served.address, "--tokenizer", str(text_index / "tokenizer.json")),
        *("--answers", str(tmp_path / "answers"), "--rate", "0", "--input", str(texts)),
        *("--output", str(tmp_path / "out")),
    ]
    assert main([*common, "--dry-run"]) == 0
    assert "1 of 1 generations need, as a rule at most, " in capsys.readouterr().out
    assert not served.asked
    assert main(common) == 0
    assert main([*common, "--dry-run"]) == 0
    assert "0 requests" in capsys.readouterr().out
    spans = tables.read("spans", tmp_path / "out" / "tables")
    assert "was the age of wisdom, it was the " not in set(spans["text"])
    assert any("age of wisdom, it was the" in text for text in spans["text"])
    state = json.loads((tmp_path / "out" / "trace.json").read_text())
    assert state["index"] == [served.address]


def test_threads_make_the_tables_that_one_makes(address, served, text_index, real_texts, tmp_path):
    made = [
        generation(text[n : n + 40], f"g{n}") for n in range(0, 45, 5) for text in real_texts[:5]
    ]
    rows = tables.to_frame("generations", made)
    # 45 generations are two units, which are traced side by side.
    found = trace_table(rows, address, TraceSettings(), tmp_path / "parts")
    local = trace_table(rows, IndexAddress((str(text_index),)), TraceSettings(), tmp_path / "local")
    for name, table in local.items():
        assert found[name].equals(table)
    assert len({str(each) for each in served.asked}) == len(served.asked)


def test_each_generation_behind_a_server_is_told_when_it_is_done(address, real_texts):
    """Of two units the tables come with the last of theirs, in the order of their texts."""
    units = [
        (unit, [(f"u{unit}g{n}", text[:60]) for n, text in enumerate(real_texts[:3])])
        for unit in (4, 7)
    ]
    told = list(trace_units(iter(units), address, TraceSettings(), Workers()))
    assert [n for n, _ in told] == [1] * 6
    whole = dict(found for _, found in told if found)
    assert {
        unit: found["traces"]["generation_id"].to_pylist() for unit, found in whole.items()
    } == {unit: [name for name, _ in texts] for unit, texts in units}
    assert told[-1][1] is not None


def test_what_was_made_of_answers_that_are_not_believed_is_made_anew(
    address, text_index, real_texts, tmp_path, monkeypatch
):
    """The first of two units is finished when a contradiction comes."""
    made = [
        generation(text[n : n + 40], f"g{n}{k}")
        for n in range(8)
        for k, text in enumerate(real_texts[:5])
    ]
    rows, parts = tables.to_frame("generations", made), tmp_path / "parts"
    really = batch.trace_units

    def contradicted(*given):
        for told in really(*given):
            yield told
            if told[1]:
                assert list(parts.glob("*.traces.parquet"))
                raise DisbelievedError("two lengths of one document")

    monkeypatch.setattr(batch, "trace_units", contradicted)
    with pytest.raises(DisbelievedError):
        trace_table(rows, address, TraceSettings(), parts)
    assert not list(parts.glob("*.parquet"))
    monkeypatch.setattr(batch, "trace_units", really)
    found = trace_table(rows, address, TraceSettings(), parts)
    assert found["traces"]["generation_id"].tolist() == rows["generation_id"].tolist()


def test_a_run_records_what_the_index_is_and_opens_it_so(address, served, text_index, tmp_path):
    tokenizer = str(text_index / "tokenizer.json")
    known = describe_remote(served.address, tokenizer, tmp_path / "kept")
    assert known["path"] == served.address
    assert len(known["sha256"]) == 64
    assert describe_remote(served.address, tokenizer, tmp_path / "other") == known | {
        "answers": str(tmp_path / "other")
    }
    opened = IndexAddress.recorded(known, rate=0.0, most_read=3).open()
    assert opened.most_read == 3
    local = open_index(text_index)
    assert (
        size_of(opened)
        == size_of(local)
        == {
            "documents": local.n_documents,
            "tokens": local.n_tokens,
        }
    )
    fewer = IndexAddress.recorded(known, rate=0.0, most_read=3)
    slower = IndexAddress.recorded(known, rate=1.0, most_read=3)
    assert fewer.identity() == slower.identity()  # how fast it is asked decides nothing
    assert fewer.identity() != IndexAddress.recorded(known, most_read=4).identity()


def test_an_index_that_does_not_tell_its_documents_has_a_size_all_the_same(text_index, tmp_path):
    with infinigram_server(text_index, takes_separator=False) as server:
        settings = RemoteSettings(str(tmp_path / "a"), rate=0)
        tokenizer = str(text_index / "tokenizer.json")
        index = open_index(server.address, tokenizer=tokenizer, remote=settings)
        assert size_of(index)["documents"] == "not told"


def test_prefixes_are_those_of_the_local_index_drawn_or_from_a_file(bpe, real_texts, tmp_path):
    cut = PrefixCut(tokens=10)
    texts = [" ".join(real_texts[n:] + real_texts[:n]) for n in range(len(real_texts))]
    documents = [Document(f"t{n}", text, {"copies": n}) for n, text in enumerate(texts)]
    folder = build_index(documents, bpe, tmp_path / "index", n_shards=2)
    lines = [json.dumps({"id": f"t{n}", "text": text}) for n, text in enumerate(texts)]
    (tmp_path / "documents.jsonl").write_text("\n".join(lines))
    own = prefix_prompts(open_index(folder), len(texts), 0, cut)
    with infinigram_server(folder) as server:
        settings = RemoteSettings(str(tmp_path / "a"), rate=0)
        tokenizer = str(folder / "tokenizer.json")
        index = open_index(server.address, tokenizer=tokenizer, remote=settings)
        assert prefix_prompts(index, len(texts), 0, cut) == own
        given = prefix_prompts_from(
            index, str(tmp_path / "documents.jsonl"), len(texts), 0, cut, "text", "id"
        )
    parts = [{(p.prompt_id, p.text, p.target, p.kind) for p in each} for each in (given, own)]
    assert parts[0] == parts[1]
    with pytest.raises(InputError, match="n_prefix"):
        prefix_prompts_from(index, str(tmp_path / "documents.jsonl"), 99, 0, cut)
