"""The tokenizer of an index: any Hugging Face fast tokenizer, or the bytes of the text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer as Backend

from propme.errors import BrokenIndexError, InputError
from propme.index.kernels import spelt
from propme.index.word_boundaries import Cuts, cuts_of
from propme.model_tokenizer import ModelTokenizer

if TYPE_CHECKING:
    from propme.index.word_merging import WordMerges

#: Name of the tokenizer that is none, and what stands in its file.
BYTES = "bytes"
_BYTES_FILE = b'{"propme": "bytes"}\n'


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
        """Load from a ``tokenizer.json``, a folder that holds one, a GGUF file, or by name of hub.

        ``bytes`` is the tokenizer that is none: `ByteTokenizer`.
        """
        path = Path(name_or_path)
        if path.suffix.lower() == ".gguf":
            return cls(ModelTokenizer.load(name_or_path).fast)
        file = path / "tokenizer.json" if path.is_dir() else path
        if name_or_path == BYTES or (file.is_file() and file.read_bytes() == _BYTES_FILE):
            return ByteTokenizer()
        try:
            if path.exists():  # also a folder that lacks it, for which no hub need be asked
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
        path.write_text(self._backend.to_str(pretty=True), encoding="utf-8")

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        return list(self._backend.encode(text, add_special_tokens=False).ids)

    def kept(self, text: str) -> str:
        """A text as its tokens hold it: changed only if the tokenizer normalises."""
        return text if self._backend.normalizer is None else self.decode(self.encode(text))

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids, and the characters ``[start, stop)`` of the text that each covers."""
        encoding = self._backend.encode(text, add_special_tokens=False)
        return list(encoding.ids), list(encoding.offsets)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many texts, on all cores."""
        batch = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in batch]

    def encode_batch_with_offsets(
        self, texts: Sequence[str]
    ) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """`encode_with_offsets` of many texts, on all cores."""
        batch = self._backend.encode_batch(list(texts), add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in batch]

    def bytes_encoder(self, dtype: np.dtype[Any]) -> Callable[[Sequence[str]], list[bytes]]:
        """A function that encodes texts as the bytes of arrays of tokens, for much text."""
        from propme.index.word_cache import WordCache

        cuts, merges = self._cuts_and_merges
        if cuts:
            return WordCache(self, cuts, dtype, merges).encode
        return lambda texts: [np.array(ids, dtype).tobytes() for ids in self.encode_batch(texts)]

    @cached_property
    def _cuts_and_merges(self) -> tuple[Cuts | None, WordMerges | None]:
        from propme.index.word_merging import WordMerges

        description = json.loads(self._backend.to_str())
        cuts = cuts_of(description)
        if cuts is None or cuts.words is None:
            return cuts, None
        return cuts, WordMerges(description["model"], *astuple(cuts.words))

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

    @cached_property
    def token_bytes(self) -> tuple[bytes, ...] | None:
        """What each token adds to a text, in UTF-8, by id; ``None`` if that hangs on other tokens.

        Spaces that decoding takes off the beginning of a text are left in.
        """
        spell = _speller(self._backend.decoder)
        tokens = (self._backend.id_to_token(token) for token in range(self.vocabulary_size))
        return None if spell is None else tuple(spell(token or "") for token in tokens)

    def bytes_of(self, ids: npt.ArrayLike) -> bytes:
        """What tokens add to a text, in UTF-8; only where `token_bytes` is known."""
        tokens = np.asarray(ids, np.uint32)
        data, starts = self._spelling
        if tokens.size and int(tokens.max()) >= starts.size - 1:
            raise BrokenIndexError(
                f"token {tokens.max()} is none of the index's tokenizer, so the index is damaged;"
                " 'propme index verify' says where"
            )
        raw: bytes = spelt(tokens, data, starts).tobytes()
        return raw

    @cached_property
    def _spelling(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """`token_bytes` one behind the other, and where each begins."""
        if self.token_bytes is None:
            raise TypeError("this tokenizer's tokens do not spell a text one by one")
        starts = np.cumsum([0, *map(len, self.token_bytes)], dtype=np.int64)
        return np.frombuffer(b"".join(self.token_bytes), np.uint8), starts

    def decode_inside(self, ids: npt.ArrayLike) -> str:
        """Text of tokens as they stand inside a text: a space that they begin with stays."""
        if self.token_bytes is None:
            return self.decode(np.asarray(ids, np.int64).tolist())
        return self.bytes_of(ids).decode("utf-8", "replace")

    def joins(self, sign: str, space: str) -> bool:
        """Whether some token holds a sign, or the last of its bytes, and white space after it."""
        part = sign if sign.isascii() else "\ufffd"
        return sign + space in self._joined or part + space in self._joined

    @cached_property
    def _joined(self) -> frozenset[str]:
        tokens = [[token] for token in range(self.vocabulary_size)]
        texts = self._backend.decode_batch(tokens, skip_special_tokens=False)
        return frozenset(pair for text in texts for pair in re.findall(r"\S\s", text))


class ByteTokenizer(Tokenizer):
    """No tokenizer at all: the tokens are the bytes of the text in UTF-8."""

    def __init__(self) -> None:
        pass

    @property
    def vocabulary_size(self) -> int:
        """One more than the highest byte of UTF-8."""
        return 0xF5

    @property
    def fingerprint(self) -> str:
        """The same for all of them."""
        return hashlib.sha256(_BYTES_FILE).hexdigest()

    def save(self, path: Path) -> None:
        """Write what `Tokenizer.load` knows it by."""
        path.write_bytes(_BYTES_FILE)

    def kept(self, text: str) -> str:
        """The text: bytes hold it as it is."""
        return text

    def encode(self, text: str) -> list[int]:
        """Bytes of a text."""
        return list(text.encode("utf-8"))

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Bytes, and for each the character ``[n, n + 1)`` that it is of."""
        sizes = [len(character.encode("utf-8")) for character in text]
        offsets = [(n, n + 1) for n, size in enumerate(sizes) for _ in range(size)]
        return self.encode(text), offsets

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Bytes of many texts."""
        return [self.encode(text) for text in texts]

    def bytes_encoder(self, dtype: np.dtype[Any]) -> Callable[[Sequence[str]], list[bytes]]:
        """A function that encodes texts as the bytes of arrays of tokens."""
        if dtype.itemsize == 1:
            return lambda texts: [text.encode("utf-8") for text in texts]
        return lambda texts: [np.array(ids, dtype).tobytes() for ids in self.encode_batch(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of bytes. A character cut in two at an end shows as U+FFFD."""
        return bytes(ids).decode("utf-8", errors="replace")

    @cached_property
    def token_bytes(self) -> tuple[bytes, ...]:
        """Every byte is itself."""
        return tuple(bytes([byte]) for byte in range(self.vocabulary_size))

    def joins(self, sign: str, space: str) -> bool:
        """No byte holds two characters."""
        return False


