"""A query of the algebra as DuckDB SQL, if DuckDB gives what Spark would give, whatever the rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from nabla.algebra.build import equal, when
from nabla.algebra.calls import Call, Named, WindowCall
from nabla.algebra.expressions import Apply, Expr, Literal
from nabla.algebra.names import WEIGHT_FIELD
from nabla.algebra.nodes import (
    Aggregate,
    Consolidate,
    Distinct,
    ExceptAll,
    Generate,
    IntersectAll,
    JoinKind,
    Node,
    Opaque,
    Project,
    Recursion,
    Scan,
    Window,
)
from nabla.algebra.sql import Relation, SqlPrinter
from nabla.engine.driver.duckdb_expressions import convert, spell
from nabla.engine.driver.duckdb_types import FLOATING, NotExact, is_key_type, quote, spell_type

_AGGREGATES = frozenset(("sum", "count", "min", "max"))
_RANKS = frozenset(("rank", "dense_rank"))


def to_duckdb(node: Node, relation: Relation) -> str:
    """The whole tree as one query. Its columns are those of the node, in that order and of these types, and `_n` if the node
    is signed. Raises `NotExact` where DuckDB may answer otherwise than Spark."""
    columns = [f"CAST({quote(c.name)} AS {spell_type(c.type)})" for c in node.columns]
    if not columns:
        raise NotExact("a query without columns")
    return (
        f"SELECT {', '.join(columns + [WEIGHT_FIELD] * node.signed)} FROM ({DuckdbPrinter(relation).query(node)}) AS s"
    )


class DuckdbPrinter(SqlPrinter):
    """Writes DuckDB's dialect, and refuses what the two engines compute, group or order differently."""

    join_words: Mapping[JoinKind, str] = {**SqlPrinter.join_words, "semi": "SEMI JOIN", "anti": "ANTI JOIN"}
    table_word = "AS MATERIALIZED"

    def __init__(self, relation: Relation) -> None:
        super().__init__(relation, lambda join: None, lambda node: "")

    def quote(self, name: str) -> str:
        return quote(name)

    def spell_type(self, ddl: str) -> str:
        return spell_type(ddl)

    def expression(self, expr: Expr) -> str:
        return spell(expr)

    def total(self, weight: str) -> str:
        return f"CAST(SUM({weight}) AS BIGINT)"

    def call(self, call: Call) -> str:
        """An aggregate function; a sum that does not fit its type raises, as Spark's does."""
        arguments = ", ".join(map(spell, call.arguments)) or "*"
        plain = call.function in _AGGREGATES and len(call.arguments) <= 1 and not call.template
        if not plain or not all(is_key_type(a.type) for a in call.arguments):
            raise NotExact(f"{call}")
        distinct = "DISTINCT " if call.distinct else ""
        kept = f" FILTER (WHERE {spell(call.filter)})" if call.filter else ""
        return f"CAST({call.function}({distinct}{arguments}){kept} AS {spell_type(call.column.type)})"

    def over(self, call: WindowCall, partition: tuple[str, ...]) -> str:
        """A window function; only ranks are exact, because they do not depend on the order of equal rows."""
        if call.call.function not in _RANKS or call.frame:
            raise NotExact(f"{call.call}")
        keys = f"PARTITION BY {', '.join(map(quote, partition))} " if partition else ""
        order = f"ORDER BY {', '.join(map(self.order, call.order))}"
        return f"CAST({call.call.function}() OVER ({keys}{order}) AS {spell_type(call.column.type)})"

    def scan(self, node: Scan) -> str:
        for column in node.output:
            spell_type(column.type)
        return super().scan(node)

    def consolidate(self, node: Consolidate) -> str:
        return super().consolidate(replace(node, input=_one_zero(node.input)))

    def distinct(self, node: Distinct) -> str:
        return super().distinct(replace(node, input=_one_zero(node.input)))

    def bag_operator(self, node: ExceptAll | IntersectAll, word: str) -> str:
        return super().bag_operator(replace(node, left=_one_zero(node.left), right=_one_zero(node.right)), word)

    def aggregate(self, node: Aggregate) -> str:
        if node.input.signed:
            raise NotExact("an aggregate over signed rows")
        return super().aggregate(replace(node, input=_one_zero(node.input, node.keys)))

    def window(self, node: Window) -> str:
        for column in (node.input.column(key) for key in node.partition):
            if not is_key_type(column.type):
                raise NotExact(f"rows are parted by values of type {column.type}")
        return super().window(node)

    def generate(self, node: Generate) -> str:
        generator = node.generator
        if node.outer or not isinstance(generator, Apply):
            raise NotExact(f"{generator}")
        match generator.function, generator.arguments:
            case "Stack", (_, *values) if len(values) % len(node.output) == 0:
                return self._stack(node, values)
            case "Explode", (Apply(function="Sequence", arguments=(first, last)),):
                return self._numbers(node, first, last)
        raise NotExact(f"{generator}")

    def _stack(self, node: Generate, values: list[Expr]) -> str:
        """Each row of the stack is a query of its own over the input, which is computed once."""
        self.uses[node.input] = 2
        rows, width = [], len(node.output)
        for start in range(0, len(values), width):
            row = values[start : start + width]
            made = [
                f"{convert(spell(v), v.type, c.type)} AS {quote(c.name)}" for v, c in zip(row, node.output, strict=True)
            ]
            kept = [quote(c.name) for c in node.input.columns]
            weight = [WEIGHT_FIELD] * node.signed
            rows.append(f"SELECT {', '.join([*kept, *made, *weight])} FROM {self.source(node.input, 's')}")
        return " UNION ALL ".join(rows)

    def _numbers(self, node: Generate, first: Expr, last: Expr) -> str:
        """The whole numbers from the first to the last one. Spark counts down where the last is the smaller one."""
        (column,) = node.output
        start, end = spell(first), spell(last)
        numbers = f"CASE WHEN {end} < {start} THEN error('counts down') ELSE range({start}, {end} + 1) END"
        kept = [quote(c.name) for c in node.input.columns]
        made = f"unnest({numbers}) AS {quote(column.name)}"
        columns = ", ".join([*kept, made, *[WEIGHT_FIELD] * node.signed])
        return f"SELECT {columns} FROM {self.source(node.input, 's')}"

    def recursion(self, node: Recursion) -> str:
        raise NotExact("a recursion")

    def opaque(self, node: Opaque) -> str:
        raise NotExact("a query without algebra")


def _one_zero(node: Node, keys: Collection[str] | None = None) -> Node:
    """The node with 0.0 for -0.0 in the columns that rows are grouped or compared by, all of them unless `keys` are given. Both
    engines take the two zeros for one value; Spark shows 0.0 then, DuckDB whichever came first."""
    grouped = node.names if keys is None else keys
    floating = {c.name for c in node.columns if c.type in FLOATING and c.name in grouped}
    if not floating:
        return node
    zero = Literal("0.0", "double")
    values = {c: when(equal(c.ref, zero), zero, c.ref) if c.name in floating else c.ref for c in node.columns}
    return Project(node, tuple(Named(c, value) for c, value in values.items()))
