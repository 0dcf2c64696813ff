"""The walk from Catalyst's operators to the algebra: its state, and steps that several operators share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count

from nabla.algebra.build import compare, number, when
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr, Foreign
from nabla.algebra.nodes import Aggregate, Constant, Join, JoinKind, Node, Project, UnionAll
from nabla.frontends.spark_sql.expressions import Translator, Unsupported
from nabla.frontends.spark_sql.scope import Names, Relation, extended
from nabla.frontends.spark_sql.tree import Expression, Operator

LEVELS, ROWS = "spark.sql.cteRecursionLevelLimit", "spark.sql.cteRecursionRowLimit"
SETTINGS = (LEVELS, ROWS)
"""Settings of the session that are part of what a query means."""
_TOO_MANY_ROWS = "raise_error('SCALAR_SUBQUERY_TOO_MANY_ROWS: a subquery used as a value returned more than one row')"


class Walker:
    """Walks one plan. `tables` maps the name of each table of the lake in lower case to its name, `udfs` the number of each
    Python function to the name it is registered under. `loops` are the recursions that it is inside of."""

    def __init__(
        self,
        operators: Mapping[str, Callable[[Walker, Operator], Relation]],
        tables: Mapping[str, str],
        udfs: Mapping[int, str],
        settings: Mapping[str, str],
    ) -> None:
        self.operators = operators
        self.tables = tables
        self.udfs = udfs
        self.settings = settings
        self.names = Names()
        self.loops: dict[int, str] = {}
        self.levels = (f"level·{number}" for number in count(1))

    def walk(self, op: Operator) -> Relation:
        try:
            if op.kind not in self.operators:
                raise Unsupported(f"the operator {op.kind}")
            return self.operators[op.kind](self, op)
        except Unsupported as refusal:
            # Rules make operators that stand nowhere in the text; then the nearest one below does.
            refusal.place = refusal.place or next((below.place for below in op.walk() if below.place), "")
            raise

    def attached(self, input: Relation, expressions: Iterable[Expression]) -> tuple[Relation, Translator]:
        """The input joined with the subqueries that these expressions use as values, and a printer that knows their columns."""
        subqueries: dict[int, Column] = {}
        node = input.node
        for part in (part for expression in expressions for part in expression.walk()):
            if part.kind in ("ScalarSubquery", "Exists") and part.fields["exprId"] not in subqueries:
                plan = part.extra["plan"]
                inner, value, kind = self.scalar(plan) if part.kind == "ScalarSubquery" else self.number(plan)
                node = Join(node, inner, (), kind)
                subqueries[part.fields["exprId"]] = value
        return replace(input, node=node), Translator(input.columns, self.udfs, subqueries)

    def scalar(self, plan: Operator) -> tuple[Node, Column, JoinKind]:
        """A subquery used as a value: a node of at most one row, its column, and how it joins without losing a row."""
        inner = self.walk(plan)
        (value,) = inner.only(plan.output).columns.values()
        if _has_one_row(plan):
            return inner.node, value, "inner"
        if plan.max_rows is not None and plan.max_rows <= 1:
            return inner.node, value, "left"
        single, count = self.single(inner.node, (), [value])
        column = self.names.column(value.label, value.type)
        return Project(single, (Named(column, checked(single.calls[0].column, count)),)), column, "inner"

    def number(self, plan: Operator) -> tuple[Node, Column, JoinKind]:
        """EXISTS of a subquery that does not look outside: there is a row if there is more than none."""
        count = self.names.column("rows", "bigint", nullable=False)
        return Aggregate(self.walk(plan).node, (), (Call(count, "count"),)), count, "inner"

    def single(self, node: Node, keys: tuple[str, ...], values: Iterable[Column]) -> tuple[Aggregate, Column]:
        """One row a key with the values of its only row, and the column that tells how many rows there were."""
        calls = []
        for value in values:
            # Of a single row the greatest value is the value; unlike `first`, `max` can be kept up to date by itself.
            function = "first" if "map<" in value.type or value.type == "variant" else "max"
            calls.append(Call(self.names.column(value.label, value.type), function, (value.ref,)))
        count = self.names.column("rows", "bigint", nullable=False)
        return Aggregate(node, keys, (*calls, Call(count, "count"))), count

    def selected(self, input: Relation, p: Translator, items: Iterable[Expression]) -> Relation:
        """The columns of a select list. Renaming alone takes no node."""
        columns: dict[int, Column] = {}
        outputs: dict[str, Named] = {}
        for item in items:
            assert item.id is not None
            expr = p.expr(item)
            name = expr.column
            column = input.node.column(name) if name else self.names.column(item.name, expr.type, expr.nullable)
            outputs[column.name] = Named(column, expr)
            columns[item.id] = column
        if all(o.is_rename for o in outputs.values()):
            return Relation(input.node, columns)
        made = tuple(outputs.values())
        if isinstance(input.node, Constant) and input.node.rows == ((),):
            return Relation(Constant(tuple(o.column for o in made), (tuple(o.expr for o in made),)), columns)
        return Relation(Project(input.node, made), columns)

    def expanded(self, input: Relation, op: Operator, kept: Iterable[Column]) -> tuple[Relation, tuple[Column, ...]]:
        """Grouping sets and unpivot: every row once for each projection. Also some columns that all of them keep."""
        projections: list[list[Expression]] = op.fields["projections"]
        input, p = self.attached(input, [e for projection in projections for e in projection])
        beside = tuple(kept)

        def columns() -> tuple[Column, ...]:
            return (*map(self.names.of, op.output), *(self.names.column(c.label, c.type, c.nullable) for c in beside))

        def member(projection: list[Expression]) -> Project:
            exprs = (*map(p.expr, projection), *(c.ref for c in beside))
            return Project(input.node, tuple(map(Named, columns(), exprs)))

        node = UnionAll(tuple(map(member, projections)), columns())
        own = len(op.output)
        return Relation(node, ids(op.output, node.columns[:own])), node.columns[own:]

    def keyed(self, input: Relation, p: Translator, groups: Iterable[Expression]) -> tuple[Node, tuple[str, ...]]:
        """The input with every key as a column, and the keys."""
        keys: dict[str, None] = {}
        additions: list[tuple[Column, Expr]] = []
        for group in groups:
            expr = p.expr(group)
            if not expr.column:
                column = self.names.column("key", expr.type, expr.nullable)
                additions.append((column, expr))
            keys[expr.column or column.name] = None
        return extended(input.node, additions), tuple(keys)


def checked(value: Column, count: Column) -> Expr:
    """The value of a subquery's only row; Spark fails where there are more, and so must we."""
    return when(compare(count.ref, ">", number(1)), Foreign(_TOO_MANY_ROWS, (), value.type), value.ref)


def ids(attributes: Iterable[Expression], columns: Iterable[Column]) -> dict[int, Column]:
    return {a.id: c for a, c in zip(attributes, columns, strict=True) if a.id is not None}


def _has_one_row(plan: Operator) -> bool:
    """Whether the plan always gives exactly one row."""
    while plan.kind in ("Project", "Sort"):
        plan = plan.child
    return plan.kind == "OneRowRelation" or (plan.kind == "Aggregate" and not plan.fields["groupingExpressions"])
