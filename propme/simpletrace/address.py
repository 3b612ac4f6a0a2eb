"""Where the index of a trace lies, told to workers that each open it themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from propme.files import sha256_of
from propme.index import Index, RemoteSettings, is_remote, open_index
from propme.index.layout import MANIFEST


@dataclass(frozen=True)
class IndexAddress:
    """Where an index lies and how it is opened, for workers that each open it themselves.

    The attributes are the arguments of `propme.index.open_index`.
    """

    paths: tuple[str, ...]
    engine: str = "mapped"
    tokenizer: str = ""
    token_type: str = "u16"
    remote: RemoteSettings = field(default_factory=RemoteSettings)

    @classmethod
    def recorded(
        cls, known: Mapping[str, str], engine: str = "mapped", **remote: Any
    ) -> IndexAddress:
        """That of a run, which recorded what is known of its index (`propme.run`).

        ``remote``: fields of `RemoteSettings`, for an index behind a server.
        """
        settings = RemoteSettings(known.get("answers", ""), **remote)
        return cls((known["path"],), engine, known.get("tokenizer", ""), remote=settings)

    @property
    def is_remote(self) -> bool:
        """Whether the index lies behind a server."""
        return any(map(is_remote, self.paths))

    def open(self) -> Index:
        """Open it, after its cheap checks."""
        return open_index(
            self.paths,
            self.engine,
            tokenizer=self.tokenizer,
            token_type=self.token_type,
            remote=self.remote,
        )

    def identity(self) -> list[str]:
        """What decides its answers: not where it lies, nor the engine, of which all say the same.

        An index that was made elsewhere has no manifest to be known by, but for its path; of one
        behind a server it also matters how many occurrences are read.
        """
        if self.is_remote:
            return [*self.paths, self.tokenizer, self.token_type, str(self.remote.most_read)]
        manifests = [Path(path) / MANIFEST for path in self.paths]
        known = [sha256_of(p) if p.is_file() else str(p.parent.resolve()) for p in manifests]
        return [*known, self.tokenizer, self.token_type]
