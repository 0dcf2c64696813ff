"""A query that is to be answered, and not stored: its plan, and the order in which it gives its rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from nabla.algebra.calls import Named, Order
from nabla.algebra.nodes import MalformedPlan, Node, Project
from nabla.frontends.spark_sql.define import normalize_query
from nabla.frontends.spark_sql.expressions import Unsupported
from nabla.frontends.spark_sql.jvm import Query
from nabla.frontends.spark_sql.operators import OPERATORS
from nabla.frontends.spark_sql.ordered import KEEPING, with_order
from nabla.frontends.spark_sql.walker import SETTINGS, Walker
from nabla.rewrite.narrow_groups import IsKey
from nabla.rewrite.passes import DEFINITION, Keys, rewrite


class NotReadable(Exception):
    """There is no algebra for a query, or it reads something beside the lake's tables."""


@dataclass(frozen=True)
class QueryPlan:
    """The first columns of `plan` are the query's, which users see under the names `outputs`. `order` reads columns of it."""

    plan: Node
    outputs: tuple[str, ...]
    order: tuple[Order, ...]


def read_query(session: SparkSession, frame: DataFrame, tables: Collection[str], is_key: IsKey) -> QueryPlan:
    """The plan of a query that Spark has analyzed. Raises NotReadable where the algebra has none."""
    analyzed: Any = frame._jdf.queryExecution().analyzed()
    query = Query(session, analyzed, tables)
    if analyzed.isStreaming() or any(source.table is None for source in query.sources):
        raise NotReadable("it reads something that is no table of the lake")
    try:
        if query.python_functions():
            raise NotReadable("it calls a Python function")
        plan, order = _walk(query)
    except (Unsupported, MalformedPlan) as refusal:
        raise NotReadable(f"it has {refusal}") from refusal
    outputs = tuple(c.name for c in query.columns)
    return QueryPlan(rewrite(plan, DEFINITION, Keys(is_key)), outputs, order)


def tables_read(session: SparkSession, frame: DataFrame, tables: Collection[str]) -> tuple[str, ...]:
    """Those of the lake's tables and views that a query reads."""
    sources = Query(session, frame._jdf.queryExecution().analyzed(), tables).sources
    read = {source.table for source in sources}
    return tuple(table for table in tables if table.lower() in read)


def _walk(query: Query) -> tuple[Node, tuple[Order, ...]]:
    """The plan with the columns of the query in its order, and those that only the order of its rows reads behind them."""
    root = normalize_query(query)
    settings = {key: str(query.session.conf.get(key)) for key in SETTINGS}
    walker = Walker(OPERATORS, {t.lower(): t for t in query.tables}, {}, settings)
    below = root
    while below.kind in KEEPING:
        below = below.child
    order: tuple[Order, ...] = ()
    if below.kind == "Sort" and below.fields["global"]:
        relation, order = with_order(walker, root)
    else:
        relation = walker.walk(root)
    held = [relation.columns[c.id] for c in root.output if c.id is not None]
    outputs: list[Named] = []
    for column, shown in zip(held, query.columns, strict=True):
        fits = column.label == shown.name and all(o.column.name != column.name for o in outputs)
        made = column if fits else walker.names.column(shown.name, column.type, column.nullable)
        outputs.append(Named(made, column.ref))
    more = dict.fromkeys(o.expr.column or "" for o in order)
    taken = {o.column.name for o in outputs}
    own = {o.expr.column: o.column for o in outputs}
    for name in more:
        if name not in own:
            column = relation.node.column(name)
            assert name not in taken
            outputs.append(Named(column, column.ref))
            own[name] = column
    ordered = tuple(Order(own[o.expr.column or ""].ref, o.ascending, o.nulls_first) for o in order)
    node = relation.node
    if [o.column for o in outputs] == list(node.columns) and all(o.expr.column == o.column.name for o in outputs):
        return node, ordered
    if isinstance(node, Project):
        return Project(
            node.input, tuple(Named(o.column, node.definitions[o.expr.column or ""]) for o in outputs)
        ), ordered
    return Project(node, tuple(outputs)), ordered
