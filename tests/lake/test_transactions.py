"""Tables and transactions: operations apply in order, the net change counts, and bad input changes nothing."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from comparing import bag
from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

D = Decimal


@pytest.fixture
def orders(lake: Lake) -> Lake:
    schema = "id BIGINT, customer STRING, amount DECIMAL(12,2), day DATE"
    day = datetime.date(2026, 1, 2)
    lake.create_table(
        "orders", schema=schema, data=[(1, "a", D("1.50"), day), (2, None, D(2), None), (2, None, D(2), None)]
    )
    return lake


def rows(lake: Lake, table: str = "orders") -> list[tuple[object, ...]]:
    return sorted((tuple(r) for r in lake.read(table).collect()), key=repr)


def test_rows_come_in_every_form(lake: Lake, spark: SparkSession) -> None:
    schema = "id BIGINT, name STRING"
    lake.create_table("t", schema=schema)
    with lake.transaction() as tx:
        tx.insert("t", [(1, "tuple")])
        tx.insert("t", [{"name": "dict", "id": 2}, {"id": 3}])
        tx.insert("t", pa.table({"name": ["arrow"], "id": [4]}))
        tx.insert("t", spark.createDataFrame([("frame", 5)], "name STRING, id INT"))
    assert rows(lake, "t") == [(1, "tuple"), (2, "dict"), (3, None), (4, "arrow"), (5, "frame")]
    assert lake.status()["t"].rows == 5
    assert lake.status()["T"].version == 1


def test_operations_apply_in_order_and_the_net_change_counts(orders: Lake) -> None:
    with orders.transaction() as tx:
        tx.insert("orders", [(3, "c", D(3), None)])
        tx.update("orders", set={"amount": "amount * 2"}, where="id >= 2")
        tx.delete("orders", where="id = 2")
        tx.delete("orders", rows=[(3, "c", D(6), None)])
        tx.insert("orders", [(3, "d", D(1), None)])
    assert rows(orders) == [(1, "a", D("1.50"), datetime.date(2026, 1, 2)), (3, "d", D("1.00"), None)]
    change = bag(orders.changes("orders", since=0).select("id", "customer", "_change_type"))
    assert change == {(2, None, "delete"): 2, (3, "d", "insert"): 1}


def test_a_change_that_cancels_out_makes_no_version(orders: Lake) -> None:
    with orders.transaction() as tx:
        tx.insert("orders", [(9, "x", D(1), None)])
        tx.delete("orders", where="id = 9")
    assert orders.status()["orders"].version == 0


def test_one_copy_of_a_duplicate_is_deleted(orders: Lake) -> None:
    with orders.transaction() as tx:
        tx.delete("orders", rows=[(2, None, D(2), None)])
    assert len(rows(orders)) == 2


def test_old_versions_stay_readable(orders: Lake) -> None:
    with orders.transaction() as tx:
        tx.delete("orders", where="true")
    assert orders.read("orders").count() == 0
    assert orders.read("orders", version=0).count() == 3
    with pytest.raises(NablaError, match="NABLA_NO_VERSION"):
        orders.read("orders", version=2)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("NABLA_ABSENT_ROW", lambda tx: tx.delete("orders", rows=[(7, "no", D(1), None)])),
        ("NABLA_ABSENT_ROW", lambda tx: tx.delete("orders", rows=[(2, None, D(2), None)] * 3)),
        ("NABLA_WIDTH", lambda tx: tx.insert("orders", [(1, "a")])),
        ("NABLA_TYPE_MISMATCH", lambda tx: tx.insert("orders", [("one", "a", D(1), None)])),
        ("NABLA_TYPE_MISMATCH", lambda tx: tx.insert("orders", [(1.5, "a", D(1), None)])),
        ("NABLA_COLUMNS", lambda tx: tx.insert("orders", [{"id": 1, "nope": 2}])),
        ("NABLA_COLUMNS", lambda tx: tx.insert("orders", pa.table({"id": [1]}))),
        ("NABLA_ROWS", lambda tx: tx.insert("orders", "text")),
        ("NABLA_UNKNOWN_COLUMN", lambda tx: tx.delete("orders", where="nope = 1")),
        ("NABLA_UNKNOWN_COLUMN", lambda tx: tx.update("orders", set={"nope": "1"})),
        ("NABLA_SQL_SYNTAX", lambda tx: tx.delete("orders", where="id = = 1")),
        ("NABLA_DELETE", lambda tx: tx.delete("orders")),
        ("NABLA_UNKNOWN_TABLE", lambda tx: tx.insert("nope", [(1,)])),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(orders: Lake, code: str, change: object) -> None:
    before = rows(orders)
    with pytest.raises(NablaError) as caught, orders.transaction() as tx:
        tx.insert("orders", [(50, "kept out", D(1), None)])
        change(tx)  # type: ignore[operator]
    assert caught.value.code == code, caught.value
    assert caught.value.place
    assert caught.value.remedy
    assert rows(orders) == before
    assert orders.status()["orders"].version == 0


def test_a_row_deleted_before_it_comes_must_have_been_there(orders: Lake) -> None:
    with pytest.raises(NablaError, match="NABLA_ABSENT_ROW"), orders.transaction() as tx:
        tx.delete("orders", rows=[(8, "z", D(1), None)])
        tx.insert("orders", [(8, "z", D(1), None)])


def test_two_writers_of_one_table_lose_nothing(orders: Lake) -> None:
    with orders.transaction() as first:
        first.insert("orders", [(10, "first", D(1), None)])
        with orders.transaction() as second:
            second.insert("orders", [(11, "second", D(1), None)])
            second.delete("orders", where="id = 1")
        first.update("orders", set={"customer": "'both'"}, where="id = 2")
    assert [r[0] for r in rows(orders)] == [10, 11, 2, 2]


def test_names_and_types_that_delta_cannot_store(lake: Lake) -> None:
    lake.create_table("t", schema="`a b` INT, `sum(x)` STRING, c STRUCT<d: INT, e: ARRAY<STRING>>")
    with lake.transaction() as tx:
        tx.insert("t", [(1, "x", {"d": 1, "e": ["p", None]}), (2, None, None)])
        tx.update("t", set={"a b": "`a b` + 10"}, where="`sum(x)` = 'x'")
    assert lake.read("t").columns == ["a b", "sum(x)", "c"]
    assert [r[0] for r in rows(lake, "t")] == [11, 2]
    with pytest.raises(NablaError, match="NABLA_TYPE"):
        lake.create_table("u", schema="i INTERVAL DAY TO SECOND")


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("NABLA_EXISTS", {"name": "orders", "schema": "id INT"}),
        ("NABLA_EXISTS", {"name": "ORDERS", "schema": "id INT"}),
        ("NABLA_NAME", {"name": "a-b", "schema": "id INT"}),
        ("NABLA_NO_SCHEMA", {"name": "t"}),
        ("NABLA_NO_SCHEMA", {"name": "t", "data": [(1,)]}),
        ("NABLA_SCHEMA", {"name": "t", "schema": "id NOTATYPE"}),
        ("NABLA_DUPLICATE_COLUMN", {"name": "t", "schema": "a INT, A INT"}),
        ("NABLA_RESERVED_COLUMN", {"name": "t", "schema": "_version INT"}),
        ("NABLA_KEY", {"name": "t", "schema": "a INT", "key": "b"}),
        ("NABLA_FOREIGN_KEY", {"name": "t", "schema": "a INT", "foreign_keys": {"a": "orders.nope"}}),
    ],
)
def test_bad_tables_are_refused(orders: Lake, code: str, arguments: dict[str, object]) -> None:
    with pytest.raises(NablaError) as caught:
        orders.create_table(**arguments)  # type: ignore[arg-type]
    assert caught.value.code == code, caught.value
    assert list(orders.status()) == ["orders"]
