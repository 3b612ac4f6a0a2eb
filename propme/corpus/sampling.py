"""The beginning of a corpus file, and how much of it that is."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

from propme.corpus.documents import document_of
from propme.corpus.rows import READERS, arrow_damage_told, damage_told, kind_of
from propme.errors import InputError
from propme.records import Document


def sample_file(
    path: Path, text_field: str, id_field: str, most_bytes: int
) -> tuple[list[Document], float]:
    """First documents of a file, up to so much text, and the share of the file that they are.

    Rows that cannot be read are left out. The share of a compressed file is about right.
    """
    documents: list[Document] = []
    n_bytes, reader = 0, READERS[kind_of(path)]
    # What comes after damage cannot be read, so what came before is all there is.
    with suppress(InputError), damage_told(path), path.open("rb", buffering=0) as file:
        # parquet and arrow are not read from their beginning to their end
        n_rows = _count_rows(path)
        raw = io.BufferedReader(file) if n_rows else _ShortReads(file, 1024)
        for number, row in reader(path, raw):
            with suppress(InputError):
                documents.append(document_of(row, path, number, text_field, id_field, path.name))
                n_bytes += len(documents[-1].text.encode("utf-8"))
            if n_bytes >= most_bytes:
                share = number / n_rows if n_rows else file.tell() / path.stat().st_size
                return documents, max(share, 1e-9)
    return documents, 1.0


class _ShortReads(io.BufferedReader):
    """A file read a little at a time, so that its position tells how much was needed."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None or size < 0 else min(size, 1024))


def _count_rows(path: Path) -> int:
    """Rows of a parquet file or an arrow stream, without reading them; 0 for any other."""
    if path.suffix not in (".parquet", ".arrow"):
        return 0
    import pyarrow as pa
    import pyarrow.parquet as pq

    with arrow_damage_told(path):
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        with pa.memory_map(str(path)) as mapped:
            return sum(batch.num_rows for batch in pa.ipc.open_stream(mapped))
