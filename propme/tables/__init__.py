"""The tables between notebooks: columns, types, key and meaning; the only parquet I/O.

Each table is declared once. Its columns are the fields of a record (`propme.records`) or are named
here. A table is checked when it is written and when it is read, is written by one stage, and is
never edited in place: a new version replaces the file as a whole.
"""

from propme.tables.declared import OF_COMPARISON, TABLES, Table
from propme.tables.frames import from_arrow, of_rows, read, to_arrow, to_frame, to_records, write

__all__ = [
    "OF_COMPARISON",
    "TABLES",
    "Table",
    "from_arrow",
    "of_rows",
    "read",
    "to_arrow",
    "to_frame",
    "to_records",
    "write",
]
