"""Results are applied to a view's table and published in its feed, by Arrow on the driver or by Spark alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from nabla.engine import types
from nabla.engine.apply import Applied, Change, Replacement, Result, ViewTables, Whole
from nabla.engine.relations import ComputedRows
from nabla.engine.spark.frames import Workspace, engine_session
from nabla.engine.spark.meaning import meaning
from nabla.errors import NablaError
from nabla.storage import bags, files, locations
from nabla.storage.table import StoredTable

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField("k", LongType()), StructField("v", StringType())])
OLD = [(1, "a"), (2, "b"), (2, "b"), (3, None)]
Rows = Callable[[list[tuple[object, ...]]], ComputedRows]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> ViewTables:
    folder = str(tmp_path / "view")
    data = StoredTable.create(folder, SCHEMA.json(), files.write(folder, arrow(OLD))).snapshot()
    workspace = Workspace(engine_session(spark, "large", meaning(spark)), str(tmp_path / "work"), "large")
    return ViewTables("totals", data, str(tmp_path / "feed"), {}, lambda size: workspace)


@pytest.fixture(params=["driver", "spark"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Rows:
    """Makes rows as if the driver or Spark had computed them; those with three values have a weight."""

    def make(found: list[tuple[object, ...]]) -> ComputedRows:
        schema = SCHEMA if len(found[0]) == 2 else types.with_weight(SCHEMA)
        if request.param == "driver":
            return ComputedRows(schema, table=arrow(found))
        folder = tmp_path / "written"
        folder.mkdir()
        locations.write_parquet(arrow(found), str(folder / "part.parquet"))
        return ComputedRows(schema, folder=str(folder))

    return make


def arrow(rows: list[tuple[object, ...]]) -> pa.Table:
    schema = types.arrow_schema(SCHEMA if len(rows[0]) == 2 else types.with_weight(SCHEMA))
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema)


def contents(tables: ViewTables, applied: Applied) -> Counter[tuple[object, ...]]:
    """What the view's table holds with the files of a result."""
    gone = {file.path for file in applied.removes.get("data", ())}
    there = [file for file in (*tables.data.files, *applied.adds.get("data", ())) if file.path not in gone]
    pieces = [locations.read_parquet(f"{tables.data.folder}/{file.path}") for file in there]
    return Counter(tuple(row.values()) for piece in pieces for row in piece.to_pylist())


def published(tables: ViewTables, applied: Applied) -> list[tuple[object, ...]]:
    pieces = [locations.read_parquet(f"{tables.feed}/{file.path}") for file in applied.adds.get("feed", ())]
    found = [(row["k"], row["v"], row["_change_type"], row["_version"]) for p in pieces for row in p.to_pylist()]
    return sorted(found, key=str)


CHANGE: list[tuple[object, ...]] = [(2, "b", -1), (4, "d", 2)]
NEW: list[tuple[object, ...]] = [(1, "a"), (2, "b"), (3, None), (4, "d"), (4, "d")]


@pytest.mark.parametrize(
    "make", [lambda rows: Change(rows(CHANGE)), lambda rows: Whole(rows(NEW))], ids=["change", "whole"]
)
def test_a_result_moves_the_view_and_its_feed(tables: ViewTables, rows: Rows, make: Callable[[Rows], Result]) -> None:
    applied = make(rows).apply(tables)
    assert (applied.inserted, applied.deleted, applied.rows) == (2, 1, 5)
    assert contents(tables, applied) == Counter(NEW)
    assert published(tables, applied) == [(2, "b", "delete", 1), (4, "d", "insert", 1), (4, "d", "insert", 1)]


def test_rows_are_replaced_by_key(tables: ViewTables) -> None:
    new = Replacement(("k",), pa.table({"k": [1, 3]}), arrow([(1, "z"), (3, None)]))
    applied = new.apply(tables)
    assert contents(tables, applied) == Counter([(1, "z"), (2, "b"), (2, "b"), (3, None)])
    assert published(tables, applied) == [(1, "a", "delete", 1), (1, "z", "insert", 1)]


def test_a_result_without_change_writes_nothing(tables: ViewTables) -> None:
    applied = Change(ComputedRows.none(types.with_weight(SCHEMA))).apply(tables)
    assert (applied.adds, applied.removes, applied.rows) == ({}, {}, len(OLD))


def test_a_deleted_row_that_is_not_there_is_named_with_its_view(tables: ViewTables, rows: Rows) -> None:
    with pytest.raises(NablaError) as refused:
        Change(rows([(2, "b", -3), (9, "x", -1), (1, "a", -1)])).apply(tables)
    error = refused.value
    assert error.code == "NABLA_DRIFT"
    assert error.place == 'view "totals"'
    assert error.message.startswith("2 rows that should be deleted are not in the view: ")
    assert "(2, 'b')" in error.message
    assert "(9, 'x')" in error.message
    assert "(1, 'a')" not in error.message


def test_split_and_repeat_are_the_parts_of_a_change() -> None:
    deleted, inserted = bags.split(arrow(CHANGE))
    assert bags.repeat(deleted).to_pylist() == [{"k": 2, "v": "b"}]
    assert bags.repeat(inserted).to_pylist() == [{"k": 4, "v": "d"}] * 2
