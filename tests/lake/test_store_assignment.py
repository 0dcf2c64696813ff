"""What a column takes: the types that Spark's INSERT takes, and of their values those that it can hold."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from nabla.engine.store_assignment import assignable
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

D = Decimal
DAY, NOON = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 12, 30)

SIMPLE = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4,1)", "DECIMAL(38,10)", "STRING"),
    *("BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "VOID"),
)
NESTED = (
    *("ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING,INT>", "MAP<STRING,DATE>", "STRUCT<a:INT,b:STRING>"),
    *("STRUCT<b:STRING,A:BIGINT>", "STRUCT<a:INT>", "STRUCT<a:INT,c:STRING>"),
)


@pytest.fixture
def inserts(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose own tables go with the test."""
    yield spark
    for table in spark.sql("SHOW TABLES").collect():
        if not table.isTemporary:
            spark.sql(f"DROP TABLE {table.tableName}")


def pairs(types: tuple[str, ...]) -> set[tuple[str, str]]:
    parsed = {text: StructType.fromDDL(f"x {text}").fields[0].dataType for text in types}
    return {(given, wanted) for given in types for wanted in types if assignable(parsed[given], parsed[wanted])}


def test_simple_types_are_assigned_as_by_spark(spark: SparkSession) -> None:
    jvm = spark._jvm
    parsed = {text: jvm.org.apache.spark.sql.types.DataType.fromDDL(f"x {text}").apply(0).dataType() for text in SIMPLE}
    takes = jvm.org.apache.spark.sql.catalyst.expressions.Cast.canANSIStoreAssign
    known = {(given, wanted) for given in SIMPLE for wanted in SIMPLE if takes(parsed[given], parsed[wanted])}
    assert {pair for pair in pairs(SIMPLE) if pair[1] != "VOID"} == {pair for pair in known if pair[1] != "VOID"}


def test_nested_types_are_assigned_as_by_an_insert_by_name(inserts: SparkSession) -> None:
    state = inserts._jsparkSession.sessionState()
    only_analyze = inserts._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()

    def takes(given: str, number: int) -> bool:
        text = f"INSERT INTO pairs{number} BY NAME SELECT CAST(NULL AS {given}) AS x"
        try:
            state.executePlan(state.sqlParser().parsePlan(text), only_analyze).assertAnalyzed()
        except PySparkException:
            return False
        return True

    for number, wanted in enumerate(NESTED):
        inserts.sql(f"CREATE TABLE pairs{number} (x {wanted}) USING parquet")
    assert pairs(NESTED) == {(given, wanted) for given in NESTED for i, wanted in enumerate(NESTED) if takes(given, i)}


# The column's type, a value of Python and its Arrow type, the same in SQL, and what is stored: as Spark stores it.
STORED = [
    ("INT", 5.0, pa.float64(), "5D", 5),
    ("BIGINT", D("7.0"), pa.decimal128(3, 1), "7.0BD", 7),
    ("TINYINT", -128, pa.int64(), "-128L", -128),
    ("FLOAT", 0.1, pa.float64(), "0.1D", 0.10000000149011612),
    ("FLOAT", 16777217, pa.int64(), "16777217", 16777216.0),
    ("DOUBLE", 9007199254740993, pa.int64(), "9007199254740993L", 9007199254740992.0),
    ("DOUBLE", D("1.5"), pa.decimal128(3, 1), "1.5BD", 1.5),
    ("DECIMAL(4,1)", D("1.25"), pa.decimal128(3, 2), "1.25BD", D("1.3")),
    ("DECIMAL(4,1)", D("-1.25"), pa.decimal128(3, 2), "-1.25BD", D("-1.3")),
    ("DECIMAL(4,1)", 0.15, pa.float64(), "0.15D", D("0.2")),
    ("DECIMAL(4,1)", 12, pa.int64(), "12L", D("12.0")),
    ("STRING", 5, pa.int32(), "5", "5"),
    ("STRING", 1e10, pa.float64(), "1e10D", "1.0E10"),
    ("STRING", True, pa.bool_(), "true", "true"),
    ("STRING", D("1.50"), pa.decimal128(3, 2), "1.50BD", "1.50"),
    ("STRING", DAY, pa.date32(), "DATE'2026-01-02'", "2026-01-02"),
    ("STRING", NOON, pa.timestamp("us"), "TIMESTAMP_NTZ'2026-01-02 12:30:00'", "2026-01-02 12:30:00"),
    ("STRING", b"A", pa.binary(), "X'41'", "A"),
    ("DATE", datetime.datetime(2026, 1, 2), pa.timestamp("us"), "TIMESTAMP_NTZ'2026-01-02 00:00:00'", DAY),
    ("TIMESTAMP_NTZ", DAY, pa.date32(), "DATE'2026-01-02'", datetime.datetime(2026, 1, 2)),
    ("TIMESTAMP", DAY, pa.date32(), "DATE'2026-01-02'", datetime.datetime(2026, 1, 2)),
    ("TIMESTAMP", NOON, pa.timestamp("us"), "TIMESTAMP_NTZ'2026-01-02 12:30:00'", NOON),
    ("VARCHAR(3)", "abc  ", pa.string(), "'abc  '", "abc"),
    ("CHAR(3)", "äö", pa.string(), "'äö'", "äö "),
    ("ARRAY<CHAR(2)>", ["x", None], pa.list_(pa.string()), "array('x', NULL)", ["x ", None]),
    ("ARRAY<INT>", [1, 2], pa.list_(pa.int64()), "array(1L, 2L)", [1, 2]),
    ("MAP<STRING,INT>", {"a": 1}, pa.map_(pa.string(), pa.int64()), "map('a', 1L)", {"a": 1}),
    ("STRUCT<a:INT,b:INT>", {"B": 2, "a": 1}, pa.struct({"B": pa.int8(), "a": pa.int64()}), "struct(2 AS B, 1L AS a)", (1, 2)),
]  # fmt: skip


