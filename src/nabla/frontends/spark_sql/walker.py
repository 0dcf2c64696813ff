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
from nabla.frontends.spark_sql.scope import ColumnNames, Relation, with_columns
from nabla.frontends.spark_sql.tree import Expression, Operator

LEVELS, ROWS = "spark.sql.cteRecursionLevelLimit", "spark.sql.cteRecursionRowLimit"
SETTINGS = (LEVELS, ROWS)
"""Settings of the session that are part of what a query means."""
_TOO_MANY_ROWS = "raise_error('SCALAR_SUBQUERY_TOO_MANY_ROWS: a subquery used as a value returned more than one row')"


class Walker:
    """Walks one plan. `tables` maps the name of each table of the lake in lower case to its name, `udfs` the number of each
    Python function to its registered name. `loops` are the recursions around the current operator."""

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
        self.names = ColumnNames()
        self.loops: dict[int, str] = {}
        self.levels = (f"level·{number}" for number in count(1))

    def walk(self, op: Operator) -> Relation:
        try:
            if op.kind not in self.operators:
                raise Unsupported(f"the operator {op.kind}")
            return self.operators[op.kind](self, op)
        except Unsupported as refusal:
            # An operator that Spark's rules made has no place in the text; the nearest operator below it has one.
            refusal.place = refusal.place or next((below.place for below in op.walk() if below.place), "")
            raise

    def attach_subqueries(self, input: Relation, expressions: Iterable[Expression]) -> tuple[Relation, Translator]:
        """The input joined with the subqueries in these expressions, and a translator that knows their columns."""
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
        """A subquery that is used as a value: a node of at most one row, its column, and the kind of join that loses no row."""
        inner = self.walk(plan)
        (value,) = inner.only(plan.output).columns.values()
        if _has_one_row(plan):
            return inner.node, value, "inner"
        if plan.max_rows is not None and plan.max_rows <= 1:
            return inner.node, value, "left"
        single, count = self.single(inner.node, (), [value])
        column = self.names.column(value.label, value.type)
        return Project(single, (Named(column, check_single(single.calls[0].column, count)),)), column, "inner"

    def number(self, plan: Operator) -> tuple[Node, Column, JoinKind]:
        """The number of rows of an uncorrelated EXISTS subquery: EXISTS is true if the count is above zero."""
        count = self.names.column("rows", "bigint", nullable=False)
        return Aggregate(self.walk(plan).node, (), (Call(count, "count"),)), count, "inner"

    def single(self, node: Node, keys: tuple[str, ...], values: Iterable[Column]) -> tuple[Aggregate, Column]:
        """One row for each key with the values of its only row, and the column that counts its rows."""
        calls = []
        for value in values:
            # The greatest value of a single row is its value. Unlike `first`, `max` is maintained without reading the rows.
            function = "first" if "map<" in value.type or value.type == "variant" else "max"
            calls.append(Call(self.names.column(value.label, value.type), function, (value.ref,)))
        count = self.names.column("rows", "bigint", nullable=False)
        return Aggregate(node, keys, (*calls, Call(count, "count"))), count

    def select(self, input: Relation, p: Translator, items: Iterable[Expression]) -> Relation:
        """The relation with the columns of a select list. Renaming alone makes no node."""
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

    def expand(self, input: Relation, op: Operator, kept: Iterable[Column]) -> tuple[Relation, tuple[Column, ...]]:
        """Grouping sets and unpivot: every row once for each projection, and the new columns for `kept` ones."""
        projections: list[list[Expression]] = op.fields["projections"]
        input, p = self.attach_subqueries(input, [e for projection in projections for e in projection])
        beside = tuple(kept)

        def columns() -> tuple[Column, ...]:
            return (*map(self.names.of, op.output), *(self.names.column(c.label, c.type, c.nullable) for c in beside))

        def member(projection: list[Expression]) -> Project:
            exprs = (*map(p.expr, projection), *(c.ref for c in beside))
            return Project(input.node, tuple(map(Named, columns(), exprs)))

        node = UnionAll(tuple(map(member, projections)), columns())
        own = len(op.output)
        return Relation(node, ids(op.output, node.columns[:own])), node.columns[own:]

    def with_keys(self, input: Relation, p: Translator, groups: Iterable[Expression]) -> tuple[Node, tuple[str, ...]]:
        """The input with every key as a column, and the names of these columns."""
        keys: dict[str, None] = {}
        additions: list[tuple[Column, Expr]] = []
        for group in groups:
            expr = p.expr(group)
            if not expr.column:
                column = self.names.column("key", expr.type, expr.nullable)
                additions.append((column, expr))
            keys[expr.column or column.name] = None
        return with_columns(input.node, additions), tuple(keys)


def check_single(value: Column, count: Column) -> Expr:
    """The value of a subquery's only row. It fails if there are more rows, as Spark does."""
    return when(compare(count.ref, ">", number(1)), Foreign(_TOO_MANY_ROWS, (), value.type), value.ref)


def ids(attributes: Iterable[Expression], columns: Iterable[Column]) -> dict[int, Column]:
    return {a.id: c for a, c in zip(attributes, columns, strict=True) if a.id is not None}


def _has_one_row(plan: Operator) -> bool:
    """Whether the plan always gives exactly one row."""
    while plan.kind in ("Project", "Sort"):
        plan = plan.child
    return plan.kind == "OneRowRelation" or (plan.kind == "Aggregate" and not plan.fields["groupingExpressions"])
