"""The rows of a view with touched keys, computed anew: the step `Replace`.

Of a table that changed, the new rows with touched keys are mostly at hand, for the change itself holds them. Other tables
are joined with these, or restricted to the touched keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from nabla.algebra.calls import Named
from nabla.algebra.names import inserted_into, inserted_table, stored_fields
from nabla.algebra.nodes import At, Join, Node, Project, Scan
from nabla.algebra.traverse import map_nodes
from nabla.calculus.by_key import TOUCHED, restricted_scan
from nabla.engine.apply import Replacement
from nabla.engine.queries import Queries
from nabla.engine.relations import ComputedRows, Source, hidden_schema
from nabla.planner.steps import Replace
from nabla.rewrite.passes import Pass, rewrite
from nabla.storage import bags


def replace_by_key(step: Replace, queries: Queries, schema: StructType) -> Replacement:
    """The touched keys K, and the rows that the view has for them now."""
    sources = queries.relations.sources
    changed = [sources[name] for name in sources if name in queries.plan.changed]
    names = tuple(schema.names[place] for place in step.key)
    labels = [c.label for c in step.touched.columns]
    found = [_rename(sources[table].changed_keys(labels), names) for table in step.tables]
    if step.met is not None:
        found.append(_rename(queries.rows(step.met).read(), names))
    keys = distinct(pa.concat_tables(found))
    held = ComputedRows(hidden_schema(step.touched.columns), table=_rename(keys, stored_fields(step.touched.columns)))
    queries.hold(TOUCHED, held)
    alone = changed[0] if len(changed) == 1 and step.met is None else None
    query = rewrite(step.query, EXECUTION_BY_KEY, _Touched(queries, alone))
    return Replacement(names, keys.slice(0, 0) if step.only_new else keys, queries.answer(query, schema).read())


@dataclass(frozen=True)
class _Touched:
    """The queries of a refresh, and the table that changed, if it is but one and all touched keys are in its change."""

    queries: Queries
    changed: Source | None


EXECUTION_BY_KEY: tuple[Pass[_Touched], ...] = (
    Pass(
        "read_inserted",
        lambda plan, known: map_nodes(plan, lambda node: _read_inserted(known.queries, node, known.changed)),
        "when the query is run: how a table changed is known then",
    ),
    Pass(
        "join_lighter_first",
        lambda plan, known: _join_lighter_first(plan, known.queries.relations.sources),
        "after read_inserted, for inserted rows are as wide as those of their table",
    ),
)


def _read_inserted(queries: Queries, node: Node, changed: Source | None) -> Node:
    """S₁ ⋉ K as the rows that the change of S inserts, where S alone has changed and it is clear which these are."""
    scan = restricted_scan(node)
    if scan is None or changed is None or scan.table != changed.name:
        return node
    new = Scan(inserted_table(scan.table), At.NEW, scan.output, stored_fields(scan.output))
    places = [changed.names.index(field) for field in scan.fields]
    held = changed.held_insertions()
    if held is not None:
        table = _rename(held.select(places), new.fields)
        queries.hold(new.table, ComputedRows(hidden_schema(scan.output), table=table))
    elif changed.one_commit:
        columns = [changed.names[place] for place in places]
        queries.bind(new.table, At.NEW, lambda w: changed.insertions(w).select(*columns).toDF(*new.fields))
    else:
        return node
    return new


def _join_lighter_first(plan: Node, sources: Mapping[str, Source]) -> Node:
    """Joins with their sides in another order have their columns in another order; those of the plan stay in theirs."""
    lighter = map_nodes(plan, lambda node: _lighter_first(node, sources))
    if lighter.columns == plan.columns:
        return lighter
    return Project(lighter, tuple(Named(c, c.ref) for c in plan.columns))


def _lighter_first(node: Node, sources: Mapping[str, Source]) -> Node:
    """The side of a join with the shorter rows first: both have about as many, and it is the first that is broadcast."""

    def weight(side: Node) -> float:
        tables = {inserted_into(scan.table) for scan in side.scans}
        known = [sources[table].after for table in tables if table in sources]
        return sum(table.bytes / max(1, table.rows) for table in known)

    if isinstance(node, Join) and node.kind == "inner" and weight(node.right) < weight(node.left):
        return replace(node, left=node.right, right=node.left)
    return node


def distinct(keys: pa.Table) -> pa.Table:
    """Each key once."""
    if keys.num_columns == 1 and not pa.types.is_nested(keys.schema.types[0]):
        return pa.table([pc.unique(bags.groupable(keys.column(0)))], names=keys.column_names)
    return bags.consolidate(bags.counted(keys)).drop_columns([bags.N])


def _rename(table: pa.Table, names: tuple[str, ...]) -> pa.Table:
    return table.rename_columns(list(names))
