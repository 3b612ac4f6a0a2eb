"""Hashes that are remembered are those of the files as they are."""

import os
import time

import pytest

from propme import known_hashes
from propme.files import content_hash, sha256_of
from propme.known_hashes import KnownHashes


@pytest.fixture
def read(monkeypatch):
    """Files that were read."""
    paths = []

    def counted(path):
        paths.append(path)
        return sha256_of(path)

    monkeypatch.setattr(known_hashes, "sha256_of", counted)
    return paths


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    path = tmp_path / "corpus.jsonl"
    path.write_text("a")
    monkeypatch.setattr(known_hashes, "_STEP", -60)  # as if it had been written a minute ago
    return path


def test_a_file_is_read_once_by_any_number_of_processes(read, corpus, tmp_path):
    for _ in range(3):  # nothing is shared but the folder
        assert KnownHashes(tmp_path).sha256_of(corpus) == sha256_of(corpus)
    assert read == [corpus]


@pytest.mark.parametrize("change", ["size", "time", "nothing told", "inode", "path"])
def test_a_file_with_another_sign_is_read_again(read, corpus, tmp_path, change):
    known = KnownHashes(tmp_path)
    known.sha256_of(corpus)
    before = corpus.stat()
    other = corpus.with_name("other.jsonl")
    if change == "path":
        os.link(corpus, other)  # the same size, time and inode
        known.sha256_of(corpus)  # linking changes the file's own time
        read.pop()
    elif change == "nothing told":
        time.sleep(0.01)  # more than a step of the file system's clock
        corpus.write_text("b")
        os.utime(corpus, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (corpus.stat().st_mtime_ns, corpus.stat().st_ino) == (
            before.st_mtime_ns,
            before.st_ino,
        )
        other = corpus
    else:
        other.write_text("bb" if change == "size" else "b")
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns + (change == "time")))
        os.replace(other, corpus)
        other = corpus
    assert known.sha256_of(other) == sha256_of(other)
    assert len(read) == 2


def test_what_was_changed_just_now_is_not_remembered(read, corpus, tmp_path, monkeypatch):
    """It may change again within the step in which the file system tells times."""
    monkeypatch.undo()
    monkeypatch.setattr(
        known_hashes, "sha256_of", lambda path: read.append(path) or sha256_of(path)
    )
    known = KnownHashes(tmp_path)
    assert known.sha256_of(corpus) == known.sha256_of(corpus)
    assert len(read) == 2


def test_without_a_folder_or_with_a_damaged_file_all_is_read(read, corpus, tmp_path):
    for folder in (tmp_path / "missing", tmp_path):
        (tmp_path / "hashes.sqlite").write_bytes(b"damaged" * 1000)
        known = KnownHashes(folder)
        assert known.sha256_of(corpus) == known.sha256_of(corpus) == sha256_of(corpus)
    assert len(read) == 4
    assert not (tmp_path / "missing").exists()


def test_a_folder_has_the_hash_that_it_has_without(read, corpus, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    os.rename(corpus, folder / "weights")
    assert content_hash(folder, KnownHashes(tmp_path).sha256_of) == content_hash(folder)
    assert read == [folder / "weights"]
