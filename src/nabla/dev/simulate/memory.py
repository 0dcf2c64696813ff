"""Functions of storage that remember what they have computed, while schedules are run.

Thousands of schedules encode, decode and compare the same few rows, which takes most of the time. All of these functions depend
on the content of their arguments alone, on bytes, texts and rows, and so it is content by which their results are found, never
the name of a file. Files are still read and written, whole ones, halves, and others of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nabla._cached import cached_property
from nabla.storage import bags, catalog, deltalog, lakelog, log_statistics, parquet, statistics
from nabla.storage.files import DataFile

_MOST = 4096
"""Results of a function that are kept."""


@contextmanager
def remembering() -> Iterator[None]:
    """Let the functions remember until the block ends."""
    before = [(module, name, getattr(module, name)) for module, name, _ in _FUNCTIONS]
    for module, name, function in _FUNCTIONS:
        setattr(module, name, function)
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)


class _KeptFile(pq.ParquetFile):
    """A Parquet file in memory whose columns are decoded once."""

    def __init__(self, content: bytes) -> None:
        super().__init__(pa.BufferReader(content), pre_buffer=False)
        self._known: dict[tuple[str, ...] | None, pa.Table] = {}

    @cached_property
    def schema_arrow(self) -> pa.Schema:
        return super().schema_arrow

    def read(
        self, columns: list[str] | None = None, use_threads: bool = True, use_pandas_metadata: bool = False
    ) -> pa.Table:
        wanted = None if columns is None else tuple(columns)
        if wanted not in self._known:
            self._known[wanted] = super().read(columns, use_threads)
        return self._known[wanted]


def _by_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tables, and of descriptions of files, that is called once for the same rows."""
    known: dict[Hashable, Any] = {}

    def remembered(*arguments: Any) -> Any:
        key = tuple(map(_content, arguments))
        if key not in known:
            if len(known) >= _MOST:
                known.clear()
            known[key] = function(*arguments)
        return known[key]

    return remembered


def _content(argument: Any) -> Hashable:
    if isinstance(argument, pa.Table):
        return argument.schema, *(tuple(column.to_pylist()) for column in argument.columns)
    if isinstance(argument, DataFile):  # whose name says nothing about its rows
        return repr((argument.rows, argument.minimum, argument.maximum, argument.nulls))
    return repr(argument)


_encoded: dict[Hashable, tuple[bytes, pq.FileMetaData]] = {}
_write_file = parquet.write_file


def _write_remembered(table: pa.Table, path: str, **options: Any) -> pq.FileMetaData:
    if "parts" in table.column_names:  # a catalog, which is never the same again
        return _write_file(table, path, **options)
    key = (_content(table), repr(options))
    if key in _encoded:
        with open(path, "wb", buffering=0) as file:
            file.write(_encoded[key][0])
    else:
        footer = _write_file(table, path, **options)
        if len(_encoded) >= _MOST:
            _encoded.clear()
        with open(path, "rb") as file:
            _encoded[key] = file.read(), footer
    return _encoded[key][1]


_described: dict[int, tuple[pq.FileMetaData, statistics.Statistics]] = {}
_from_footer = statistics.from_footer


def _describe_remembered(footer: pq.FileMetaData) -> statistics.Statistics:
    """The same for the same object, which is kept, so that no other one gets its identity."""
    if id(footer) not in _described:
        if len(_described) >= _MOST:
            _described.clear()
        _described[id(footer)] = footer, _from_footer(footer)
    return _described[id(footer)][1]


_reader = log_statistics.reader


def _read_statistics(schema_json: str) -> log_statistics.Reader:
    return lru_cache(_MOST)(_reader(schema_json))


_FUNCTIONS: tuple[tuple[ModuleType, str, Callable[..., Any]], ...] = (
    (parquet, "of_content", lru_cache(_MOST)(_KeptFile)),
    (parquet, "write_file", _write_remembered),
    (deltalog, "parsed", lru_cache(_MOST)(deltalog.parsed)),
    (statistics, "from_footer", _describe_remembered),
    (bags, "consolidate", _by_rows(bags.consolidate)),
    (bags, "subtract", _by_rows(bags.subtract)),
    (lakelog, "from_table", _by_rows(catalog.from_table)),
    (log_statistics, "reader", lru_cache(_MOST)(_read_statistics)),
)
