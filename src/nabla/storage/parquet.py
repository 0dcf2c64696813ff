"""Parquet files of this machine, opened in the way that is quickest for their size."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_SMALL = 1 << 20
"""Bytes of a file that is read at once: with a small one, reading it in pieces and by threads would take most of the time."""

_FEW_ROWS = 4096
"""Rows that one thread has read before others have begun."""


def open_file(path: str) -> pq.ParquetFile:
    """A file to read from."""
    content = _small_content(path)
    return pq.ParquetFile(path) if content is None else of_content(content)


def read_all(path: str, columns: list[str] | None) -> pa.Table:
    """All rows of a file, with some columns in their order, or all."""
    content = _small_content(path)
    if content is None:
        return pq.read_table(path, columns=columns, partitioning=None)
    table = of_content(content).read(columns, use_threads=False)
    try:
        return table if columns is None else table.select(columns)
    except KeyError as error:
        raise pa.ArrowInvalid(f"a column is missing: {error}") from error


def of_content(content: bytes) -> pq.ParquetFile:
    """The file that has this content."""
    return pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)


def read_columns(file: pq.ParquetFile, columns: list[str]) -> pa.Table:
    """All rows of a file, with those of the columns that it has."""
    return file.read(columns, use_threads=file.metadata.num_rows > _FEW_ROWS)


def write_file(table: pa.Table, path: str | pa.NativeFile, **options: Any) -> pq.FileMetaData:
    """Write a file, and give its footer, which need not be read again."""
    footers: list[pq.FileMetaData] = []
    pq.write_table(table, path, metadata_collector=footers, **options)
    return footers[0]


def _small_content(path: str) -> bytes | None:
    with open(path, "rb", buffering=0) as file:
        return file.read() if os.fstat(file.fileno()).st_size <= _SMALL else None
