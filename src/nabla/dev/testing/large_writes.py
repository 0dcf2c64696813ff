"""Large writes with a small driver: `python -m nabla.dev.testing.large_writes --rows 10000000 --memory 1g`.

A table of so many rows is loaded, half of it updated, a third deleted, and half as many rows inserted, by a Spark whose
driver has little memory. The outcome is compared with what arithmetic says, and the memory of this process, which is the other
half of the driver, must stay below what the rows would take.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import nabla
from nabla.engine.spark.session import build_session
from nabla.lake.facade import Lake

GROWTH = 200 << 20
"""Bytes by which this process may grow, whatever the number of rows."""
COLUMNS = ("id", "id % 1000 AS g", "CAST(id AS DECIMAL(15,2)) AS amount", "concat('name ', id) AS name")


def resident() -> int:
    """The memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Peak:
    """Watches the memory of this process."""

    def __init__(self) -> None:
        self.most = self.first = resident()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.most = max(self.most, resident())
            time.sleep(0.05)


def run(lake: Lake, rows: int) -> None:
    """All kinds of large writes. AssertionError where the table is not what arithmetic says."""
    frame = lake.spark.range(rows).selectExpr(*COLUMNS)
    _timed("load", lambda: lake.create_table("t", data=frame))
    _timed("update of half", lambda: _update(lake))
    expected = rows * (rows - 1) // 2 + rows // 2 + rows % 2
    _check(lake, rows, expected)
    _timed("deletion of a third", lambda: _delete(lake))
    left = [(first, len(range(first, rows, 6))) for first in (1, 2, 4, 5)]
    ids = sum(count * first + 6 * (count * (count - 1) // 2) for first, count in left)
    kept = sum(count for _, count in left)
    _check(lake, kept, ids + sum(count for first, count in left if first % 2 == 0))
    _timed("insertion of half as many", lambda: _insert(lake, rows // 2))
    assert lake.read("t").count() == kept + rows // 2


def _update(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.update("t", {"amount": "amount + 1"}, where="id % 2 = 0")


def _delete(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.delete("t", where="id % 3 = 0")


def _insert(lake: Lake, rows: int) -> None:
    with lake.transaction() as tx:
        tx.insert("t", lake.spark.range(rows).selectExpr(*COLUMNS))


def _check(lake: Lake, rows: int, amount: int) -> None:
    found = lake.read("t").selectExpr("COUNT(*)", "SUM(amount)").first()
    assert found is not None
    assert (found[0], int(found[1])) == (rows, amount), f"{found} instead of {rows} rows and {amount}"


def _timed(what: str, work: Callable[[], object]) -> None:
    begun = time.perf_counter()
    work()
    print(f"{what}: {time.perf_counter() - begun:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table (10000000)")
    parser.add_argument("--memory", default="1g", help="memory of Spark's driver (1g)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nabla-large-"))
    try:
        lake = nabla.open(folder / "lake", spark=build_session("large", {"spark.driver.memory": given.memory}))
        lake.spark.range(1).count()
        peak = Peak()
        run(lake, given.rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    grown = peak.most - peak.first
    print(f"the driver's Python grew by {grown >> 20} MB for {given.rows:,} rows")
    sys.exit(grown > GROWTH)


if __name__ == "__main__":
    main()
