"""DuckDB, which on one machine is what most would take instead: it recomputes each view from the files of the same tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import sqlglot

from nabla.dev.bench.measure import FAILED, Measurement, code_of
from nabla.dev.bench.peers import Peer
from nabla.lake.facade import Lake
from nabla.storage.deletion_vectors import numbers_of
from nabla.storage.files import Snapshot


class DuckDB(Peer):
    """The queries of all views that changed, with as many threads as Spark has; each result is written as a Parquet file.
    DuckDB learns the files of each table beforehand, which is not counted."""

    name = "duckdb"

    def __init__(self, lake: Lake, views: Mapping[str, str], folder: Path) -> None:
        self.lake = lake
        self.folder = folder
        self.queries = {view: sqlglot.transpile(sql, read="spark", write="duckdb")[0] for view, sql in views.items()}
        self.tables = Tables(lake.spark.sparkContext.defaultParallelism)
        folder.mkdir(parents=True, exist_ok=True)

    def follow(self, found: Mapping[str, Measurement]) -> Iterator[Measurement]:
        self.tables.show_all(self.lake)
        for view, sql in self.queries.items():
            if view in found and found[view].mode != "skip":
                yield self._recompute(view, sql, found[view])

    def _recompute(self, view: str, sql: str, ours: Measurement) -> Measurement:
        path = self.folder / f"{view}.parquet"
        begun = time.perf_counter()
        try:
            self.tables.connection.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
        except duckdb.Error as error:
            return replace(self.timed(ours, 0), mode=FAILED, problem=code_of(error))
        seconds = time.perf_counter() - begun
        counted = self.tables.connection.execute(f"SELECT COUNT(*) FROM '{path}'").fetchone()
        assert counted is not None
        rows = self.lake.status()[view].rows
        problem = "" if counted[0] == rows else f"DuckDB has {counted[0]} rows, the view {rows}"
        return replace(self.timed(ours, seconds), problem=problem)


class Tables:
    """DuckDB with the tables of a lake, each a view over the data files of a version."""

    def __init__(self, threads: int) -> None:
        self.connection = duckdb.connect(config={"threads": threads})

    def show_all(self, lake: Lake) -> None:
        """Make all tables known as they are now."""
        log = lake.context.log
        for name, entry in log.state().entries.items():
            if entry.kind == "table":
                self.show(name, log.snapshot(entry.parts["data"]))

    def show(self, name: str, snapshot: Snapshot) -> None:
        """A table as a view over its data files, without rows that deletion vectors hide."""
        paths = ", ".join(f"'{path}'" for path in snapshot.paths)
        columns = ", ".join(f'"{stored}" AS "{column}"' for column, stored in snapshot.stored.items())
        hidden = _hidden_rows(snapshot)
        if not hidden.num_rows:
            self.connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS SELECT {columns} FROM read_parquet([{paths}])')
            return
        self.connection.register("hidden", hidden)
        self.connection.execute(f'CREATE OR REPLACE TABLE "{name} hidden" AS SELECT * FROM hidden')
        self.connection.execute(
            f'CREATE OR REPLACE VIEW "{name}" AS SELECT {columns} '
            f"FROM read_parquet([{paths}], filename = true, file_row_number = true) AS rows "
            f'WHERE NOT EXISTS (SELECT 1 FROM "{name} hidden" AS h WHERE h.file = rows.filename '
            "AND h.number = rows.file_row_number)"
        )


def _hidden_rows(snapshot: Snapshot) -> pa.Table:
    """The rows that deletion vectors hide: the path of the file, and the number of the row in it."""
    tables = [pa.table({"file": pa.array([], pa.string()), "number": pa.array([], pa.int64())})]
    for file in snapshot.files:
        if file.hidden is not None:
            numbers = numbers_of(file.hidden.marked(snapshot.folder))
            paths = pa.repeat(pa.scalar(snapshot.path(file)), len(numbers))
            tables.append(pa.table({"file": paths, "number": numbers}))
    return pa.concat_tables(tables)
