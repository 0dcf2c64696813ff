"""The long life of a small lake: thousands of transactions and refreshes, with the housekeeping that happens by itself.

One view is linear, one aggregates, one joins. Every cycle replaces a few rows, so that the lake has as many of them at the end
as in the beginning: whatever takes longer then is the fault of files and logs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import nabla
from nabla.lake.facade import Lake

CUSTOMERS, ORDERS, CHANGED = 200, 5_000, 5
VIEWS = {
    "large": "SELECT id, customer, amount FROM orders WHERE amount > 50",
    "by_customer": "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY customer",
    "named": "SELECT o.id, c.region, o.amount FROM orders o JOIN customers c ON o.customer = c.id",
}
WARM, MEASURED = 20, 200
"""Cycles that are not measured, and cycles whose median is."""
PIECES = 20

Say = Callable[[str], None]


@dataclass(frozen=True)
class Moment:
    """The lake after so many cycles: its files, their bytes, and medians of what a transaction and a refresh of all views
    took just before. `processor` are the seconds of a refresh that this process computed: others on the machine have no part
    in them."""

    cycle: int
    files: int
    bytes: int
    transaction: float
    refresh: float
    processor: float

    def __str__(self) -> str:
        size = f"{self.files} files, {self.bytes / 1e6:.1f} MB"
        refresh = (
            f"refresh of three views {self.refresh * 1000:.1f} ms ({self.processor * 1000:.1f} ms of the processor)"
        )
        return f"{self.cycle} cycles: {size}; transaction {self.transaction * 1000:.1f} ms, {refresh}"


@dataclass(frozen=True)
class Life:
    """The lake at the beginning and at the end, the files that are left after housekeeping, and what that took."""

    first: Moment
    last: Moment
    files: int
    bytes: int
    housekeeping_seconds: float
    after: Moment

    @property
    def ratio(self) -> float:
        """The seconds of a refresh after this life, over those at its beginning."""
        return self.after.refresh / self.first.refresh

    def __str__(self) -> str:
        kept = f"{self.files} files, {self.bytes / 1e6:.1f} MB are left after {self.housekeeping_seconds:.1f} s"
        return (
            f"beginning: {self.first}\nend: {self.last}\n"
            f"optimize and vacuum without grace: {kept}\nafterwards: {self.after}\n"
            f"a refresh takes {self.ratio:.2f} times what it took at the beginning, "
            f"{self.after.processor / self.first.processor:.2f} times of the processor "
            f"(before the last housekeeping {self.last.refresh / self.first.refresh:.2f} and "
            f"{self.last.processor / self.first.processor:.2f})"
        )


def order(number: int) -> tuple[int, int, int]:
    return number, number * 7 % CUSTOMERS, number * 37 % 101


def found(path: Path) -> Lake:
    """The lake at its beginning. Only the definitions of the views need Spark."""
    lake = nabla.open(path)
    lake.housekeeping(history=timedelta(0))
    regions = [(i, f"r{i % 20}") for i in range(CUSTOMERS)]
    lake.create_table("customers", schema="id BIGINT, region STRING", data=regions, key="id")
    lake.create_table(
        "orders", schema="id BIGINT, customer BIGINT, amount BIGINT", data=list(map(order, range(ORDERS))), key="id"
    )
    lake.create_views(VIEWS)
    return lake


def cycle(lake: Lake, number: int) -> tuple[float, float, float]:
    """Replace the oldest orders by new ones and refresh; the seconds of both, and those of the processor for the refresh."""
    oldest = range(CHANGED * number, CHANGED * (number + 1))
    begun = time.perf_counter()
    with lake.transaction() as tx:
        tx.insert("orders", [order(ORDERS + k) for k in oldest])
        tx.delete("orders", rows=[order(k) for k in oldest])
    written, computed = time.perf_counter(), time.process_time()
    lake.refresh(mode="incremental")
    return written - begun, time.perf_counter() - written, time.process_time() - computed


def live(path: Path, cycles: int, say: Say) -> Life:
    """Found a lake and let it live for so many cycles. Its views are verified at the end."""
    if path.exists():
        shutil.rmtree(path)
    lake = found(path)
    measured = min(MEASURED, max(1, (cycles - WARM) // 3))
    times: list[tuple[float, float, float]] = []
    first = last = None
    for number in range(cycles):
        times.append(cycle(lake, number))
        if number + 1 == WARM + measured:
            first = _moment(path, times, measured)
            say(str(first))
        elif (number + 1) % max(1, cycles // PIECES) == 0:
            last = _moment(path, times, measured)
            say(str(last))
    last = _moment(path, times, measured)
    begun = time.perf_counter()
    lake.optimize()
    lake.vacuum(older_than=timedelta(0))
    seconds = time.perf_counter() - begun
    files, size = _size(path)
    say(f"after housekeeping: {files} files, {size / 1e6:.1f} MB")
    for number in range(cycles, cycles + measured):
        times.append(cycle(lake, number))
    after = _moment(path, times, measured)
    lake.verify()
    return Life(first or last, last, files, size, seconds, after)


def _moment(path: Path, times: list[tuple[float, float, float]], measured: int) -> Moment:
    return Moment(len(times), *_size(path), *map(statistics.median, zip(*times[-measured:], strict=True)))


def _size(path: Path) -> tuple[int, int]:
    sizes = [os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names]
    return len(sizes), sum(sizes)
