"""Refreshing against recomputing, view by view, in one run on the same data."""

from __future__ import annotations

import math
import shutil
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nabla.engine.spark.metrics import Work, work_of
from nabla.errors import Mismatch, NablaError
from nabla.lake.facade import Lake
from nabla.lake.reports import ViewReport
from nabla.planner.steps import Mode

BUILD = "build"
"""The mode under which the creation of a view is recorded."""
FAILED = "failed"
"""The mode of a refresh or build that raised an error."""


@dataclass(frozen=True)
class Measurement:
    """One view in one round: refreshed in the mode that was `asked` for, and recomputed. `change` is in percent.

    Of a view that was built, or that a peer maintained, `asked` says so. `estimate` is what the planner expected the refresh
    to take, `reason` why the view was recomputed if that was not asked for, `verdict` what verifying found, if it was asked
    for. A `problem` is the code of an error: the view failed, or it is not its query.
    """

    scale: float
    view: str
    change: float
    kind: str
    asked: str
    mode: str
    refresh_seconds: float
    recompute_seconds: float
    jobs: int
    rows_read: int
    recompute_rows_read: int
    bytes_read: int
    recompute_bytes_read: int
    bytes_written: int
    inserted: int
    deleted: int
    estimate: float | None = None
    reason: str = ""
    verdict: str = ""
    problem: str = ""

    @property
    def setting(self) -> str:
        return setting(self.scale, self.change, self.kind, self.asked)


def setting(scale: float, change: float, kind: str, asked: str) -> str:
    """The words for what was measured; a build follows no change."""
    return f"scale {scale:g}, build" if asked == BUILD else f"scale {scale:g}, {change:g} % {kind}, mode {asked}"


def recompute(lake: Lake, sql: str, folder: Path) -> tuple[float, Work]:
    """Plain Spark: the query over the current tables, written as Parquet."""
    spark = lake.spark
    group = f"recompute-{uuid.uuid4().hex[:8]}"
    spark.sparkContext.setJobGroup(group, "recompute")
    begun = time.perf_counter()
    spark.sql(sql).write.mode("overwrite").parquet(str(folder))
    seconds = time.perf_counter() - begun
    return seconds, work_of(spark, group)


@dataclass(frozen=True)
class ChangeRound:
    """The change before a refresh: `change` is in percent. The second of refreshing and recomputing finds code
    compiled and files cached; so each is the first in turns."""

    scale: float
    change: float
    kind: str
    refresh_first: bool = True


Recomputed = dict[str, tuple[float, Work]]
"""The seconds that plain Spark took, by view."""


def measure_round(
    lake: Lake,
    views: Mapping[str, str],
    now: ChangeRound,
    scratch: Path,
    mode: Mode,
    recomputed: Recomputed,
    verify: bool = False,
) -> Iterator[Measurement]:
    """Refresh every view by itself, and recompute it by plain Spark unless that was measured after such a change. A view
    that fails does not stop the others."""
    for name, sql in views.items():
        begun = time.perf_counter()
        try:
            if not now.refresh_first and name not in recomputed:
                recomputed[name] = recompute(lake, sql, scratch / name)
            begun = time.perf_counter()
            report = lake.refresh(name, mode=mode)[name]
            work = work_of(lake.spark, report.job_group)
            if name not in recomputed:
                recomputed[name] = recompute(lake, sql, scratch / name)
        except Exception as error:
            yield failure(now, name, mode, time.perf_counter() - begun, error)
            continue
        measured = _measurement(now, mode, report, work, *recomputed[name])
        yield _verified(lake, measured) if verify else measured
    shutil.rmtree(scratch, ignore_errors=True)


def _verified(lake: Lake, measured: Measurement) -> Measurement:
    try:
        return replace(measured, verdict=lake.verify(measured.view)[measured.view].verdict)
    except Mismatch as error:
        return replace(measured, verdict="wrong", problem=error.code)
    except Exception as error:
        return replace(measured, verdict="not verified", problem=code_of(error))


