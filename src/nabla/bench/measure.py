"""Refreshing against recomputing, view by view, in one run on the same data."""

from __future__ import annotations

import math
import shutil
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nabla.engine.metrics import work_of
from nabla.lake import Lake
from nabla.results import text_table


@dataclass(frozen=True)
class Measurement:
    """One view in one round. `ratio` is what a recompute takes over what the refresh took."""

    view: str
    round: int
    mode: str
    refresh_seconds: float
    recompute_seconds: float
    jobs: int
    rows_read: int
    recompute_rows_read: int
    inserted: int
    deleted: int

    @property
    def ratio(self) -> float:
        return self.recompute_seconds / self.refresh_seconds


def recompute(lake: Lake, sql: str, folder: Path) -> tuple[float, int]:
    """Plain Spark: the query over the current tables, written as Parquet. Seconds and rows read."""
    spark = lake.spark
    group = f"recompute-{uuid.uuid4().hex[:8]}"
    spark.sparkContext.setJobGroup(group, "recompute")
    begun = time.perf_counter()
    spark.sql(sql).write.mode("overwrite").parquet(str(folder))
    seconds = time.perf_counter() - begun
    return seconds, work_of(spark, group).rows_read


def measure_round(lake: Lake, views: dict[str, str], number: int, scratch: Path, mode: str) -> list[Measurement]:
    """Every view refreshed by itself and then recomputed by plain Spark."""
    found = []
    for name, sql in views.items():
        report = lake.refresh(name, mode=mode)[name]  # type: ignore[arg-type]
        work = work_of(lake.spark, report.job_group)
        seconds, rows = recompute(lake, sql, scratch / name)
        found.append(
            Measurement(
                name,
                number,
                report.mode,
                report.seconds,
                seconds,
                work.jobs,
                work.rows_read,
                rows,
                report.inserted,
                report.deleted,
            )
        )
    shutil.rmtree(scratch, ignore_errors=True)
    return found


@dataclass(frozen=True)
class Summary:
    """A view over all rounds: medians, so that one disturbed round does not decide."""

    view: str
    mode: str
    refresh_seconds: float
    recompute_seconds: float
    ratio: float
    jobs: int
    rows_read: int
    recompute_rows_read: int


def summarize(measurements: Sequence[Measurement]) -> list[Summary]:
    summaries = []
    for view in dict.fromkeys(m.view for m in measurements):
        mine = [m for m in measurements if m.view == view]

        def median(value: Callable[[Measurement], float], of: Sequence[Measurement] = mine) -> float:
            return statistics.median(value(m) for m in of)

        refresh, full = median(lambda m: m.refresh_seconds), median(lambda m: m.recompute_seconds)
        modes = "/".join(dict.fromkeys(m.mode for m in mine))
        rows = (int(median(lambda m: m.rows_read)), int(median(lambda m: m.recompute_rows_read)))
        summaries.append(Summary(view, modes, refresh, full, full / refresh, int(median(lambda m: m.jobs)), *rows))
    return summaries


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


def table(summaries: Sequence[Summary]) -> str:
    headings = ("view", "mode", "refresh s", "recompute s", "ratio", "jobs", "rows read", "recompute reads")
    rows = [list(asdict(s).values()) for s in summaries]
    mean = geometric_mean([s.ratio for s in summaries])
    return (
        text_table(headings, rows)
        + f"\ngeometric mean of the ratios: {mean:.2f}, worst {min(s.ratio for s in summaries):.2f}"
    )
