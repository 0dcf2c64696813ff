"""Tables that others write, move and change: only what reads them is concerned, and says what to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from comparing import bag, refreshed
from delta_foreign import allow, delete_by_vector, store_vector
from deltalake import DeltaTable, Schema, write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, LongType, StructField, StructType

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.storage.catalog import Entry, Part

pytestmark = pytest.mark.spark


@pytest.fixture
def events(lake: Lake, tmp_path: Path) -> Path:
    """A table of others with a view over it, beside a table of the lake with a view of its own."""
    folder = tmp_path / "events"
    write_deltalake(folder, pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]}))
    lake.register("events", folder)
    lake.create_table("orders", schema="id INT", data=[(1,), (2,)])
    lake.create_view("by_day", "SELECT day, COUNT(*) AS n FROM events GROUP BY day")
    lake.create_view("total", "SELECT COUNT(*) AS n FROM orders")
    return folder


def test_a_table_that_is_away_concerns_only_what_reads_it(lake: Lake, events: Path, tmp_path: Path) -> None:
    spark = lake.spark
    shutil.move(events, tmp_path / "moved")
    with lake.transaction() as tx:
        tx.insert("orders", [(3,)])
    status = lake.status()
    assert "away" in status["events"].problem
    assert "away" in str(status)
    assert (status["total"].stale, status["by_day"].stale) == (True, False)
    report = lake.refresh()
    assert (report["total"].mode, report["by_day"].mode) == ("incremental", "held")
    assert "NABLA_AWAY" in report["by_day"].reason
    assert lake.sql("SELECT n FROM total").first()[0] == 3
    assert spark.table("orders").count() == 3
    lake.create_view("more", "SELECT id + 1 AS next FROM orders")
    assert bag(lake.read("by_day")) == {("a", 2): 1, ("b", 1): 1}
    for reading in (
        lambda: lake.refresh("by_day"),
        lambda: lake.read("events"),
        lambda: lake.sql("SELECT * FROM events"),
        lambda: lake.create_view("other", "SELECT id FROM events"),
    ):
        with pytest.raises(NablaError) as away:
            reading()
        assert (away.value.code, away.value.place) == ("NABLA_AWAY", str(events))
    with pytest.raises(AnalysisException, match="NABLA_AWAY"):
        spark.table("events")
    shutil.move(tmp_path / "moved", events)
    assert refreshed(lake)["by_day"].mode == "skip"
    assert spark.table("events").count() == 3


def test_a_column_that_another_writer_adds_is_followed(lake: Lake, events: Path) -> None:
    wider = pa.table({"more": [1], "id": [4], "day": ["b"]})
    write_deltalake(events, wider, mode="append", schema_mode="merge")
    assert lake.spark.table("events").columns == ["id", "day"]
    assert lake.read("events").columns == ["id", "day"]
    assert refreshed(lake)["by_day"].mode == "incremental"
    assert bag(lake.read("by_day")) == {("a", 2): 1, ("b", 2): 1}
    assert lake.spark.table("events").columns == ["id", "day", "more"]
    lake.create_view("unrelated", "SELECT id FROM orders")
    DeltaTable(events).delete("id = 1")
    lake.register("events", events)
    assert lake.spark.table("events").columns == ["id", "day", "more"]
    assert refreshed(lake)["by_day"].mode == "incremental"
    lake.create_view("with_more", "SELECT id, more FROM events")
    assert bag(lake.read("with_more")) == {(2, None): 1, (3, None): 1, (4, 1): 1}


def test_a_column_that_is_gone_is_an_error_of_what_reads_the_table(lake: Lake, events: Path) -> None:
    write_deltalake(events, pa.table({"id": [1]}), mode="overwrite", schema_mode="overwrite")
    report = lake.refresh()
    assert (report["total"].mode, report["by_day"].mode) == ("skip", "held")
    assert lake.sql("SELECT * FROM orders").count() == 2
    assert "NABLA_SCHEMA_CHANGED" in lake.status()["events"].problem
    for refused in (lambda: lake.refresh("by_day"), lambda: lake.register("events", events)):
        with pytest.raises(NablaError, match="NABLA_SCHEMA_CHANGED"):
            refused()
    lake.drop_view("by_day")
    lake.drop_table("events")
    lake.register("events", events)
    assert lake.sql("SELECT * FROM events").count() == 1


@pytest.mark.parametrize("versions", [1, 3])
def test_a_table_that_was_created_again_is_not_taken_for_a_change(lake: Lake, events: Path, versions: int) -> None:
    write_deltalake(events, pa.table({"id": [4], "day": ["b"]}), mode="append")
    refreshed(lake)
    shutil.rmtree(events)
    for _ in range(versions):
        write_deltalake(events, pa.table({"id": [9], "day": ["z"]}), mode="append")
    report = lake.refresh()
    assert (report["by_day"].mode, report["total"].mode) == ("full", "skip")
    assert "NABLA_REPLACED" in report["by_day"].reason
    assert bag(lake.read("by_day")) == {("z", versions): 1}
    assert refreshed(lake)["by_day"].mode == "skip"
    if versions > 1:  # restored by a new version of its own log: a change like any other
        DeltaTable(events).restore(0)
        assert refreshed(lake)["by_day"].mode == "incremental"


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_a_view_is_recomputed_when_deletion_vectors_were_vacuumed(
    lake: Lake, spark: SparkSession, tmp_path: Path, mode: Any
) -> None:
    folder = tmp_path / "events"
    write_deltalake(folder, pa.table({"id": [1, 2, 3], "day": ["a", "a", "b"]}))
    allow(folder, ["deletionVectors"], {"delta.enableDeletionVectors": "true"})
    path = DeltaTable(folder).file_uris()[0].rsplit("/", 1)[1]
    delete_by_vector(folder, 1, path, [0], before=[])
    store_vector(folder, 1, "add", "vector.bin")
    lake.register("events", folder)
    lake.create_view("by_day", "SELECT day, COUNT(*) AS n FROM events GROUP BY day")
    assert bag(lake.read("by_day")) == {("a", 1): 1, ("b", 1): 1}
    delete_by_vector(folder, 2, path, [0, 1], before=[0])
    store_vector(folder, 2, "remove", "vector.bin")
    (folder / "vector.bin").unlink()
    lake = nabla.open(lake.path, spark=spark)  # whoever has seen the vector may remember it
    report = lake.refresh(mode=mode)
    assert report["by_day"].mode == "full", report["by_day"].reason
    assert bag(lake.read("by_day")) == {("b", 1): 1}
    lake.verify("by_day")


def test_a_table_of_many_levels_concerns_only_what_reads_it(lake: Lake) -> None:
    lake.create_table("orders", schema="id INT", data=[(1,), (2,)])
    lake.create_table("deep", schema=_deep(60))
    assert lake.sql("SELECT id FROM deep").count() == 0
    with pytest.raises(NablaError, match="NABLA_TYPE"):
        lake.create_table("deeper", schema=_deep(70))
    _put_table(lake, "deeper", _deep(70).json())
    assert lake.sql("SELECT id FROM orders").count() == 2
    assert lake.status()["deeper"].kind == "table"
    with pytest.raises(NablaError, match="NABLA_TYPE"):
        lake.sql("SELECT id FROM deeper")


def _deep(levels: int) -> StructType:
    deep: DataType = LongType()
    for _ in range(levels):
        deep = ArrayType(deep)
    return StructType([StructField("id", LongType()), StructField("deep", deep)])


def _put_table(lake: Lake, name: str, schema: str) -> None:
    """Make a table as versions of Nabla did that did not look at the depth of types."""
    log = lake.context.log
    path = log.new_path(name)
    DeltaTable.create(log.folder(path), Schema.from_json(schema))
    definition = {"schema": schema, "key": [], "foreign_keys": {}}
    entry = Entry(name, "table", definition, {"data": Part(path, 0)}, {"rows": 0})
    log.commit({name: entry}, log.state(), "create table")


def test_columns_that_others_rename_add_and_drop_are_followed_by_name_in_the_files(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "mapped"
    write_deltalake(folder, pa.table({"id": [1, 2], "day": ["a", "b"], "size": [1, 2], "more": [5, 6]}))
    lake.register("events", folder)
    lake.create_view("by_day", "SELECT day, SUM(size) AS total FROM events GROUP BY day")
    lake.create_view("every", "SELECT * FROM events WHERE size > 0")
    lake.create_view("ids", "SELECT id FROM events")
    map_columns(folder, {"id": "id", "when": "day", "size": "size", "more": "more", "extra": "col-1"})
    report = refreshed(lake, "by_day", "every", "ids")
    assert {done.mode for done in report.values()} <= {"incremental", "skip"}
    assert lake.read("events").columns == ["id", "when", "size", "more", "extra"]
    assert lake.read("every").columns == ["id", "day", "size", "more"]
    lake.create_view("new", "SELECT when, extra FROM events")
    lake.drop_view("every")
    map_columns(folder, {"id": "id", "when": "day", "extra": "col-1"})
    report = lake.refresh()
    assert {name: done.mode for name, done in report.items()} == {
        "by_day": "held",
        "ids": "incremental",
        "new": "incremental",
    }
    assert '"by_day" reads column "size" of "events"' in report["by_day"].reason
    assert bag(lake.read("by_day")) == {("a", 1): 1, ("b", 2): 1}
    lake.alter_view("by_day", "SELECT id, COUNT(*) AS n FROM ids GROUP BY id")
    lake.refresh()
    assert lake.read("events").columns == ["id", "when", "extra"]
    lake.verify()


def map_columns(folder: Path, columns: dict[str, str]) -> None:
    """Commit a schema with a column mapping, as `ALTER TABLE` of others does: the names in the files by the new ones."""
    table = DeltaTable(folder)
    version = table.version() + 1
    kinds = {"id": "long", "size": "long", "more": "long"}
    fields = [
        {
            "name": name,
            "type": kinds.get(name, "string"),
            "nullable": True,
            "metadata": {"delta.columnMapping.id": place + 1, "delta.columnMapping.physicalName": stored},
        }
        for place, (name, stored) in enumerate(columns.items())
    ]
    features = ["columnMapping"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    described = {
        "id": table.metadata().id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "createdTime": 0,
        "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"},
    }
    actions = [{"commitInfo": {"timestamp": 0}}, {"protocol": protocol}, {"metaData": described}]
    commit = folder / "_delta_log" / f"{version:020d}.json"
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
