"""The smallest refresh: ten changed rows in a small lake, a view with a join and an aggregate."""

from __future__ import annotations

import datetime
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import nabla
from nabla.lake.facade import Lake
from nabla.storage.machine import Machine, current, use

ROUNDS = 12


@dataclass(frozen=True)
class Smallest:
    refresh_seconds: float
    write_seconds: float
    syncs: int
    sync_seconds: float

    @property
    def times(self) -> float:
        return self.refresh_seconds / self.write_seconds

    def __str__(self) -> str:
        return (
            f"smallest refresh {self.refresh_seconds:.3f} s, "
            f"a Spark write of ten rows {self.write_seconds:.3f} s: {self.times:.2f} times\n"
            + (
                f"of the refresh, {self.syncs} syncs to the disk take {self.sync_seconds:.3f} s"
                if self.syncs
                else "nothing is synced to the disk (NABLA_SYNC=off)"
            )
        )


class TimedSyncs(Machine):
    """This machine, with a clock on its syncs: how many there were, and how long the process waited for them."""

    def __init__(self) -> None:
        super().__init__(syncs=current().syncs)
        self.count, self.seconds = 0, 0.0

    def sync(self, path: str) -> None:
        self._time(lambda: Machine.sync(self, path))

    def sync_folder(self, path: str) -> None:
        self._time(lambda: Machine.sync_folder(self, path))

    def _time(self, sync: Callable[[], None]) -> None:
        begun = time.perf_counter()
        sync()
        self.seconds += time.perf_counter() - begun
        self.count += self.syncs


def smallest_refresh(folder: Path) -> Smallest:
    """Medians of a refresh and of one Spark write of ten rows, side by side."""
    lake = nabla.open(folder / "small")
    regions = [(i, f"r{i % 20}") for i in range(500)]
    lake.create_table("customers", schema="id INT, region STRING", data=regions, key="id")
    day = datetime.date(2026, 1, 1)
    data = [(i, i % 500, Decimal(i % 90), day) for i in range(20_000)]
    lake.create_table("orders", schema="id INT, customer INT, amount DECIMAL(12,2), day DATE", data=data, key="id")
    joined = "orders o JOIN customers c ON o.customer = c.id"
    lake.create_view(
        "revenue", f"SELECT c.region, SUM(o.amount) AS total, COUNT(*) AS n FROM {joined} GROUP BY c.region"
    )
    refreshes, writes, syncs, waits = [], [], [], []
    for i in range(ROUNDS):
        with lake.transaction() as tx:
            tx.insert("orders", [(100_000 + 10 * i + k, k, Decimal(k), day) for k in range(5)])
            tx.delete("orders", rows=data[5 * i : 5 * i + 5])
        with use(TimedSyncs()) as timed:
            refreshes.append(lake.refresh(mode="incremental")["revenue"].seconds)
        syncs.append(timed.count)
        waits.append(timed.seconds)
        writes.append(write_ten_rows(lake, folder))
    lake.verify()
    medians = statistics.median(refreshes), statistics.median(writes)
    return Smallest(*medians, int(statistics.median(syncs)), statistics.median(waits))


def write_ten_rows(lake: Lake, folder: Path) -> float:
    """The yardstick for fixed costs: seconds that Spark takes to write ten rows as one Parquet file."""
    begun = time.perf_counter()
    columns = ("id", "CAST(id AS STRING) AS name", "CAST(id AS DECIMAL(12,2)) AS amount")
    frame = lake.spark.range(10).selectExpr(*columns)
    frame.coalesce(1).write.mode("overwrite").parquet(str(folder / "ten"))
    return time.perf_counter() - begun
