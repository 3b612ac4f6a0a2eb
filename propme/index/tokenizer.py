"""The tokenizer of an index: any Hugging Face fast tokenizer, without its special tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer as Backend

from propme.errors import InputError


class Tokenizer:
    """Text to token ids and back, as the corpus was tokenised.

    No special token is ever added, and text that looks like one (``<|endoftext|>``) is encoded as
    the characters it is: what stands in a corpus is text.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = Backend.from_str(backend.to_str())
        self._backend.encode_special_tokens = True
        self._backend.no_padding()
        self._backend.no_truncation()

    @classmethod
    def load(cls, name_or_path: str) -> Tokenizer:
        """Load from a ``tokenizer.json``, a folder that holds one, or a name on the hub."""
        path = Path(name_or_path)
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            if file.is_file():
                return cls(Backend.from_file(str(file)))
            return cls(Backend.from_pretrained(name_or_path))
        except Exception as error:  # the library raises bare Exception for every fault
            raise InputError(
                f"no fast tokenizer could be loaded ({error}); give a folder with a tokenizer.json",
                name_or_path,
            ) from error

    @property
    def vocabulary_size(self) -> int:
        """One more than the highest id that encoding can yield."""
        return max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the whole tokenizer; two with the same one encode alike."""
        return hashlib.sha256(self._backend.to_str().encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write it as a ``tokenizer.json``."""
        self._backend.save(str(path))

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        return list(self._backend.encode(text, add_special_tokens=False).ids)

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids, and the characters ``[start, stop)`` of the text that each covers."""
        encoding = self._backend.encode(text, add_special_tokens=False)
        return list(encoding.ids), list(encoding.offsets)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many texts, on all cores."""
        batch = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in batch]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids. A character cut in two at an end shows as U+FFFD."""
        return str(self._backend.decode(list(ids), skip_special_tokens=False))
