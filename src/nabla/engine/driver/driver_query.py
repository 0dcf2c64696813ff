"""Small questions answered by the driver: a few rows at hand, and nothing that Python could compute otherwise than Spark.

Once a change has been looked up, most of a refresh's queries join some hundred rows with some hundred rows. Planning and
scheduling such a query takes Spark a second; computing it takes no time at all. The interpreter of the algebra computes it
here, if it has only types and functions for which Python and Spark agree. Spark answers all other queries, and those over
more than a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import pyarrow as pa

from nabla.algebra.equalities import has_equality
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import (
    Aggregate,
    Consolidate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.reference.evaluator import CannotEvaluate, Row, Slot, SparkWouldFail, parse_type
from nabla.algebra.reference.evaluator.exact import exact_type, is_exact, is_exact_aggregate
from nabla.algebra.reference.hash_joins import HashRun
from nabla.algebra.reference.interpreter import Bag, Database, bag_of
from nabla.calculus.stages import COPY

MOST_COMPUTED = 400_000
"""Values that a query reads and computes of its relations before it joins them, about a microsecond each: from then on
Spark's fixed costs are worth it."""
MOST_PAIRS = 200_000

Held = Callable[[Scan], pa.Table | None]
"""The rows of a relation in the order of its scan's columns, and their weights if it is a change."""


class _TooMuch(Exception):
    """More work than a driver should do."""


def answer(node: Node, held: Held, schema: pa.Schema) -> pa.Table | None:
    """The rows of a query under the names and types of a schema, or None where Spark is to be asked."""
    scans = {n for n in node.walk() if isinstance(n, Scan)}
    if not is_exact_query(node):
        return None
    relations = {}
    for scan in scans:
        rows = held(scan)
        if rows is None:
            return None
        relations[scan] = rows
    if _values(node, relations, Memo())[0] > MOST_COMPUTED:
        return None
    try:
        return _table(_DriverRun(relations)(node), node.signed, schema)
    except (_TooMuch, CannotEvaluate, SparkWouldFail, pa.ArrowInvalid):
        return None  # an error of the query is Spark's to report


def _values(node: Node, relations: Mapping[Scan, pa.Table], seen: Memo[Node, int]) -> tuple[int, int]:
    """How many values a query reads and computes, and of how many rows. The result of a join is taken to be small. A node that
    occurs in several places is computed once."""
    if node in seen:
        return 0, seen[node]
    if isinstance(node, Scan):
        rows = relations[node].num_rows
        values = rows * len(node.columns)
    else:
        below = [_values(part, relations, seen) for part in node.inputs]
        values, rows = sum(v for v, _ in below), sum(r for _, r in below)
    values += rows * _count_expressions(node)
    seen[node] = 0 if isinstance(node, Join | Aggregate) else rows
    return values, seen[node]


def _count_expressions(node: Node) -> int:
    """Expressions that are evaluated for every row."""
    match node:
        case Filter():
            return len(node.conjuncts)
        case Project():
            return sum(o.expr.column is None for o in node.outputs)
        case Aggregate():
            return len(node.calls)
    return 0


class _DriverRun(HashRun):
    def __init__(self, relations: dict[Scan, pa.Table]) -> None:
        super().__init__(Database({}))
        self.relations = relations

    def __call__(self, node: Node) -> Bag:
        if isinstance(node, Scan) and node not in self._results:
            self._results[node] = _bag(self.relations[node], node.signed)
        return super().__call__(node)

    def pairs(self, node: Join, left: Bag, right: Bag) -> Iterator[tuple[Row, Row]]:
        if not has_equality(node) and len(left) * len(right) > MOST_PAIRS:
            raise _TooMuch
        for count, pair in enumerate(super().pairs(node, left, right)):
            if count > MOST_PAIRS:
                raise _TooMuch
            yield pair


def _bag(rows: pa.Table, signed: bool) -> Bag:
    columns = [column.to_pylist() for column in rows.columns]
    if signed:
        *columns, weights = columns
        return bag_of(zip(zip(*columns, strict=True), weights, strict=True))
    return bag_of((row, 1) for row in zip(*columns, strict=True))


def _table(bag: Bag, signed: bool, schema: pa.Schema) -> pa.Table:
    rows = [(*row, n) for row, n in bag.items()] if signed else [row for row, n in bag.items() for _ in range(n)]
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def is_exact_query(node: Node) -> bool:
    """Whether Python gives what Spark would give, whatever the rows."""
    return all(_exact_columns(n.columns) and n.columns and _exact_here(n) for n in node.walk())


@lru_cache(maxsize=1 << 12)
def _exact_columns(columns: tuple[Column, ...]) -> bool:
    return all(exact_type(c.type) for c in columns)


def _exact_here(node: Node) -> bool:
    match node:
        case Scan() | UnionAll() | Negate() | Weigh() | Unweigh() | Consolidate():
            return True
        case Distinct() | ExceptAll() | IntersectAll():
            return True
        case Constant():
            return all(is_exact(value, {}) for row in node.rows for value in row)
        case Filter():
            return _all_exact(node.conjuncts, node.input.columns)
        case Project():
            return _all_exact([o.expr for o in node.outputs], node.input.columns)
        case Join():
            return _all_exact(node.on, node.left.columns + node.right.columns)
        case Aggregate():
            layout = _layout(node.input.columns)
            return all(is_exact_aggregate(call, layout) for call in node.calls)
        case Generate():  # generators other than ours may give any number of rows, so their size cannot be bounded here
            return node.output == (COPY,) or is_exact(node.generator, _layout(node.input.columns))
        case TopK():
            return _all_exact([o.expr for o in node.order], node.columns)
        case Window():
            ranks = all(call.call.function == "dense_rank" and not call.frame for call in node.calls)
            return ranks and _all_exact([o.expr for c in node.calls for o in c.order], node.input.columns)
    return False


def _all_exact(expressions: tuple[Expr, ...] | list[Expr], columns: tuple[Column, ...]) -> bool:
    layout = _layout(columns)
    return all(is_exact(e, layout) for e in expressions)


@lru_cache(maxsize=1 << 10)
def _layout(columns: tuple[Column, ...]) -> dict[str, Slot]:
    return {c.name: Slot(i, parse_type(c.type)) for i, c in enumerate(columns)}