def test_values_of_every_kind_of_input_are_stored_as_spark_stores_them(lake: Lake, inserts: SparkSession) -> None:
    names = [f"c{i}" for i in range(len(STORED))]
    schema = ", ".join(f"{name} {case[0]}" for name, case in zip(names, STORED, strict=True))
    selected = ", ".join(f"{case[3]} AS {name}" for name, case in zip(names, STORED, strict=True))
    values = tuple(case[1] for case in STORED)
    arrow = pa.table({name: pa.array([v], case[2]) for name, v, case in zip(names, values, STORED, strict=True)})
    expected = tuple(case[4] for case in STORED)

    inserts.sql(f"CREATE TABLE stored ({schema}) USING parquet")
    inserts.sql(f"INSERT INTO stored BY NAME SELECT {selected}")
    assert [tuple(row) for row in inserts.table("stored").collect()] == [expected]

    lake.create_table("t", schema, data=[values])
    with lake.transaction() as tx:
        tx.insert("t", [values])
        tx.insert("t", [dict(zip(names, values, strict=True))])
        tx.insert("t", arrow)
        tx.insert("t", inserts.sql(f"SELECT {selected}"))
    assert [tuple(row) for row in lake.read("t").collect()] == [expected] * 5
    with lake.transaction() as tx:
        tx.update("t", set={name: case[3] for name, case in zip(names, STORED, strict=True)})
    assert [tuple(row) for row in lake.read("t").collect()] == [expected] * 5


# The same, for what Spark refuses, or stores as another value or as NULL.
REFUSED = [
    ("INT", 1.5, pa.float64(), "1.5D"),
    ("BIGINT", D("1.7"), pa.decimal128(2, 1), "1.7BD"),
    ("INT", 3_000_000_000, pa.int64(), "3000000000L"),
    ("INT", float("nan"), pa.float64(), "double('NaN')"),
    ("BIGINT", 2.0**63, pa.float64(), "9223372036854775808D"),
    ("INT", True, pa.bool_(), "true"),
    ("INT", "5", pa.string(), "'5'"),
    ("FLOAT", 1e300, pa.float64(), "1e300D"),
    ("DECIMAL(4,1)", D("999.95"), pa.decimal128(5, 2), "999.95BD"),
    ("DECIMAL(4,1)", float("nan"), pa.float64(), "double('NaN')"),
    ("DATE", 5, pa.int32(), "5"),
    ("DATE", NOON, pa.timestamp("us"), "TIMESTAMP_NTZ'2026-01-02 12:30:00'"),
    ("DATE", "2026-01-02", pa.string(), "'2026-01-02'"),
    ("TIMESTAMP", 5, pa.int64(), "5L"),
    ("BOOLEAN", 1, pa.int32(), "1"),
    ("BINARY", "a", pa.string(), "'a'"),
    ("STRING", [1], pa.list_(pa.int32()), "array(1)"),
    ("STRING", b"\xff", pa.binary(), "X'FF'"),
    ("INT NOT NULL", None, pa.int32(), "CAST(NULL AS INT)"),
    ("VARCHAR(3)", "abcd", pa.string(), "'abcd'"),
    ("CHAR(3)", "abcd", pa.string(), "'abcd'"),
    ("ARRAY<INT>", [1, 3_000_000_000], pa.list_(pa.int64()), "array(1L, 3000000000L)"),
    ("ARRAY<VARCHAR(1)>", ["a", "bc"], pa.list_(pa.string()), "array('a', 'bc')"),
    ("MAP<STRING,INT>", {"a": 1.5}, pa.map_(pa.string(), pa.float64()), "map('a', 1.5D)"),
    ("STRUCT<a:INT,b:INT>", {"a": 1, "c": 2}, pa.struct({"a": pa.int32(), "c": pa.int32()}), "named_struct('a', 1, 'c', 2)"),
    ("STRUCT<a:INT,b:INT>", {"a": 1}, pa.struct({"a": pa.int32()}), "named_struct('a', 1)"),
    ("STRUCT<a:INT NOT NULL>", {"a": None}, pa.struct({"a": pa.int32()}), "named_struct('a', CAST(NULL AS INT))"),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "value", "arrow", "sql"), REFUSED)
def test_what_a_column_cannot_hold_is_refused(
    lake: Lake, spark: SparkSession, wanted: str, value: Any, arrow: pa.DataType, sql: str
) -> None:
    lake.create_table("t", f"id INT, x {wanted}")
    inputs = {
        "rows": lambda tx: tx.insert("t", [(0, None), (1, value)] if "NOT" not in wanted else [(1, value)]),
        "dicts": lambda tx: tx.insert("t", [{"id": 1, "x": value}]),
        "Arrow": lambda tx: tx.insert("t", pa.table({"id": [1], "x": pa.array([value], arrow)})),
        "a DataFrame": lambda tx: tx.insert("t", spark.sql(f"SELECT 1 AS id, {sql} AS x")),
        "set": lambda tx: tx.update("t", set={"x": sql}),
    }
    with lake.transaction() as tx:
        if "NOT NULL" not in wanted or "STRUCT" in wanted:
            tx.insert("t", [{"id": 7}])
        else:
            del inputs["set"]
        for kind, change in inputs.items():
            with pytest.raises(NablaError) as caught:
                change(tx)
            assert caught.value.code == "NABLA_TYPE_MISMATCH", kind
            assert '"x"' in str(caught.value), kind
    assert [row.id for row in lake.read("t").collect()] == ([7] if "set" in inputs else [])
