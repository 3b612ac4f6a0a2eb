"""The tokenizer of an index: any Hugging Face fast tokenizer, without its special tokens."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
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
        # It adds special tokens, and in some tokenizers takes the space that a token holds out of
        # the token's offsets.
        self._backend.post_processor = None
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
        head, tail = self._cut_bytes(ids)
        whole = list(ids[head : len(ids) - tail])
        text = self._backend.decode(whole, skip_special_tokens=False)
        return "\ufffd" * head + str(text) + "\ufffd" * tail

    def _cut_bytes(self, ids: Sequence[int]) -> tuple[int, int]:
        """Tokens at either end that are single bytes of a character cut in two there.

        Left in, each would turn every character in bytes that it touches to U+FFFD.
        """
        head, tail = 0, 0
        while head < min(3, len(ids)) and 0x80 <= self._bytes.get(ids[head], 0) < 0xC0:
            head += 1
        for n in range(1, min(3, len(ids) - head) + 1):
            byte = self._bytes.get(ids[-n], 0)
            if byte >= 0xC0:
                tail = n if n < 2 + (byte >= 0xE0) + (byte >= 0xF0) else 0
            if not 0x80 <= byte < 0xC0:
                break
        return head, tail

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """Tokens that stand for one byte, where characters may be spelt in bytes, as in Llama 2."""
        tokens = ((self._backend.token_to_id(f"<0x{byte:02X}>"), byte) for byte in range(256))
        return {token: byte for token, byte in tokens if token is not None}

    def joins(self, sign: str, space: str) -> bool:
        """Whether some token holds a sign, or the last of its bytes, and white space after it."""
        part = sign if sign.isascii() else "\ufffd"
        return sign + space in self._joined or part + space in self._joined

    @cached_property
    def _joined(self) -> frozenset[str]:
        tokens = [[token] for token in range(self.vocabulary_size)]
        texts = self._backend.decode_batch(tokens, skip_special_tokens=False)
        return frozenset(pair for text in texts for pair in re.findall(r"\S\s", text))
