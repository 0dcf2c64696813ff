"""A query over a few hundred rows of the driver: by the engine's settings of Spark, and from files by Spark's defaults."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

import nabla
from nabla.engine import types
from nabla.engine.spark.frames import Workspace

ROUNDS, WARMING = 40, 40
QUERY = "SELECT x.c, SUM(y.n) AS total, MAX(y.b) AS last FROM {} x JOIN {} y ON x.a = y.a GROUP BY x.c"


@dataclass(frozen=True)
class TinyQuery:
    engine_seconds: float
    plain_seconds: float

    def __str__(self) -> str:
        return f"a tiny query on Spark {self.engine_seconds:.3f} s, from files and with defaults {self.plain_seconds:.3f} s"


def tiny_query(folder: Path) -> TinyQuery:
    """The medians of both."""
    lake = nabla.open(folder / "tiny")
    plain = Workspace(lake.spark.newSession(), str(folder / "plain"))
    engine = lake.context.spark.workspace("tiny")
    found: dict[str, list[float]] = {"engine": [], "plain": []}
    for _ in range(WARMING + ROUNDS):
        found["engine"].append(_seconds(lambda: _run_query(engine, by_file=False)))
        found["plain"].append(_seconds(lambda: _run_query(plain, by_file=True)))
    medians = (statistics.median(seconds[WARMING:]) for seconds in found.values())
    return TinyQuery(*medians)


def _run_query(workspace: Workspace, *, by_file: bool) -> pa.Table:
    schema = types.parse("a BIGINT, b STRING, c INT, n BIGINT")
    rows = [(i, f"name {i}", i % 7, 1) for i in range(200)]
    columns = zip(zip(*rows, strict=True), types.arrow_schema(schema), strict=True)
    table = pa.table([pa.array(values, field.type) for values, field in columns], types.arrow_schema(schema))
    names = []
    for _ in range(2):
        if by_file:
            frame = workspace.session.read.schema(schema).parquet(workspace.store(table, schema))
        else:
            frame = workspace.hold(table, schema)
        names.append(workspace.name(object(), lambda frame=frame: frame))  # type: ignore[misc]
    return workspace.session.sql(QUERY.format(*names)).toArrow()


def _seconds(ask: Callable[[], pa.Table]) -> float:
    begun = time.perf_counter()
    ask()
    return time.perf_counter() - begun
