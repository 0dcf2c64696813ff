"""From Catalyst's operators to the algebra: one function for each operator, in a table. Other operators are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from nabla.algebra.build import equal, number, when
from nabla.algebra.calls import Call, WindowCall
from nabla.algebra.expressions import Apply, Expr
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Constant,
    ExceptAll,
    Generate,
    IntersectAll,
    Recursion,
    Scan,
    UnionAll,
    Window,
)
from nabla.frontends.spark_sql.calls import call, window_call
from nabla.frontends.spark_sql.expressions import Translator, Unsupported
from nabla.frontends.spark_sql.joins import join
from nabla.frontends.spark_sql.literals import literal
from nabla.frontends.spark_sql.ordered import ONE_ROW, depends_on_order, in_order, keep_columns, with_order
from nabla.frontends.spark_sql.scope import Relation
from nabla.frontends.spark_sql.session_windows import merge_sessions
from nabla.frontends.spark_sql.tree import Expression, Operator
from nabla.frontends.spark_sql.walker import LEVELS, ROWS, Walker, ids

_MOST_CONSTANT_ROWS = 10_000

# ---------------------------------------------------------------- leaves


def view(w: Walker, op: Operator) -> Relation:
    columns = tuple(w.names.of(a) for a in op.output)
    scan = Scan(w.tables[op.fields["desc"].lower()], At.NEW, columns, tuple(a.name for a in op.output))
    return Relation(scan, ids(op.output, columns))


def local_relation(w: Walker, op: Operator) -> Relation:
    return _constant(w, op, ([literal(v) for v in row] for row in op.fields["rows"]))


def inline_table(w: Walker, op: Operator) -> Relation:
    p = Translator({}, w.udfs)
    return _constant(w, op, ([p.expr(value) for value in row] for row in op.fields["rows"]))


def one_row(w: Walker, op: Operator) -> Relation:
    return _constant(w, op, [[]])


def number_range(w: Walker, op: Operator) -> Relation:
    numbers = range(int(op.fields["start"]), int(op.fields["end"]), int(op.fields["step"]))
    return _constant(w, op, ([number(n)] for n in numbers))


def _constant(w: Walker, op: Operator, rows: Iterable[list[Expr]]) -> Relation:
    made = []
    for row in rows:
        made.append(tuple(row))
        if len(made) > _MOST_CONSTANT_ROWS:
            raise Unsupported(f"a constant relation of more than {_MOST_CONSTANT_ROWS} rows")
    columns = tuple(w.names.of(a) for a in op.output)
    return Relation(Constant(columns, tuple(made)), ids(op.output, columns))


# ---------------------------------------------------------------- one row at a time


def same(w: Walker, op: Operator) -> Relation:
    """Operators that change how a query is run and not its meaning, and an order that nothing above it reads."""
    return w.walk(op.child)


def one_by_one(w: Walker, op: Operator) -> Relation:
    """Select lists, filters and grouping sets, which treat each row by itself."""
    return keep_columns(w, w.walk(op.child), op, ())[0]


def generate(w: Walker, op: Operator) -> Relation:
    generator, attributes = op.fields["generator"], op.fields["generatorOutput"]
    input, p = w.attach_subqueries(w.walk(op.child), [generator])
    columns = tuple(w.names.of(a) for a in attributes)
    node = Generate(input.node, p.expr(generator), columns, bool(op.fields["outer"]))
    return Relation(node, {**input.columns, **ids(attributes, columns)})


# ---------------------------------------------------------------- set operators


def union(w: Walker, op: Operator) -> Relation:
    members = tuple(w.names.by_position(w.walk(child), child.output) for child in op.children)
    columns = tuple(w.names.of(a) for a in op.output)
    return Relation(UnionAll(members, columns), ids(op.output, columns))


def set_operator(w: Walker, op: Operator) -> Relation:
    if not op.fields["isAll"]:
        raise Unsupported(f"the operator {op.kind}")
    left, right = (w.names.by_position(w.walk(child), child.output) for child in op.children)
    node = ExceptAll(left, right) if op.kind == "Except" else IntersectAll(left, right)
    return Relation(node, ids(op.output, node.columns))


# ---------------------------------------------------------------- recursion


def union_loop(w: Walker, op: Operator) -> Relation:
    """WITH RECURSIVE. Its second part scans the level before under a name that no table can have."""
    if op.fields["limit"] is not None:
        raise Unsupported("WITH RECURSIVE that ends by a LIMIT")
    start, step = op.children
    number = op.fields["id"]
    w.loops[number] = next(w.levels)
    columns = tuple(w.names.column(a.name, a.type) for a in op.output)
    node = Recursion(
        w.names.by_position(w.walk(start), start.output),
        w.names.by_position(w.walk(step), step.output),
        w.loops.pop(number),
        columns,
        int(w.settings[LEVELS] if op.fields["maxDepth"] is None else op.fields["maxDepth"]),
        int(w.settings[ROWS]),
    )
    return Relation(node, ids(op.output, columns))


def union_loop_ref(w: Walker, op: Operator) -> Relation:
    if op.fields["accumulated"]:
        raise Unsupported("WITH RECURSIVE that reads all of its levels")
    columns = tuple(w.names.column(a.name, a.type) for a in op.output)
    level = w.loops[op.fields["loopId"]]
    return Relation(Scan(level, At.NEW, columns, tuple(f"c{i}" for i in range(len(columns)))), ids(op.output, columns))


# ---------------------------------------------------------------- groups and windows


def aggregate(w: Walker, op: Operator) -> Relation:
    results: list[Expression] = op.fields["aggregateExpressions"]
    functions = [part for result in results for part in result.walk() if part.kind == "AggregateExpression"]
    ordered = any(depends_on_order(function.children[0]) for function in functions)
    rows, order = with_order(w, op.child) if ordered else (w.walk(op.child), ())
    input, p = w.attach_subqueries(rows, [*op.fields["groupingExpressions"], *functions])
    node, keys = w.with_keys(input, p, op.fields["groupingExpressions"])
    for group in op.fields["groupingExpressions"]:
        if group.extra.get("session_window"):
            session = node.column(p.expr(group).column or "")
            node, whole = merge_sessions(w.names, node, session, tuple(k for k in keys if k != session.name))
            keys = tuple(whole.name if k == session.name else k for k in keys)
            input = replace(input, columns={i: whole if c == session else c for i, c in input.columns.items()})
    labels = {result.children[0].fields.get("resultId"): result.name for result in results if result.kind == "Alias"}
    calls: dict[str, Call] = {}
    values: dict[int, Expr] = {}
    taken = [p.expr(f.children[0].children[0]) for f in functions if f.children[0].kind in ONE_ROW]
    within = partial(in_order, order=[o for o in order if o.expr.column not in keys], taken=taken)
    for function in functions:
        number = function.fields["resultId"]
        if number not in values:
            values[number] = _add_call(w, p, function, labels.get(number), calls, within)
    node = Aggregate(node, keys, tuple(calls.values()))
    grouped = Relation(node, {id: c for id, c in input.columns.items() if c.name in keys})
    grouped, p = w.attach_subqueries(grouped, [s for result in results for s in _subqueries_outside_calls(result)])
    return w.select(grouped, replace(p, calls=values), results)


def _add_call(
    w: Walker, p: Translator, e: Expression, label: str | None, calls: dict[str, Call], within: Callable[[Call], Call]
) -> Expr:
    """Add the call to `calls`, unless an equal one is there; return the expression of its value."""
    if e.children[0].kind == "PivotFirst":
        return _pivot(w, p, e, calls)
    made = within(call(p, e, w.names.column(label or e.children[0].function, e.type, e.nullable)))
    return calls.setdefault(made.sql, made).column.ref


def _pivot(w: Walker, p: Translator, e: Expression, calls: dict[str, Call]) -> Expr:
    """PIVOT, which Catalyst makes an array with an element for each value, over one row for each value."""
    function = e.children[0]
    pivot, value = map(p.expr, function.children)
    parts = []
    for wanted in function.extra["pivot_values"]:
        chosen = when(equal(pivot, literal(wanted), null_safe=True), value)
        made = Call(w.names.column(function.function, value.type), "max", (chosen,))
        parts.append(calls.setdefault(made.sql, made).column.ref)
    return Apply("CreateArray", tuple(parts), e.type, nullable=False)


def _subqueries_outside_calls(e: Expression) -> Iterator[Expression]:
    if e.kind in ("ScalarSubquery", "Exists"):
        yield e
    elif e.kind != "AggregateExpression":
        for child in e.children:
            yield from _subqueries_outside_calls(child)


def window(w: Walker, op: Operator) -> Relation:
    items: list[Expression] = op.fields["windowExpressions"]
    input, p = w.attach_subqueries(w.walk(op.child), items)
    node, partition = w.with_keys(input, p, op.fields["partitionSpec"])
    made = [w.names.column(item.name, item.type, item.nullable) for item in items]
    calls = tuple(window_call(p, item.children[0], column) for item, column in zip(items, made, strict=True))
    _refuse_arbitrary_rows(calls)
    columns = {**input.columns, **ids(items, made)}
    if (
        isinstance(node, Window)
        and node.partition == partition
        and not _columns_read(calls) & {c.column.name for c in node.calls}
    ):
        return Relation(Window(node.input, partition, (*node.calls, *calls)), columns)
    return Relation(Window(node, partition, calls), columns)


def _columns_read(calls: Iterable[WindowCall]) -> set[str]:
    return {name for c in calls for e in c.inputs for name in e.columns}


def _refuse_arbitrary_rows(calls: Iterable[WindowCall]) -> None:
    """Nobody can write row_number() without an order: Spark makes it of a LIMIT whose order it does not see."""
    if any(call.call.function == "row_number" and not call.order for call in calls):
        raise Unsupported("LIMIT without ORDER BY in a correlated subquery, which may return any rows")


# ---------------------------------------------------------------- order


def limit(w: Walker, op: Operator) -> Relation:
    return with_order(w, op)[0]


OPERATORS: dict[str, Callable[[Walker, Operator], Relation]] = {
    "View": view,
    "LocalRelation": local_relation,
    "ResolvedInlineTable": inline_table,
    "OneRowRelation": one_row,
    "Range": number_range,
    "Project": one_by_one,
    "Filter": one_by_one,
    "Generate": generate,
    "Join": join,
    "Union": union,
    "Except": set_operator,
    "Intersect": set_operator,
    "Expand": one_by_one,
    "UnionLoop": union_loop,
    "UnionLoopRef": union_loop_ref,
    "Aggregate": aggregate,
    "Window": window,
    "GlobalLimit": limit,
    "LocalLimit": limit,
    "Offset": limit,
    "Sort": same,
    "Repartition": same,
    "RepartitionByExpression": same,
    "RebalancePartitions": same,
    "ResolvedHint": same,
    "CollectMetrics": same,
    "EventTimeWatermark": same,
}