def code_of(error: Exception) -> str:
    """The code of an error that Nabla raised on purpose, and the type of any other with its first words."""
    if isinstance(error, NablaError):
        return error.code
    first = " ".join(str(error).split())[:120]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def measure_builds(
    lake: Lake, views: Mapping[str, str], scale: float, scratch: Path, rounds: int
) -> Iterator[Measurement]:
    """Create every view, and write its rows by plain Spark, in turns. Both are done once before to warm up: Spark compiles a
    query at its first run, and Java compiles methods that run often."""
    now = ChangeRound(scale, 0, "none")
    for name, sql in views.items():
        begun = time.perf_counter()
        try:
            recompute(lake, sql, scratch / name)
            lake.create_view(name, sql)
            for _ in range(rounds):
                begun = time.perf_counter()
                report = lake.create_view(name, sql, rebuild=True)
                work = work_of(lake.spark, report.job_group)
                yield _measurement(now, BUILD, report, work, *recompute(lake, sql, scratch / name))
        except Exception as error:
            yield failure(now, name, BUILD, time.perf_counter() - begun, error)
    shutil.rmtree(scratch, ignore_errors=True)


def failure(now: ChangeRound, view: str, asked: str, seconds: float, error: Exception) -> Measurement:
    """The record of a view that raised an error."""
    return Measurement(
        scale=now.scale,
        view=view,
        change=now.change,
        kind=now.kind,
        asked=asked,
        mode=FAILED,
        refresh_seconds=seconds,
        recompute_seconds=0,
        jobs=0,
        rows_read=0,
        recompute_rows_read=0,
        bytes_read=0,
        recompute_bytes_read=0,
        bytes_written=0,
        inserted=0,
        deleted=0,
        problem=code_of(error),
    )


def _measurement(
    now: ChangeRound, asked: str, report: ViewReport, work: Work, recompute_seconds: float, again: Work
) -> Measurement:
    return Measurement(
        scale=now.scale,
        view=report.name,
        change=now.change,
        kind=now.kind,
        asked=asked,
        mode=report.mode,
        refresh_seconds=report.seconds,
        recompute_seconds=recompute_seconds,
        jobs=work.jobs,
        rows_read=work.rows_read + report.looked_at,
        recompute_rows_read=again.rows_read,
        bytes_read=work.bytes_read,
        recompute_bytes_read=again.bytes_read,
        bytes_written=work.bytes_written,
        inserted=report.inserted,
        deleted=report.deleted,
        estimate=report.estimates.get(report.mode),
        reason=report.reason if report.mode == "full" and asked not in ("full", BUILD) else "",
    )


@dataclass(frozen=True)
class Summary:
    """A view over all rounds of one kind: medians, so that one disturbed round does not decide. `ratio` is the
    time of the recompute divided by the time of the refresh."""

    view: str
    mode: str
    refresh_seconds: float
    recompute_seconds: float
    ratio: float
    jobs: int
    rows_read: int
    recompute_rows_read: int
    change: float
    kind: str
    asked: str
    scale: float

    @property
    def setting(self) -> str:
        return setting(self.scale, self.change, self.kind, self.asked)


def summarize(measurements: Sequence[Measurement]) -> list[Summary]:
    """Medians of what was measured. Views that failed took no time to speak of: they are left out."""
    summaries = []
    done = [m for m in measurements if m.mode != FAILED]
    for key in dict.fromkeys(map(_setting, done)):
        mine = [m for m in done if _setting(m) == key]

        def median(value: Callable[[Measurement], float], of: Sequence[Measurement] = mine) -> float:
            return statistics.median(value(m) for m in of)

        refresh, full = median(lambda m: m.refresh_seconds), median(lambda m: m.recompute_seconds)
        modes = "/".join(dict.fromkeys(m.mode for m in mine))
        rows = (int(median(lambda m: m.rows_read)), int(max(m.recompute_rows_read for m in mine)))
        jobs = int(median(lambda m: m.jobs))
        view, change, kind, asked, scale = key
        summaries.append(Summary(view, modes, refresh, full, full / refresh, jobs, *rows, change, kind, asked, scale))
    return summaries


def _setting(m: Measurement) -> tuple[str, float, str, str, float]:
    return (m.view, m.change, m.kind, m.asked, m.scale)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))
