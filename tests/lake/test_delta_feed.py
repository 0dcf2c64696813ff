"""Views and large changes keep Delta's change data feed, too: delta-rs reads the minimal change of every commit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from nabla.lake.facade import Lake
from nabla.lake.write import write_change
from nabla.storage import rewrite

pytestmark = pytest.mark.spark

Bag = Counter[tuple[Any, ...]]


def newest(lake: Lake, name: str) -> Bag:
    """The change of the newest version, as delta-rs reads it."""
    part = lake.context.log.state().entries[name].parts["data"]
    read = pa.table(DeltaTable(lake.context.log.folder(part)).load_cdf(starting_version=part.version))
    columns = [c for c in read.column_names if not c.startswith("_commit")]
    return Counter(
        tuple(row[c] for c in ("_change_type", *(c for c in columns if c != "_change_type")))
        for row in read.to_pylist()
    )


def test_views_and_large_changes_have_a_feed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_change, "MOST_ON_DRIVER", 20)
    monkeypatch.setattr(rewrite, "MARKED_FROM", 10)
    lake.create_table("t", "id INT, a INT", [(i, i % 4) for i in range(100)], feed="delta", cluster_by="a")
    lake.create_view("sums", "SELECT a, COUNT(*) AS n FROM t GROUP BY a", feed="delta")
    first = lake.version
    with lake.transaction() as tx:  # of 50 rows that it writes anew, 25 stay as they are
        tx.update("t", {"a": "CASE WHEN a = 0 THEN 2 ELSE a END"}, where="a IN (0, 2)")
    gone = [i for i in range(100) if i % 4 == 0]
    assert newest(lake, "t") == Counter([("delete", i, 0) for i in gone] + [("insert", i, 2) for i in gone])
    lake.refresh(mode="incremental")
    assert newest(lake, "sums") == Counter([("delete", 0, 25), ("delete", 2, 25), ("insert", 2, 50)])
    with lake.transaction() as tx:
        tx.insert("t", lake.spark.range(3).selectExpr("CAST(id AS INT) AS id", "7 AS a"))
    lake.refresh(mode="full")
    assert newest(lake, "sums") == Counter([("insert", 7, 3)])
    lake.revert(first)
    assert newest(lake, "sums") == Counter([("insert", 0, 25), ("insert", 2, 25), ("delete", 2, 50), ("delete", 7, 3)])
    lake.verify()
    assert lake.context.log.snapshot(lake.context.log.state().entries["t"].parts["data"]).rows == 100
