"""Tables whose deleted rows are marked: transactions, views, reads and undo are as if files were written anew."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from comparing import bag
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.storage import deletion_vectors, rewrite
from nabla.storage.table import Snapshot, StoredTable

pytestmark = pytest.mark.spark

SCHEMA = "id BIGINT, `group` STRING, amount INT"


def rows(count: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "group": [None if i % 7 == 0 else f"g{i % 5}" for i in range(count)],
            "amount": pa.array([i % 11 for i in range(count)], pa.int32()),
        }
    )


@pytest.fixture
def sales(lake: Lake) -> Lake:
    lake.create_table("sales", schema=SCHEMA, data=rows(10_000), key="id")
    lake.create_view("sums", "SELECT `group`, COUNT(*) AS n, SUM(amount) AS amount FROM sales GROUP BY `group`")
    return lake


def snapshot(lake: Lake, name: str = "sales") -> Snapshot:
    part = lake.context.log.state().entries[name].parts["data"]
    return StoredTable(lake.context.log.folder(part)).snapshot()


def hidden(lake: Lake) -> int:
    return sum(file.hidden.rows for file in snapshot(lake).files if file.hidden is not None)


def protocol(lake: Lake, name: str) -> dict[str, object]:
    log = Path(snapshot(lake, name).folder) / "_delta_log" / f"{0:020d}.json"
    (found,) = (line["protocol"] for line in map(json.loads, log.read_text().splitlines()) if "protocol" in line)
    return dict(found)


@pytest.mark.parametrize("inline", [True, False])
def test_views_and_reads_follow_marked_rows(sales: Lake, inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES", 1 << 30 if inline else 0)
    start = sales.version
    with sales.transaction() as tx:
        tx.delete("sales", where="id % 500 = 3")
        tx.update("sales", set={"amount": "amount + 100"}, where="id % 1000 = 4")
        tx.insert("sales", [(20_000, "new", 1)])
    assert hidden(sales) == 30
    with sales.transaction() as tx:
        tx.delete("sales", rows=[(5, "g0", 5)])
        tx.delete("sales", where="id BETWEEN 1004 AND 1005 OR id = 20000")
    assert hidden(sales) == 32
    sales.refresh()
    sales.verify()
    assert sales.read("sales").count() == sales.status()["sales"].rows == 10_000 - 20 - 1 - 2
    assert sales.read("sales").where("amount >= 100").count() == 9
    assert sales.read("sales", version=0).count() == 10_000
    assert sales.sql("SELECT COUNT(DISTINCT id) FROM sales WHERE id < 1000").first()[0] == 997  # type: ignore[index]
    change = sales.changes("sales", since=0).groupBy("_change_type").count().collect()
    assert {row["_change_type"]: row["count"] for row in change} == {"delete": 34, "insert": 11}
    sales.revert(start)
    sales.refresh()
    sales.verify()
    assert bag(sales.read("sales")) == Counter(tuple(row.values()) for row in rows(10_000).to_pylist())
    assert hidden(sales) == 0
    assert sales.fsck().sound
    sales.vacuum(older_than=datetime.timedelta(0))
    assert sales.read("sales").count() == 10_000
    assert not list(Path(snapshot(sales).folder).glob("*.bin"))


def test_random_conditions_delete_and_update_what_they_say(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MARKED_FROM", 0)
    rng = random.Random(5)
    held = Counter({(i % 40, i % 3): 2 for i in range(40)})
    data = [row for row, n in held.items() for _ in range(n)]
    lake.create_table("t", schema="id INT, x INT", data=data)
    for _ in range(4):
        with lake.transaction() as tx:
            for _ in range(3):
                a, b = rng.randrange(40), rng.randrange(3)
                kind = rng.choice(["delete", "update", "insert"])
                if kind == "delete":
                    tx.delete("t", where=f"id < {a} AND x = {b}")
                    held = Counter({row: n for row, n in held.items() if not (row[0] < a and row[1] == b)})
                elif kind == "update":
                    tx.update("t", set={"x": "(x + 1) % 3"}, where=f"id > {a}")
                    moved: Counter[tuple[int, ...]] = Counter()
                    for (i, x), n in held.items():
                        moved[(i, (x + 1) % 3) if i > a else (i, x)] += n
                    held = moved
                else:
                    tx.insert("t", [(a, b)])
                    held[(a, b)] += 1
        assert bag(lake.read("t")) == held


def test_a_condition_that_fails_on_a_deleted_row_holds_for_others(sales: Lake) -> None:
    with sales.transaction() as tx:
        tx.delete("sales", where="amount = 0 AND id % 11 = 0")
    assert hidden(sales) > 0
    with sales.transaction() as tx:
        tx.update("sales", set={"amount": "amount + 1"}, where="CAST(100 / amount AS INT) = 100")
    assert sales.read("sales").where("amount = 1").count() == 0
    with sales.transaction() as tx:
        tx.delete("sales", where="id % 11 = 0")
    assert sales.read("sales").count() == 10_000 - 910


def test_a_table_or_a_lake_can_do_without(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    lake.create_table("plain", schema=SCHEMA, data=rows(10_000), deletion_vectors=False)
    lake.create_table("marked", schema=SCHEMA)
    assert protocol(lake, "plain") == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert protocol(lake, "marked")["readerFeatures"] == ["deletionVectors"]
    with lake.transaction() as tx:
        tx.delete("plain", where="id = 7")
    assert all(file.hidden is None for file in snapshot(lake, "plain").files)
    assert lake.read("plain").count() == 9_999
    other = nabla.open(tmp_path / "without", spark=spark, deletion_vectors=False)
    other.create_table("t", schema=SCHEMA)
    assert protocol(other, "t") == {"minReaderVersion": 1, "minWriterVersion": 2}
    with pytest.raises(NablaError, match="NABLA_ARGUMENT"):
        nabla.open(tmp_path / "without", spark=spark, deletion_vectors=True)
