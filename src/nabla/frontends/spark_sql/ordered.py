"""Operators and functions that depend on the order of rows.

LIMIT and OFFSET, the aggregates `first`, `last`, `collect_list` and `listagg` over a subquery with ORDER BY, and what
`dropDuplicates` becomes. Rows of a table have no order, so the order of the subquery goes into the call. Among rows that are
equal in this order, and among all rows if there is none, Spark may take any. Here it is the least by the values that are
taken, so that every computation takes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nabla.algebra.build import all_of, is_not_null, named_struct, when
from nabla.algebra.calls import Call, Named, Order
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import Filter, Project, TopK
from nabla.frontends.spark_sql.expressions import Unsupported
from nabla.frontends.spark_sql.scope import Relation, with_columns
from nabla.frontends.spark_sql.tree import Expression, Operator
from nabla.frontends.spark_sql.walker import Walker

ONE_ROW = ("First", "Last")
KEEPING = ("Project", "Filter", "Expand")
"""Operators whose rows come in the order of their input."""
LIMITS = {"GlobalLimit": "limitExpr", "LocalLimit": "limitExpr", "Offset": "offsetExpr"}
"""Operators that take some of the first rows, and the field that says which."""


def depends_on_order(function: Expression) -> bool:
    return function.kind in (*ONE_ROW, "CollectList", "ListAgg")


def with_order(w: Walker, op: Operator) -> tuple[Relation, tuple[Order, ...]]:
    """The rows of an operator and their order: that of a Sort below, if all operators between keep it. The columns of the
    order are kept, too, even if a select list drops them."""
    if op.kind == "Sort":
        return _sorted_rows(w, op)
    if op.kind in LIMITS:
        return _some_rows(w, op)
    if op.kind not in KEEPING:
        return w.walk(op), ()
    relation, order = with_order(w, op.child)
    relation, columns = keep_columns(w, relation, op, tuple(relation.node.column(o.expr.column or "") for o in order))
    return relation, tuple(replace(o, expr=c.ref) for c, o in zip(columns, order, strict=True))


def _sorted_rows(w: Walker, op: Operator) -> tuple[Relation, tuple[Order, ...]]:
    relation, p = w.attach_subqueries(w.walk(op.child), op.fields["order"])
    computed = [p.order(item) for item in op.fields["order"]]
    columns = [
        relation.node.column(o.expr.column) if o.expr.column else w.names.column("place", o.expr.type, o.expr.nullable)
        for o in computed
    ]
    additions = [(c, o.expr) for c, o in zip(columns, computed, strict=True) if not o.expr.column]
    order = tuple(replace(o, expr=c.ref) for c, o in zip(columns, computed, strict=True))
    return replace(relation, node=with_columns(relation.node, additions)), order


def _some_rows(w: Walker, op: Operator) -> tuple[Relation, tuple[Order, ...]]:
    """LIMIT and OFFSET of the rows below, in their order. A limit within partitions has no meaning here and is skipped."""
    numbers, below = [], op
    while below.kind in LIMITS:
        numbers.append((below.kind, _integer(below.fields[LIMITS[below.kind]])))
        below = below.child
    count, offset = _slice(reversed(numbers))
    relation, order = with_order(w, below)
    bottom = below
    while bottom.kind in (*KEEPING, *LIMITS):
        bottom = bottom.child
    if bottom.kind == "Sort" and not bottom.fields["global"]:
        order = ()
    return replace(relation, node=TopK(relation.node, order, count, offset)), order


def _slice(numbers: Iterable[tuple[str, int]]) -> tuple[int | None, int]:
    """The number and the start of the rows that are left after limits and offsets in turn."""
    count, offset = None, 0
    for kind, number in numbers:
        if kind == "Offset":
            offset += number
            count = None if count is None else max(count - number, 0)
        else:
            count = number if count is None else min(count, number)
    return count, offset


def _integer(e: Expression) -> int:
    if e.kind != "Literal" or e.sql is None or not e.sql.isdigit():
        raise Unsupported("a LIMIT or OFFSET that is not a number")
    return int(e.sql)


def keep_columns(
    w: Walker, relation: Relation, op: Operator, columns: tuple[Column, ...]
) -> tuple[Relation, tuple[Column, ...]]:
    """An operator that also keeps some columns of its input, and the names of these in its result."""
    if op.kind == "Expand":
        return w.expand(relation, op, columns)
    if op.kind == "Filter":
        input, p = w.attach_subqueries(relation, [op.fields["condition"]])
        return replace(input, node=Filter(input.node, p.conjuncts(op.fields["condition"]))), columns
    input, p = w.attach_subqueries(relation, op.fields["projectList"])
    result = w.select(input, p, op.fields["projectList"])
    missing = tuple(Named(c, c.ref) for c in columns if c.name not in result.node.names)
    if missing and isinstance(result.node, Project):
        return replace(result, node=replace(result.node, outputs=(*result.node.outputs, *missing))), columns
    return result, columns


def in_order(call: Call, order: Sequence[Order], taken: Iterable[Expr]) -> Call:
    """The call with the order of its rows as arguments; `taken` are the values that such calls take from a row."""
    if call.function in ("first", "last"):
        return _one_row(call, order, taken)
    if not order or call.distinct or call.template or call.ignore_nulls:
        return call
    if call.function == "collect_list":
        return _sort_group(call, order, "transform({rows}, e -> e.v)", is_not_null(call.arguments[0]))
    if call.function == "listagg":
        items = ", ".join(f"{{{i}}} {o.direction}" for i, o in enumerate(order, start=2))
        template = f"listagg({{0}}, {{1}}) WITHIN GROUP (ORDER BY {items})"
        return replace(call, arguments=(*call.arguments, *(o.expr for o in order)), template=template)
    return call


def _one_row(call: Call, order: Sequence[Order], taken: Iterable[Expr]) -> Call:
    """The value of the first or the last row. If all items of the order have one direction, it is a least or greatest row."""
    ties = [Order(e) for e in taken if "map<" not in e.type and "variant" not in e.type]
    ordered_by = {o.expr for o in order}
    places = [*order, *(o for o in ties if o.expr not in ordered_by)]
    if not places:
        return call
    value, ignores_nulls, is_first = call.arguments[0], call.ignore_nulls, call.function == "first"
    known = is_not_null(value) if ignores_nulls else None
    upwards = all(o.ascending and o.nulls_first for o in order)
    if upwards or not any(o.ascending or o.nulls_first for o in order):
        function = "min_by" if upwards == is_first else "max_by"
        return Call(call.column, function, (value, _row(places)), filter=_both(call.filter, known))
    if not is_first:
        places = [replace(o, ascending=not o.ascending, nulls_first=not o.nulls_first) for o in places]
    return _sort_group(call, places, "get({rows}, 0).v", known)


def _sort_group(call: Call, order: Sequence[Order], around: str, test: Expr | None) -> Call:
    """An expression over the rows of the group as a sorted array. `collect_list` leaves out values that are NULL."""
    row, condition = _row(order, call.arguments[0]), _both(call.filter, test)
    if condition is not None:
        row = when(condition, row)
    rows = f"array_sort(collect_list({{0}}), (l, r) -> {_comparison(order)})"
    return Call(call.column, call.function, (row,), template=around.replace("{rows}", rows))


def _row(order: Sequence[Order], value: Expr | None = None) -> Expr:
    """A struct of the expressions by which rows are compared, and of the value that is taken."""
    fields = [(f"o{i}", o.expr) for i, o in enumerate(order)] + ([("v", value)] if value else [])
    return named_struct(fields)


def _both(*tests: Expr | None) -> Expr | None:
    given = [test for test in tests if test is not None]
    return all_of(given) if given else None


def _comparison(order: Sequence[Order]) -> str:
    text = "0"
    for i, o in reversed(list(enumerate(order))):
        left, right = f"l.o{i}", f"r.o{i}"
        first, last = ("-1", "1") if o.nulls_first else ("1", "-1")
        less, more = ("-1", "1") if o.ascending else ("1", "-1")
        text = (
            f"CASE WHEN {left} <=> {right} THEN {text} WHEN {left} IS NULL THEN {first} WHEN {right} IS NULL THEN {last} "
            f"WHEN {left} < {right} THEN {less} ELSE {more} END"
        )
    return text
