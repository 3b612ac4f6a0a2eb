"""A tokenizer that is not that of the index behind a server is refused when it is opened."""

import json

import pytest
from helpers import needs_engine

from propme.errors import InputError
from propme.index import RemoteSettings, build_index, open_index
from propme.records import Document
from propme.simpletrace import IndexAddress, TraceSettings, requests_needed

pytest.importorskip("httpx")
pytest.importorskip("infini_gram")

from infinigram_server import infinigram_server

pytestmark = needs_engine


def opened(server, tokenizer, folder, **given):
    settings = RemoteSettings(str(folder / "answers"), rate=0, **given)
    return open_index(server.address, tokenizer=str(tokenizer), remote=settings)


@pytest.fixture
def rotated(text_index, tmp_path):
    """The index's own tokenizer, but each token has the number of another."""
    told = json.loads((text_index / "tokenizer.json").read_text("utf-8"))
    vocabulary = told["model"]["vocab"]
    n = len(vocabulary)
    told["model"]["vocab"] = {token: (number + 7) % n for token, number in vocabulary.items()}
    for added in told["added_tokens"]:
        added["id"] = (added["id"] + 7) % n
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(told), "utf-8")
    return path


def test_its_own_is_known_by_the_first_text(text_index, tmp_path):
    with infinigram_server(text_index) as server:
        opened(server, text_index / "tokenizer.json", tmp_path)
        asked = [each["query_type"] for each in server.asked]
        assert sorted(asked) == ["find"] * 3 + ["get_doc_by_rank"]  # sizes, documents, the passage
        opened(server, text_index / "tokenizer.json", tmp_path)
        assert len(server.asked) == 4


@pytest.mark.parametrize("other", ["rotated", "bytes"])
def test_another_is_refused(other, text_index, rotated, tmp_path):
    with infinigram_server(text_index) as server:
        tokenizer = rotated if other == "rotated" else "bytes"
        with pytest.raises(InputError, match=r"not the index's: of [1-5] texts .* none gives"):
            opened(server, tokenizer, tmp_path)


def test_a_wider_token_type_is_refused_and_of_a_narrower_one_the_needed_is_taken(
    text_index, tmp_path
):
    def of_type(server, kind):
        tokenizer = str(text_index / "tokenizer.json")
        settings = RemoteSettings(str(tmp_path / "answers"), rate=0)
        return open_index(server.address, tokenizer=tokenizer, token_type=kind, remote=settings)

    with infinigram_server(text_index) as server:
        with pytest.raises(InputError, match="token type is not the index's, which is of u16"):
            of_type(server, "u32")
        assert of_type(server, "u8").n_documents == open_index(text_index).n_documents


def test_where_no_text_is_shown_nothing_is_known(text_index, rotated, tmp_path):
    with infinigram_server(text_index) as server:
        server.blocked = {(0, document) for document in range(100)}
        opened(server, rotated, tmp_path)


def test_texts_of_a_few_words_tell_nothing(bpe, rotated, tmp_path):
    rows = [Document(str(n), text) for n, text in enumerate(["the sea", "a house", "it was"])]
    folder = build_index(rows, bpe, tmp_path / "index")
    with infinigram_server(folder) as server:
        opened(server, rotated, tmp_path)


def test_a_dry_run_asks_nothing(text_index, rotated, tmp_path):
    with infinigram_server(text_index) as server:
        settings = RemoteSettings(str(tmp_path / "answers"), rate=0)
        address = IndexAddress((server.address,), tokenizer=str(rotated), remote=settings)
        requests_needed([("a", "it was the best")], address, TraceSettings())
        assert server.asked == []
