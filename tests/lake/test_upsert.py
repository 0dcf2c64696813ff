"""Rows by key: upsert and replace change what differs, whatever form the rows come in."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from comparing import bag
from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


class Stream:
    """Rows of somebody else, who hands out Arrow's C stream and nothing more."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def people(lake: Lake) -> Lake:
    data = [(1, "Ada", "Ulm"), (2, "Bo", "Kiel"), (3, None, "Bonn")]
    lake.create_table("people", schema="id BIGINT NOT NULL, name STRING, city STRING", key="id", data=data)
    return lake


def rows(lake: Lake, table: str = "people") -> dict[Any, tuple[Any, ...]]:
    return {row[0]: tuple(row)[1:] for row in lake.read(table).collect()}


def test_an_upsert_changes_only_what_differs_and_keeps_columns_that_are_not_given(
    people: Lake, spark: SparkSession
) -> None:
    with people.transaction() as tx:
        tx.upsert("people", [(1, "Ada", "Ulm"), (2, "Bo", "Rom"), (4, "Di", None)])
        tx.upsert("people", [{"id": 3, "name": "Cy"}, {"ID": 1, "city": "Wien"}, {"id": 5, "city": "Jena"}])
        tx.upsert("people", Stream(pa.table({"city": ["Trier"], "id": [4]})))
        tx.upsert("people", duckdb.sql("SELECT 6 AS id, 'Fay' AS name, 'Graz' AS city"))
        tx.upsert("people", spark.createDataFrame([(6, "Fee")], "id INT, name STRING"))
    assert rows(people) == {
        1: ("Ada", "Wien"),
        2: ("Bo", "Rom"),
        3: ("Cy", "Bonn"),
        4: ("Di", "Trier"),
        5: (None, "Jena"),
        6: ("Fee", "Graz"),
    }
    version = people.version
    with people.transaction() as tx:
        tx.upsert("people", [(2, "Bo", "Rom"), (2, "Bo", "Rom")])  # the same row twice is one row
    assert people.version == version


def test_rows_that_say_so_delete_their_keys(people: Lake, spark: SparkSession) -> None:
    with people.transaction() as tx:
        events = [{"id": 1, "op": "d"}, {"id": 2, "op": "u", "city": "Köln"}, {"id": 9, "op": "d"}]
        tx.upsert("people", events, delete_when="op = 'd'")
    assert rows(people) == {2: ("Bo", "Köln"), 3: (None, "Bonn")}
    change = bag(people.changes("people", since=0).select("id", "city", "_change_type"))
    assert change == {(1, "Ulm", "delete"): 1, (2, "Kiel", "delete"): 1, (2, "Köln", "insert"): 1}
    with people.transaction() as tx:
        frame = spark.createDataFrame([(2, True, None), (3, None, "x")], "id INT, gone BOOLEAN, name STRING")
        tx.upsert("people", frame, delete_when="gone")
    assert rows(people) == {3: ("x", "Bonn")}


def test_a_replacement_is_minimal_and_can_be_repeated(people: Lake, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(7, "Gil", "Kiel")], "id INT, name STRING, city STRING")
    for given in ([(2, "Bo", "Kiel"), (7, "Gil", "Kiel")], frame):
        with people.transaction() as tx:
            tx.replace("people", given, where="city = 'Kiel'")
    assert rows(people) == {1: ("Ada", "Ulm"), 3: (None, "Bonn"), 7: ("Gil", "Kiel")}
    assert people.status()["people"].version == 2
    with pytest.raises(NablaError, match="NABLA_REPLACE"), people.transaction() as tx:
        tx.replace("people", [(8, "Hu", "Rom")], where="city = 'Kiel'")
    with people.transaction() as tx:
        tx.replace("people", [(1, "Ada", "Ulm")])
    change = bag(people.changes("people", since=2).select("id", "_change_type"))
    assert change == {(3, "delete"): 1, (7, "delete"): 1}


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("NABLA_CARDINALITY", lambda tx: tx.upsert("people", [(1, "a", "b"), (1, "a", "c")])),
        ("NABLA_CARDINALITY", lambda tx: tx.upsert("people", [{"id": 1, "op": 1}, {"id": 1, "op": 0}], "op = 1")),
        ("NABLA_COLUMNS", lambda tx: tx.upsert("people", [{"name": "a"}])),
        ("NABLA_COLUMNS", lambda tx: tx.upsert("people", [{"id": 1, "nmae": "a"}])),
        ("NABLA_COLUMNS", lambda tx: tx.upsert("people", pa.table({"id": [1], "nmae": ["a"]}))),
        ("NABLA_TYPE_MISMATCH", lambda tx: tx.upsert("people", [(None, "a", "b")])),
        ("NABLA_TYPE_MISMATCH", lambda tx: tx.upsert("people", [("one", "a", "b")])),
        ("NABLA_WIDTH", lambda tx: tx.upsert("people", [(1, "a")])),
        ("NABLA_ROWS", lambda tx: tx.upsert("people", "rows")),
        ("NABLA_UNKNOWN_COLUMN", lambda tx: tx.upsert("people", [{"id": 1}], delete_when="op = 1")),
        ("NABLA_NO_KEY", lambda tx: tx.upsert("bag", [(1,)])),
    ],
)
def test_a_bad_upsert_is_refused_and_changes_nothing(people: Lake, code: str, change: Any) -> None:
    people.create_table("bag", schema="x INT")
    version = people.version
    with pytest.raises(NablaError) as refused, people.transaction() as tx:
        change(tx)
    assert refused.value.code == code
    assert people.version == version


def test_random_upserts_give_what_a_dict_gives(lake: Lake) -> None:
    """Keys of two columns, NULLs among them; the recorded change is the minimal one, and a view follows."""
    lake.create_table("t", schema="a INT, b STRING, x INT, y INT", key=["a", "b"])
    lake.create_view("sums", "SELECT a, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY a", maintain="immediate")
    chance, held = random.Random(7), {}
    for step in range(12):
        before = dict(held)
        with lake.transaction() as tx:
            for _ in range(chance.randint(1, 3)):
                keys = {(chance.choice([None, *range(4)]), chance.choice([None, "p", "q"])) for _ in range(5)}
                events = []
                for a, b in keys:
                    kind = chance.choice("xyb-")
                    given = {"x": chance.randint(0, 3)} if kind in "xb" else {}
                    given |= {"y": chance.randint(0, 3)} if kind in "yb" else {}
                    events.append({"a": a, "b": b, "gone": kind == "-", **given})
                    if kind == "-":
                        held.pop((a, b), None)
                    else:
                        held[a, b] = {**held.get((a, b), {"x": None, "y": None}), **given}
                tx.upsert("t", events, delete_when="gone")
        assert rows_of(lake) == held, f"step {step}"
        version = lake.status()["t"].version
        change = bag(lake.changes("t", since=version - 1).select("a", "b", "x", "y", "_change_type"))
        if before != held:
            gone = {(*k, *v.values(), "delete"): 1 for k, v in before.items() if held.get(k) != v}
            came = {(*k, *v.values(), "insert"): 1 for k, v in held.items() if before.get(k) != v}
            assert change == gone | came
    fresh = lake.sql("SELECT a, SUM(x) AS x, COUNT(*) AS n FROM t GROUP BY a", views="never")
    assert bag(lake.read("sums")) == bag(fresh)


def rows_of(lake: Lake) -> dict[Any, Any]:
    found = lake.read("t").collect()
    assert len(found) == len({row[:2] for row in found})
    return {(row.a, row.b): {"x": row.x, "y": row.y} for row in found}
