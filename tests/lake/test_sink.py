"""A stream's batches come into a table exactly once, as rows or as events of Debezium and of change data feeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from comparing import bag
from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

EVENTS = "op STRING, before STRUCT<id: INT, city: STRING>, after STRUCT<id: INT, city: STRING>, ts_ms BIGINT"


@pytest.fixture
def towns(lake: Lake) -> Lake:
    lake.create_table("towns", schema="id INT, city STRING, size INT", key="id", data=[(1, "Ulm", 7), (2, "Kiel", 8)])
    return lake


def rows(lake: Lake, table: str = "towns") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.read(table).collect()), key=repr)


def test_a_batch_that_comes_again_is_not_applied_again(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    lake.create_table("numbers", schema="x INT")
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    sink, seen = lake.sink("numbers"), []

    def twice(batch: Any, number: int) -> None:
        seen.append(number)
        sink(batch, number)
        sink(batch, number)

    for start in (0, 3):
        spark.createDataFrame([(start + i,) for i in range(3)], "x INT").write.mode("append").json(source.as_uri())
        stream = spark.readStream.schema("x INT").json(source.as_uri())
        writer = stream.writeStream.foreachBatch(twice).option("checkpointLocation", checkpoint.as_uri())
        writer.trigger(availableNow=True).start().awaitTermination()
    assert seen == [0, 1]
    assert rows(lake, "numbers") == [(x,) for x in range(6)]
    with pytest.raises(NablaError, match="NABLA_SINK"):
        sink(spark.createDataFrame([(1,)], "x INT"), 7)


def test_events_of_debezium_are_applied_by_key_in_their_order(towns: Lake, spark: SparkSession) -> None:
    sink = towns.sink("towns", envelope="debezium", query="towns")
    events = [
        ("u", (1, "Ulm"), (1, "Bern"), 5),
        ("u", (1, "Bern"), (1, "Genf"), 6),
        ("c", None, (3, "Rom"), 1),
        ("d", (3, "Rom"), None, 2),
        ("r", None, (4, "Bonn"), 3),
        ("u", (2, "Kiel"), (5, "Kiel"), 4),  # a new key
    ]
    sink(spark.createDataFrame(events, EVENTS), 0)
    assert rows(towns) == [(1, "Genf", 7), (4, "Bonn", None), (5, "Kiel", None)]
    sink(spark.createDataFrame([("d", (1, "Genf"), None, 9)], EVENTS), 0)  # the same batch again
    sink(spark.createDataFrame([("d", (4, "Bonn"), None, 9)], EVENTS), 1)
    assert rows(towns) == [(1, "Genf", 7), (5, "Kiel", None)]


def test_a_feed_of_one_table_is_applied_to_another(towns: Lake, spark: SparkSession) -> None:
    towns.create_table("copy", schema="id INT, city STRING, size INT", key="id")
    sink = towns.sink("copy", envelope="delta", query="copy")
    with towns.transaction() as tx:
        tx.upsert("towns", [{"id": 1, "size": 9}, {"id": 3, "city": "Rom"}])
        tx.delete("towns", where="id = 2")
    sink(towns.changes("towns", since=0, pairs=True), 0)
    assert rows(towns, "copy") == [(1, "Ulm", 9), (3, "Rom", None)]
    delta = "id INT, city STRING, size INT, _change_type STRING, _commit_version INT, _commit_timestamp TIMESTAMP"
    events = [
        (1, "Ulm", 9, "update_preimage", 2, None),
        (1, "Ulm", 10, "update_postimage", 2, None),
        (3, "Rom", None, "delete", 2, None),
        (3, "Rom", 5, "insert", 2, None),
        (1, "Ulm", 11, "update_postimage", 3, None),
        (1, "Ulm", 10, "update_preimage", 3, None),
    ]
    sink(spark.createDataFrame(events, delta), 1)
    assert bag(towns.read("copy")) == {(1, "Ulm", 11): 1, (3, "Rom", 5): 1}


@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("NABLA_CDC_EVENT", ("c", None, (None, "Rom"), 1)),
        ("NABLA_CDC_EVENT", ("t", None, None, 1)),
    ],
)
def test_an_event_that_cannot_be_applied_changes_nothing(
    towns: Lake, spark: SparkSession, code: str, event: Any
) -> None:
    version, sink = towns.version, towns.sink("towns", envelope="debezium", query="q")
    with pytest.raises(NablaError, match=code):
        sink(spark.createDataFrame([event], EVENTS), 0)
    with pytest.raises(NablaError, match="NABLA_CDC_EVENT"):
        sink(spark.createDataFrame([(1, "x")], "id INT, city STRING"), 0)
    with pytest.raises(NablaError, match="NABLA_SINK"):
        towns.sink("towns", mode="append", envelope="delta")
    assert towns.version == version


def test_the_feed_of_a_table_is_a_stream_whose_offsets_are_versions(
    towns: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    got: list[Any] = []

    def run() -> list[Any]:
        source = spark.readStream.format("nabla").option("lake", towns.path).load("towns")
        columns = source.select("id", "size", "_change_type", "_version")
        writer = columns.writeStream.foreachBatch(lambda rows, _: got.extend(map(tuple, rows.collect())))
        writer = writer.option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
        writer.trigger(availableNow=True).start().awaitTermination()
        found, got[:] = sorted(got), []
        return found

    assert run() == [(1, 7, "insert", 0), (2, 8, "insert", 0)]
    with towns.transaction() as tx:
        tx.update("towns", set={"size": "9"}, where="id = 2")
    assert run() == [(2, 8, "delete", 1), (2, 9, "insert", 1)]
    assert run() == []
    batch = spark.read.format("nabla").option("lake", towns.path).option("since", 0).load("towns")
    assert bag(batch.select("id", "_change_type")) == {(2, "delete"): 1, (2, "insert"): 1}
