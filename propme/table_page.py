"""All tables on one page, out of their declarations: the command ``propme tables``."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from propme.tables import OF_COMPARISON, TABLES, Table

_HEAD = """\
# Tables

Made by `propme tables` from their declarations, which check each table when it is written and
when it is read. They are parquet files, in `tables/` of a run's folder: `pd.read_parquet(file)`, or
`propme.tables.read(name, folder)`. *Key* is what stands once. A type with `?` may be empty. Tokens
are those of the index unless a column says otherwise; spans are half-open, `[start, stop)`.
"""

_TYPES = {
    pa.string(): "text",
    pa.int64(): "int",
    pa.float64(): "float",
    pa.bool_(): "bool",
    pa.list_(pa.int64()): "list of int",
}


def table_page() -> str:
    """The page, in Markdown: every column of every table, with type and meaning."""
    of_runs = [table for name, table in TABLES.items() if name not in OF_COMPARISON]
    of_comparisons = [TABLES[name] for name in OF_COMPARISON]
    parts = [_HEAD, "## Of a run\n"]
    parts += ["\n".join(_section(table)) for table in of_runs]
    parts += ["## Of a comparison\n"]
    parts += ["\n".join(_section(table)) for table in of_comparisons]
    return "\n".join(parts)


def _section(table: Table) -> Iterator[str]:
    yield f"### {table.name}\n"
    key = ", ".join(f"`{name}`" for name in table.key)
    yield f"{table.about[0].upper()}{table.about[1:]}. Key: {key}.\n"
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for column in table.schema:
        kind = _TYPES[column.type] + ("?" if column.nullable else "")
        about = table.columns[column.name].replace("|", "\\|")
        yield f"| `{column.name}` | {kind} | {about} |"
    yield ""