def _speller(decoder: Any) -> Callable[[str], bytes] | None:
    """A function that gives a token's bytes, of a decoder that puts them one behind the other."""
    if decoder is None:
        return None
    # The state is what is pickled; out of the text of the whole tokenizer it would take longer.
    state: dict[str, Any] = json.loads(decoder.__getstate__())
    parts: list[dict[str, Any]] = state.get("decoders", [state])
    kinds = [part["type"] for part in parts]
    if kinds == ["ByteLevel"]:
        return _spell_signs
    if kinds == ["Metaspace"]:
        marker = parts[0]["replacement"]
        return lambda token: token.replace(marker, " ").encode()
    # Spaces are stripped off a text as a whole, for it is fused by then.
    strips = all(part["type"] == "Strip" and part["content"] == " " for part in parts[3:])
    if kinds[:3] == ["Replace", "ByteFallback", "Fuse"] and strips:
        pattern, content = parts[0]["pattern"], parts[0]["content"]
        if "String" in pattern:
            return partial(_spell_with_bytes, pattern["String"], content)
    return None


def _spell_with_bytes(marker: str, content: str, token: str) -> bytes:
    if re.fullmatch("<0x[0-9A-Fa-f]{2}>", token):
        return bytes.fromhex(token[3:5])
    return token.replace(marker, content).encode()


def _byte_signs() -> dict[int, int]:
    """For each character the byte that it stands for in byte-level tokens, or one too high."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in plain]
    return {
        **dict.fromkeys(others, 0x100),
        **{byte: byte for byte in plain},
        **{0x100 + n: byte for n, byte in enumerate(others)},
    }


_BYTE_SIGNS = _byte_signs()


def _spell_signs(token: str) -> bytes:
    try:
        return token.translate(_BYTE_SIGNS).encode("latin-1")
    except UnicodeEncodeError:  # an added token, which is written as it is
        return token.encode()
