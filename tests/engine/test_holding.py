"""Tables of the driver as DataFrames: every row arrives, whatever the table looks like in memory."""

from __future__ import annotations

import datetime
import decimal
import math
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from nabla.engine import types
from nabla.engine.spark.frames import FEW_ROWS, Workspace, engine_session
from nabla.engine.spark.meaning import meaning

pytestmark = pytest.mark.spark

SCHEMA = "a BIGINT, b STRING, c DECIMAL(12,2), d DOUBLE, e DATE, f BINARY, g BOOLEAN"
ROWS = [
    (1, "x", decimal.Decimal("1.50"), 0.1, datetime.date(1900, 1, 1), b"\x00\xff", True),
    (None, None, None, None, None, None, None),
    (-(2**63), "", decimal.Decimal("-9999999999.99"), float("inf"), datetime.date(9999, 12, 31), b"", False),
    (2**63 - 1, "Ὅμηρος 🙂", decimal.Decimal("0.00"), -0.0, datetime.date(1970, 1, 1), b"a", None),
]


@pytest.fixture
def workspace(spark: SparkSession, tmp_path: Path) -> Workspace:
    return Workspace(engine_session(spark, "tiny", meaning(spark)), str(tmp_path / "work"), "tiny")


def held(workspace: Workspace, table: pa.Table, schema: StructType) -> list[tuple[object, ...]]:
    workspace.hold(table, schema).createOrReplaceTempView("held")
    return [tuple(row) for row in workspace.session.sql("SELECT * FROM held").collect()]


def rows_of(*rows: tuple[object, ...]) -> pa.Table:
    schema = types.arrow_schema(types.parse(SCHEMA))
    return pa.table(
        [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), schema, strict=True)], schema
    )


def test_values_arrive_as_they_are(workspace: Workspace) -> None:
    found = held(workspace, rows_of(*ROWS), types.parse(SCHEMA))
    assert found == ROWS
    assert math.copysign(1, float(str(found[3][3]))) == -1


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0, 2), (0, 0, 1, 0), (0,), (1, 1, 1), (FEW_ROWS, 0, 1)])
def test_rows_arrive_from_any_chunks(workspace: Workspace, sizes: tuple[int, ...]) -> None:
    """PySpark itself loses what follows an empty chunk."""
    schema = types.parse("n BIGINT")
    chunks = [pa.array(range(100 * i, 100 * i + size), pa.int64()) for i, size in enumerate(sizes)]
    table = pa.table({"n": pa.chunked_array(chunks, pa.int64())})
    assert [row[0] for row in held(workspace, table, schema)] == table["n"].to_pylist()


def test_slices_arrive_without_what_they_were_cut_from(workspace: Workspace) -> None:
    table = pa.table({"n": pa.array(range(100), pa.int64()), "t": [str(i) for i in range(100)]}).slice(40, 3)
    assert held(workspace, table, types.parse("n BIGINT, t STRING")) == [(40, "40"), (41, "41"), (42, "42")]


def test_the_users_session_stays_the_active_one(spark: SparkSession, workspace: Workspace) -> None:
    active = SparkSession.getActiveSession()
    held(workspace, pa.table({"n": pa.array([1], pa.int64())}), types.parse("n BIGINT"))
    assert SparkSession.getActiveSession() is active
