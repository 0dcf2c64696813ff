"""Verification: a view is recomputed from the versions that it reflects, and compared with its table as a bag."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from nabla.algebra.calls import Call, Named
from nabla.algebra.clock import Moments, stored_instant
from nabla.algebra.map_keys import shape_of
from nabla.algebra.nodes import WEIGHT, Aggregate, At, Node, Project, Scan, TopK
from nabla.algebra.sql import to_sql
from nabla.algebra.traverse import map_nodes
from nabla.calculus.partials import maintain
from nabla.calculus.stages import without_ties
from nabla.engine import types
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.bags import consolidate, weigh
from nabla.engine.spark.frames import Workspace
from nabla.errors import Mismatch, NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import LOST, is_derived
from nabla.lake.objects.sources import current_source, make_source
from nabla.lake.objects.view import View, load_view
from nabla.lake.refresh.rules import recompute_recursive
from nabla.lake.reports import Verified, VerifyReport
from nabla.lake.write.conditions import entry_frame, named_in
from nabla.planner.choose import TINY_TABLES
from nabla.planner.steps import Size
from nabla.storage.bags import N
from nabla.storage.catalog import Entry, LakeState

SHOWN = 20
CHOOSING = frozenset(("first", "last", "min_by", "max_by", "collect_list", "listagg"))
"""Functions whose result depends on the order of the rows, or on which of equal ones it takes."""
UNSTEADY = frozenset(("NABLA_NONDETERMINISTIC", "NABLA_LIMIT_WITHOUT_ORDER"))
"""Obstacles of queries that may give another result each time. Queries without algebra are run twice to find that out."""
TOLERANCE = 1e-9
"""Sums of floating point numbers depend on the order of summation: two that differ by less are taken as equal."""


def verify_views(context: LakeContext, names: Sequence[str]) -> VerifyReport:
    """Compare the views named, or all, with their queries. Mismatch where one is not exactly its query."""
    state = context.log.state()
    entries = sorted(state.entries.values(), key=lambda entry: entry.name)
    wanted = [context.names(state).entry(n, "view", "constraint") for n in names] or entries
    found: dict[str, Verified] = {}
    views = [*filter(is_derived, wanted)]
    with context.events.run("verify", [entry.name for entry in views]) as run:
        for entry in views:
            run.view_started([entry.name])
            with context.translating(f'verify of view "{entry.name}"'):
                found[entry.name] = _verify(context, entry, state)
            run.views_over(entry.name)
    return VerifyReport(found)


def _verify(context: LakeContext, entry: Entry, state: LakeState) -> Verified:
    view = load_view(entry.name, entry.definition)
    if again := [source for source, version in entry.facts["sources"].items() if version == LOST]:
        raise NablaError(
            "NABLA_VERSION_GONE",
            f"it reflects {', '.join(again)} as it was before it was built again",
            place=f'view "{view.name}"',
            remedy="Refresh it first.",
        )
    with _workspace(context, view, entry, state) as workspace:
        expected = _recompute(context, workspace, view, entry, state)
        stored = context.log.snapshot(entry.parts["data"])
        found = workspace.fit(snapshot_frame(workspace, stored, view.schema.names))
        differences = _compare(found, expected, view)
        if differences.num_rows and any(map(_leaves_a_choice, view.plan.walk())):
            differences = _compare(found, _without_choices(workspace, view, entry), view)
        if differences.num_rows and view.obstacles:
            second = _recompute(context, workspace, view, entry, state)
            unsteady = [obstacle for obstacle in view.obstacles if obstacle.code in UNSTEADY]
            if unsteady or _compare(second, expected, view).num_rows:
                return Verified(view.name, "not comparable", str((*unsteady, *view.obstacles)[0]))
    if differences.num_rows:
        _compare_roughly(view, *(_repeat(differences, sign) for sign in (1, -1)))
    return Verified(view.name, "exact")


@contextmanager
def recompute(context: LakeContext, view: View, entry: Entry, state: LakeState) -> Iterator[DataFrame]:
    """The rows of a view's query, computed from scratch on the versions of the sources that its entry names."""
    with _workspace(context, view, entry, state) as workspace:
        yield _recompute(context, workspace, view, entry, state)


def _workspace(context: LakeContext, view: View, entry: Entry, state: LakeState) -> Workspace:
    size = _size(context, entry, state)
    context.spark.teach(view)
    return context.spark.separate(size, view.settings)


