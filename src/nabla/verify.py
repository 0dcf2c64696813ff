"""Is a view exactly its query? Recomputed from the versions it reflects, and compared as bags."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nabla.algebra.nodes import At, Scan
from nabla.algebra.sql import to_sql
from nabla.engine import types
from nabla.engine.frames import Workspace
from nabla.engine.sources import snapshot_frame
from nabla.errors import Mismatch
from nabla.refresh import make_source
from nabla.storage.catalog import Entry, LakeState
from nabla.views import View, load_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nabla.lake import Lake

SHOWN = 20
TOLERANCE = 1e-9
"""Sums of floating point numbers depend on the order of summation: two that differ by less are taken as equal."""


def verify(lake: Lake, entry: Entry, state: LakeState) -> None:
    view = load_view(entry.name, entry.definition)
    with Workspace(lake._spark.newSession(), lake._log.new_staging()) as workspace:
        expected = _recomputed(lake, workspace, view, entry, state)
        part = entry.parts["data"]
        found = snapshot_frame(workspace, lake._log.table(part).snapshot(part.version), view.schema.names)
        expected = expected.toDF(*view.schema.names)
        extra = types.conform(found.exceptAll(expected).toArrow(), view.schema)
        missing = types.conform(expected.exceptAll(found).toArrow(), view.schema)
    if extra.num_rows or missing.num_rows:
        _compare_roughly(view, extra, missing)


def _recomputed(lake: Lake, workspace: Workspace, view: View, entry: Entry, state: LakeState) -> DataFrame:
    """The user's own text where there is one: it owes nothing to Nabla's algebra."""
    for name, version in entry.facts["sources"].items():
        source = make_source(lake, name, state, version, version)
        source.frame(workspace, At.NEW).createOrReplaceTempView(name)
    if view.sql is not None:
        return workspace.session.sql(view.sql)
    return workspace.session.sql(to_sql(view.plan, lambda scan: _name(scan)))


def _name(scan: Scan) -> str:
    return f"`{scan.table}`"


def _compare_roughly(view: View, extra: pa.Table, missing: pa.Table) -> None:
    """Rows pair up if they are equal but for the last digits of floating point numbers."""
    left = list(map(tuple, (r.values() for r in extra.to_pylist())))
    unmatched: list[tuple[Any, ...]] = []
    for wanted in (tuple(r.values()) for r in missing.to_pylist()):
        close = next((row for row in left if _close(row, wanted)), None)
        if close is None:
            unmatched.append(wanted)
        else:
            left.remove(close)
    if left or unmatched:
        rows = [(row, "only in the view") for row in left] + [(row, "missing from the view") for row in unmatched]
        shown = "; ".join(f"{row} {where}" for row, where in rows[:SHOWN])
        raise Mismatch(
            "NABLA_MISMATCH",
            f'view "{view.name}" is not its query: {len(left)} rows too many, {len(unmatched)} missing: {shown}',
            rows=tuple(rows),
            place=f'view "{view.name}"',
            remedy=f'Please report this with the view\'s definition; refresh("{view.name}", mode="full") repairs it.',
        )


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close(a[k], b[k]) for k in a)
    return bool(a == b)
