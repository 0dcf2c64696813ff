"""Delta's change data feed beside a table: other readers get the minimal change of every commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import nabla
from nabla.dev.testing.write_histories import ARROW, SHAPE
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.storage import rewrite
from nabla.storage.catalog import format_of

ROWS = [(i, i % 3, f"n{i}") for i in range(40)]


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], ARROW)


def folder(lake: Lake) -> str:
    return lake.context.log.folder(lake.context.log.state().entries["t"].parts["data"])


def feed(lake: Lake, since: int) -> list[Counter[tuple[Any, ...]]]:
    """The feed as delta-rs reads it, by version."""
    read = pa.table(DeltaTable(folder(lake)).load_cdf(starting_version=since))
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for row in read.to_pylist():
        values = (row["_change_type"], *(row[name] for name in ARROW.names))
        found.setdefault(row["_commit_version"], Counter())[values] += 1
    return [found[version] for version in sorted(found)]


@pytest.mark.parametrize("marks", [True, False])
def test_other_readers_get_the_minimal_change(tmp_path: Path, marks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MARKED_FROM", 1)
    lake = nabla.open(tmp_path / "lake")
    lake.create_table("t", SHAPE, table(ROWS), key="id", feed="delta", deletion_vectors=marks)
    assert format_of(lake.context.log.state().entries) == 5
    first = lake.version
    with lake.transaction() as tx:
        tx.insert("t", [(100, 0, "new"), (100, 0, "new")])
    with lake.transaction() as tx:
        tx.delete("t", rows=[ROWS[3], (100, 0, "new")])
        tx.insert("t", [(3, 7, None), ROWS[5]])
        tx.delete("t", rows=[ROWS[5]])
    lake.revert(first)
    assert feed(lake, 1) == [
        Counter({("insert", 100, 0, "new"): 2}),
        Counter([("delete", *ROWS[3]), ("delete", 100, 0, "new"), ("insert", 3, 7, None)]),
        Counter([("delete", 100, 0, "new"), ("insert", *ROWS[3]), ("delete", 3, 7, None)]),
    ]
    lake.vacuum()
    assert len(feed(lake, 1)) == 3, "a vacuum with its usual grace keeps the feed"


def test_a_feed_of_another_kind_is_refused(tmp_path: Path) -> None:
    lake = nabla.open(tmp_path / "lake")
    with pytest.raises(NablaError, match="NABLA_ARGUMENT"):
        lake.create_table("t", SHAPE, feed="kafka")  # type: ignore[arg-type]
    assert not lake.status()