def _size(context: LakeContext, entry: Entry, state: LakeState) -> Size:
    read = [entry, *(state.entries[source] for source in entry.facts["sources"])]
    rows = sum(current_source(context.log, e.name, state).after.rows for e in read)
    return "tiny" if rows < TINY_TABLES else "large"


def _compare(found: DataFrame, expected: DataFrame, view: View) -> pa.Table:
    """The rows that one of two bags has more copies of, with how many more: one query, and maps can be counted, too."""
    names = [f"c{i}" for i in range(len(view.schema))]
    expected = expected.toDF(*names)
    found = _collate(found.toDF(*names), expected)
    different = consolidate(weigh(found, 1).unionAll(weigh(expected, -1)), names)
    return types.conform(different.toArrow(), types.with_weight(view.schema))


def _collate(found: DataFrame, like: DataFrame) -> DataFrame:
    """Stored strings with the collations of the query, which decide about equality."""
    wanted = {f.name: f.dataType for f in like.schema.fields if isinstance(f.dataType, StringType)}
    return found.withColumns({name: found[name].cast(kind) for name, kind in wanted.items() if kind != StringType()})


def _repeat(differences: pa.Table, sign: int) -> pa.Table:
    """The rows that there are too many of (sign 1) or too few (sign -1), each as often."""
    counts = pc.multiply(differences[N], pa.scalar(sign, pa.int64())).to_pylist()
    rows = [row for row, n in enumerate(counts) for _ in range(n)]
    return differences.drop_columns([N]).take(pa.array(rows, pa.int64()))


def _recompute(context: LakeContext, workspace: Workspace, view: View, entry: Entry, state: LakeState) -> DataFrame:
    """The rows of the user's own text if there is one, because it does not depend on Nabla's algebra."""
    if view.recursive or view.asked or view.once:
        return recompute_recursive(context, workspace, view, entry, state)
    for name, version in entry.facts["sources"].items():
        source = make_source(context.log, name, state, version, version)
        workspace.fit(source.frame(workspace, At.NEW)).createOrReplaceTempView(name)
    if view.sql is not None and not view.clock and not view.functions:
        for name in named_in((f"({view.sql})",), state) - entry.facts["sources"].keys():
            # The text may name a table that the view need not read, as in SELECT DISTINCT t.id FROM t LEFT JOIN r ….
            with suppress(NablaError):
                entry_frame(context, workspace, state.entries[name]).createOrReplaceTempView(name)
        return workspace.sql(view.sql)
    return _evaluate(workspace, view.plan, entry)


def _leaves_a_choice(node: Node) -> bool:
    """Whether an operator has several right results: any of the rows that tie for the last places of a LIMIT, any row's value
    for `first` (which is a least or greatest row in the algebra), even after an ORDER BY, which Spark may lose on the way.
    An average of BIGINT depends on the order of the rows where their sum has no exact double. Of maps that have NULLs among
    their values, Spark gives others if it groups by them (see `map_keys`)."""
    if isinstance(node, Aggregate):
        chosen = any(c.function in CHOOSING or _averages(c) for c in node.calls)
        return chosen or any(shape_of(node.input.column(key).type).has_map for key in node.keys)
    return isinstance(node, TopK)


def _averages(call: Call) -> bool:
    return call.function in ("avg", "mean") and call.arguments[0].type == "bigint" and not call.distinct


def _without_choices(workspace: Workspace, view: View, entry: Entry) -> DataFrame:
    """The view's query as it is maintained: where several results are right, it always gives the same one."""
    return _evaluate(workspace, map_nodes(view.plan, _without_choice), entry)


def _without_choice(node: Node) -> Node:
    match node:
        case TopK():
            return without_ties(node)
        case Aggregate() if any(map(_averages, node.calls)):
            return _with_exact_averages(node)
    return node


def _with_exact_averages(node: Aggregate) -> Node:
    kept = {call: maintain(call, WEIGHT) for call in node.calls if _averages(call)}
    partials = [p.whole for maintained in kept.values() if maintained is not None for p in maintained.partials]
    sums = Aggregate(node.input, node.keys, (*(c for c in node.calls if kept.get(c) is None), *partials))
    values = {call.column.name: m.value for call, m in kept.items() if m is not None}
    return Project(sums, tuple(Named(c, values.get(c.name, c.ref)) for c in node.columns))


def _evaluate(workspace: Workspace, plan: Node, entry: Entry) -> DataFrame:
    text = to_sql(plan, _name)
    reflected = stored_instant(entry.facts.get("clock"))
    return workspace.sql(Moments(reflected, reflected).bound(text) if reflected else text)


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
