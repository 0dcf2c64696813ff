"""Conditions are answered by DuckDB, by Spark's driver or by its executors, and always change the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from comparing import bag

from nabla.dev.bench.suite import changed_rows
from nabla.engine.spark.metrics import JobGroup
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.lake.write import write_change
from nabla.lake.write.transaction import Transaction
from nabla.storage import rewrite

pytestmark = pytest.mark.spark

Row = tuple[Any, ...]
ROWS: list[Row] = [(i, None if i % 9 == 0 else i % 7, f"n{i % 13}") for i in range(600)]


def make(lake: Lake, name: str, marks: bool) -> None:
    lake.create_table(name, "id INT, a INT, `the name` STRING", ROWS, key="id", deletion_vectors=marks)


def jobs(lake: Lake, name: str, work: Callable[[], object]) -> int:
    group = JobGroup(lambda: lake.spark, name, name)
    group.begin()
    work()
    return group.jobs


def files(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


def commit(lake: Lake, *steps: Callable[[Transaction], None]) -> None:
    with lake.transaction() as tx:
        for step in steps:
            step(tx)


@pytest.mark.parametrize("marks", [True, False])
def test_many_rows_are_changed_by_executors(lake: Lake, marks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_change, "MOST_ON_DRIVER", 50)
    monkeypatch.setattr(rewrite, "MARKED_FROM", 10)
    make(lake, "t", marks)
    lake.create_view("sums", "SELECT a, COUNT(*) AS n, SUM(id) AS s FROM t GROUP BY a")
    expected = Counter(ROWS)
    before = lake.version

    commit(lake, lambda tx: tx.update("t", {"A": "a + 1", "the name": "concat('u', id)"}, "id % 2 = 0"))
    expected = Counter(
        (i, (a if a is None else a + 1) if i % 2 == 0 else a, f"u{i}" if i % 2 == 0 else n) for i, a, n in ROWS
    )
    assert bag(lake.read("t")) == expected
    assert changed_rows(lake, "t") == 600
    assert lake.refresh()["sums"].mode == "incremental"
    lake.verify()

    if not marks:
        return
    commit(
        lake,
        lambda tx: tx.insert("t", [(-1, 5, "new"), (-2, 5, "new")]),
        lambda tx: tx.delete("t", where="id % 3 = 0 OR id = -1"),
        lambda tx: tx.update("t", {"a": 0}, where="id % 3 = 1"),
        lambda tx: tx.insert("t", [(-4, 5, "new")]),
        lambda tx: tx.delete("t", where="`the name` = 'new' AND id > -4"),
    )
    left = [row for row in expected.elements() if row[0] % 3]
    expected = Counter([(i, 0 if i % 3 == 1 else a, n) for i, a, n in left] + [(-4, 5, "new")])
    assert bag(lake.read("t")) == expected
    assert lake.refresh()["sums"].mode in ("incremental", "full")
    lake.verify()

    with lake.transaction() as tx:  # what is previewed and read stays in the transaction, and is not lost by it
        tx.delete("t", where="id % 2 = 1")
        assert tx.read("t").count() == sum(1 for row in expected if row[0] % 2 != 1)
        assert lake.preview(tx)["t"].deleted
        tx.insert("t", [(-5, None, "x")])
    assert bag(lake.read("t")) == Counter([row for row in expected if row[0] % 2 != 1] + [(-5, None, "x")])
    lake.revert(before)
    assert bag(lake.read("t")) == Counter(ROWS)


def test_a_large_change_that_is_refused_leaves_no_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_change, "MOST_ON_DRIVER", 50)
    monkeypatch.setattr(rewrite, "MARKED_FROM", 10)
    make(lake, "t", marks=True)
    folder = lake.context.log.folder(lake.context.log.state().entries["t"].parts["data"])
    before = files(folder)
    with pytest.raises(NablaError, match="NABLA_TYPE_MISMATCH"):
        commit(lake, lambda tx: tx.update("t", {"a": "id * 2000000000L"}, where="id % 2 = 0"))
    with pytest.raises(RuntimeError), lake.transaction() as tx:
        tx.delete("t", where="id % 2 = 0")
        raise RuntimeError
    assert files(folder) == before
    with lake.transaction() as tx:
        tx.delete("t", where="id % 2 = 0")
        commit(lake, lambda other: other.insert("t", [(1000, 1, "other"), (1001, 1, "other")]))
    assert lake.read("t").count() == 301  # one of the other's rows is deleted, too
    part = lake.context.log.state().entries["t"].parts["data"]
    commits = lake.context.log.table(part).commits(-1, part.version)
    named = {path for made in commits if made is not None for path in made.adds}
    data = (name for name in files(folder) if name.endswith(".parquet") and "/_changes/" not in name)
    assert {name.rpartition("/")[2] for name in data} == named


def test_given_rows_are_deleted_by_executors_as_often_as_they_are_given(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_change, "MOST_ON_DRIVER", 5)
    monkeypatch.setattr(rewrite, "MARKED_FROM", 10)
    rows = [(1, 0.0, None), (1, -0.0, None), (1, 0.0, None), (2, float("nan"), "x"), (None, 1.5, "y"), (None, 1.5, "y")]
    lake.create_table("t", "id INT, d DOUBLE, s STRING", rows + [(i, 1.0, "z") for i in range(20)])
    gone = [(1, 0.0, None), (1, 0.0, None), (2, float("nan"), "x"), (None, 1.5, "y"), (3, 1.0, "z"), (4, 1.0, "z")]
    frame = lake.spark.createDataFrame(gone, "id INT, d DOUBLE, s STRING")
    commit(lake, lambda tx: tx.delete("t", rows=frame))
    left = Counter(tuple(r) for r in lake.read("t").where("s IS NULL OR s <> 'z'").collect())
    assert left == Counter([(1, 0.0, None), (None, 1.5, "y")])
    assert lake.read("t").count() == 20
    with pytest.raises(NablaError, match="NABLA_ABSENT_ROW"):
        commit(lake, lambda tx: tx.delete("t", rows=frame))
    assert lake.read("t").count() == 20


def test_few_rows_are_found_without_a_job(lake: Lake) -> None:
    make(lake, "t", marks=True)
    made = [
        lambda tx: tx.delete("t", where="id BETWEEN 10 AND 12 OR a = 3 AND id < 20"),
        lambda tx: tx.update(
            "t", {"a": "a * 2", "the name": "concat('x', 'y')"}, where="id IN (100, 101) AND a IS NOT NULL"
        ),
        lambda tx: tx.delete("t", where="`the name` = 'n1' AND id >= 590"),
        lambda tx: tx.delete("t", where="id > 100000"),
    ]
    ran = [jobs(lake, f"few {number}", lambda step=step: commit(lake, step)) for number, step in enumerate(made)]
    assert ran == [0, 0, 0, 0]
    gone = [r for r in ROWS if 10 <= r[0] <= 12 or (r[1] == 3 and r[0] < 20) or (r[2] == "n1" and r[0] >= 590)]
    expected = Counter(ROWS) - Counter(gone)
    changed = [r for r in expected if r[0] in (100, 101) and r[1] is not None]
    expected = expected - Counter(changed) + Counter((i, a * 2, "xy") for i, a, _ in changed)
    assert bag(lake.read("t")) == expected


def test_conditions_mean_what_they_mean_to_spark(lake: Lake) -> None:
    """Whoever answers: NULL is not true, divisions by zero fail, and a value that does not fit is refused."""
    make(lake, "t", marks=True)
    for where, error in (("1 / (id - id) = 1", "Division by zero"), ("nowhere = 1", "NABLA_UNKNOWN_COLUMN")):
        with pytest.raises(NablaError, match=error):
            commit(lake, lambda tx, where=where: tx.delete("t", where=where))
    with pytest.raises(NablaError, match="NABLA_TYPE_MISMATCH"):
        commit(lake, lambda tx: tx.update("t", {"a": "id + 3000000000L"}, where="id = 5"))
    commit(lake, lambda tx: tx.update("t", {"the name": "NULL"}, where="id = 5"))
    assert [tuple(row) for row in lake.read("t").where("id = 5").collect()] == [(5, 5, None)]
    commit(lake, lambda tx: tx.delete("t", where="NOT a = 3"))
    assert bag(lake.read("t")) == Counter(r for r in ROWS if r[1] in (None, 3))
