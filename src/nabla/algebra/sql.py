"""The algebra as Spark SQL.

One query a tree: every node becomes a SELECT over its inputs, and a subtree that occurs twice becomes a common table
expression. A signed node carries its weights in the column `_n`; an unsigned one has no such column and every row counts
once. Lowering is total: `test_every_node_has_a_lowering` keeps it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from nabla.algebra.calls import Call, Order, WindowCall
from nabla.algebra.expressions import Column, Expr, quote
from nabla.algebra.map_keys import group_key, shape_of
from nabla.algebra.memo import Memo, count_uses
from nabla.algebra.names import WEIGHT_FIELD
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
    JoinKind,
    MalformedPlan,
    Negate,
    Node,
    Opaque,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.traverse import parts

Relation = Callable[[Scan], str]
"""The name under which a scanned relation is registered; a DELTA relation has a column `_n`."""

Hint = Callable[[Join], Literal["left", "right", None]]
"""Which side of a join is to be broadcast."""

Stem = Callable[[Node], str]
"""The name of a node's common table expression, without its number; empty where it needs none."""


def to_sql(node: Node, relation: Relation, hint: Hint = lambda join: None, stem: Stem = lambda node: "") -> str:
    """The whole tree as one query; its columns are node.columns, and `_n` if the node is signed."""
    return SqlPrinter(relation, hint, stem).query(node)


def _shown_keys(keys: Mapping[str, str]) -> list[str]:
    """The columns that rows are grouped by, as a SELECT shows them: one of those that are grouped by something else."""
    return [name if key == name else f"first({name}) AS {name}" for name, key in keys.items()]


def _select(node: Node, columns: str, rest: str, weight: str = WEIGHT_FIELD) -> str:
    signed = f", {weight}" if node.signed else ""
    return f"SELECT {(columns + signed).removeprefix(', ') or '1 AS _'} {rest}".rstrip()


class SqlPrinter:
    """Writes a tree as Spark SQL. Another dialect is a subclass that writes names, types and expressions in its own way."""

    join_words: Mapping[JoinKind, str] = {
        "inner": "JOIN",
        "left": "LEFT JOIN",
        "right": "RIGHT JOIN",
        "full": "FULL JOIN",
        "semi": "LEFT SEMI JOIN",
        "anti": "LEFT ANTI JOIN",
    }
    table_word = "AS"
    """The word between the name of a common table expression and its query."""

    def __init__(self, relation: Relation, hint: Hint, stem: Stem) -> None:
        self.relation = relation
        self.hint = hint
        self.stem = stem
        self.uses: Memo[Node, int] = Memo()
        self.shared: Memo[Node, tuple[str, str]] = Memo()
        self.texts: Memo[Node, str] = Memo()
        self.levels: dict[str, str] = {}
        self.lowerings: dict[type, Callable[..., str]] = {
            Scan: self.scan,
            Constant: self.constant,
            Filter: self.filter,
            Project: self.project,
            Join: self.join,
            UnionAll: self.union,
            Negate: self.negate,
            Weigh: self.weigh,
            Unweigh: self.unweigh,
            Consolidate: self.consolidate,
            Distinct: self.distinct,
            Aggregate: self.aggregate,
            Window: self.window,
            TopK: self.topk,
            ExceptAll: self.except_all,
            IntersectAll: self.intersect_all,
            Generate: self.generate,
            Recursion: self.recursion,
            Opaque: self.opaque,
        }

    def quote(self, name: str) -> str:
        return quote(name)

    def spell_type(self, ddl: str) -> str:
        return ddl

    def expression(self, expr: Expr) -> str:
        return expr.sql

    def call(self, call: Call) -> str:
        return call.sql

    def over(self, call: WindowCall, partition: tuple[str, ...]) -> str:
        return call.over(partition)

    def order(self, order: Order) -> str:
        return f"{self.expression(order.expr)} {order.direction}"

    def total(self, weight: str) -> str:
        """The sum of weights, a BIGINT as they are."""
        return f"SUM({weight})"

    def query(self, node: Node) -> str:
        found = parts(node)
        self.uses = count_uses((node,), lambda part: part.inputs)
        if not any(isinstance(part, Recursion) for part in found):  # whose parts are written by a printer of their own
            for part in found[:-1]:
                self._write(part)
        body = self.lower(node)
        if not self.shared:
            return body
        tables = ",\n".join(f"{name} {self.table_word} ({text})" for name, text in self.shared.values())
        return f"WITH {tables}\n{body}"

    def source(self, node: Node, alias: str) -> str:
        """The node as an item of a FROM clause."""
        if node not in self.shared and node not in self.texts:
            self._write(node)
        if node in self.shared:
            return f"{self.shared[node][0]} AS {alias}"
        text = self.texts[node] if self.uses.get(node, 0) > 1 else self.texts.pop(node)
        return f"({text}) AS {alias}"

    def _write(self, node: Node) -> None:
        """Write a node before the nodes that read it: a deep plan then needs no deep stack."""
        stem = self.stem(node) or ("shared" if self.uses.get(node, 0) > 1 else "")
        text = self.lower(node)
        if stem and not isinstance(node, Scan | Constant):
            self.shared[node] = (f"{stem}{len(self.shared)}", text)
        else:
            self.texts[node] = text

    def lower(self, node: Node) -> str:
        if type(node) not in self.lowerings:
            raise MalformedPlan(f"{type(node).__name__} has no lowering to SQL")
        return self.lowerings[type(node)](node)

    def scan(self, node: Scan) -> str:
        columns = ", ".join(
            f"{self.quote(f)} AS {self.quote(c.name)}" for f, c in zip(node.fields, node.output, strict=True)
        )
        return _select(node, columns, f"FROM {self.levels.get(node.table) or self.relation(node)}")

    def constant(self, node: Constant) -> str:
        if not node.rows:
            nulls = ", ".join(f"CAST(NULL AS {self.spell_type(c.type)}) AS {self.quote(c.name)}" for c in node.output)
            return f"SELECT {nulls or '1 AS _'} WHERE false"
        rows = (
            ", ".join(
                f"CAST({self.expression(v)} AS {self.spell_type(c.type)}) AS {self.quote(c.name)}"
                for v, c in zip(row, node.output, strict=True)
            )
            for row in node.rows
        )
        return " UNION ALL ".join(f"SELECT {row or '1 AS _'}" for row in rows)

    def filter(self, node: Filter) -> str:
        where = " AND ".join(f"({self.expression(c)})" for c in node.conjuncts) or "true"
        return _select(node, self._list(node.columns), f"FROM {self.source(node.input, 's')} WHERE {where}")

    def project(self, node: Project) -> str:
        columns = ", ".join(f"{self.expression(o.expr)} AS {self.quote(o.column.name)}" for o in node.outputs)
        return _select(node, columns, f"FROM {self.source(node.input, 's')}")

    def join(self, node: Join) -> str:
        left, right = self.source(node.left, "l"), self.source(node.right, "r")
        on = " AND ".join(f"({self.expression(c)})" for c in node.on) or "true"
        side = self.hint(node)
        hint = f"/*+ BROADCAST({side[0]}) */ " if side else ""
        weights = [f"{a}.{WEIGHT_FIELD}" for a, n in (("l", node.left), ("r", node.right)) if n.signed]
        if node.kind in ("semi", "anti"):
            weights = [f"l.{WEIGHT_FIELD}"] if node.left.signed else []
        columns = ", ".join(
            [self.quote(c.name) for c in node.columns] + [f"{' * '.join(weights)} AS {WEIGHT_FIELD}"] * bool(weights)
        )
        return f"SELECT {hint}{columns or '1 AS _'} FROM {left} {self.join_words[node.kind]} {right} ON {on}"

    def union(self, node: UnionAll) -> str:
        def member(part: Node) -> str:
            columns = ", ".join(
                f"{self.quote(c.name)} AS {self.quote(o.name)}" for c, o in zip(part.columns, node.output, strict=True)
            )
            weight = WEIGHT_FIELD if part.signed else f"CAST(1 AS BIGINT) AS {WEIGHT_FIELD}"
            return _select(node, columns, f"FROM {self.source(part, 's')}", weight)

        return " UNION ALL ".join(member(part) for part in node.members)

    def negate(self, node: Negate) -> str:
        weight = f"-{WEIGHT_FIELD} AS {WEIGHT_FIELD}" if node.input.signed else f"CAST(-1 AS BIGINT) AS {WEIGHT_FIELD}"
        return _select(node, self._list(node.columns), f"FROM {self.source(node.input, 's')}", weight)

    def weigh(self, node: Weigh) -> str:
        weight = WEIGHT_FIELD if node.input.signed else "CAST(1 AS BIGINT)"
        columns = [self.quote(c.name) for c in node.input.columns] + [f"{weight} AS {self.quote(node.weight.name)}"]
        return f"SELECT {', '.join(columns)} FROM {self.source(node.input, 's')}"

    def unweigh(self, node: Unweigh) -> str:
        return _select(
            node,
            self._list(node.columns),
            f"FROM {self.source(node.input, 's')}",
            f"{self.quote(node.weight)} AS {WEIGHT_FIELD}",
        )

    def consolidate(self, node: Consolidate) -> str:
        keys = self.group_keys(node.columns)
        columns = ", ".join(_shown_keys(keys))
        weight = f"{self.total(WEIGHT_FIELD)} AS {WEIGHT_FIELD}" if node.input.signed else f"COUNT(*) AS {WEIGHT_FIELD}"
        test = f"SUM({WEIGHT_FIELD}) <> 0" if node.input.signed else "COUNT(*) <> 0"
        group = f"GROUP BY {', '.join(keys.values())} " if columns else ""
        return _select(node, columns, f"FROM {self.source(node.input, 's')} {group}HAVING {test}", weight)

    def group_keys(self, columns: Iterable[Column]) -> dict[str, str]:
        """The names of columns, each with the SQL that rows are grouped by for it."""
        return {self.quote(c.name): group_key(self.quote(c.name), shape_of(c.type)) for c in columns}

    def distinct(self, node: Distinct) -> str:
        return f"SELECT DISTINCT {self._list(node.columns) or '1 AS _'} FROM {self.source(node.input, 's')}"

    def aggregate(self, node: Aggregate) -> str:
        keys = self.group_keys(node.input.column(k) for k in node.keys)
        columns = [*_shown_keys(keys), *(f"{self.call(c)} AS {self.quote(c.column.name)}" for c in node.calls)]
        if not columns:  # SELECT DISTINCT of no columns: a row if there is any
            return f"SELECT 1 AS _ FROM {self.source(node.input, 's')} HAVING COUNT(*) > 0"
        group = f"GROUP BY {', '.join(keys.values())}" if keys else ""
        return f"SELECT {', '.join(columns)} FROM {self.source(node.input, 's')} {group}".rstrip()

    def window(self, node: Window) -> str:
        columns = [self.quote(c.name) for c in node.input.columns]
        columns += [f"{self.over(c, node.partition)} AS {self.quote(c.column.name)}" for c in node.calls]
        return f"SELECT {', '.join(columns)} FROM {self.source(node.input, 's')}"

    def topk(self, node: TopK) -> str:
        order = f" ORDER BY {', '.join(map(self.order, node.order))}" if node.order else ""
        limit = f" LIMIT {node.limit}" if node.limit is not None else ""
        offset = f" OFFSET {node.offset}" if node.offset else ""
        return f"SELECT {self._list(node.columns)} FROM {self.source(node.input, 's')}{order}{limit}{offset}"

    def bag_operator(self, node: ExceptAll | IntersectAll, word: str) -> str:
        left, right = self.source(node.left, "s"), self.source(node.right, "s")
        columns, others = (self._list(side.columns) or "1 AS _" for side in node.inputs)
        return f"(SELECT {columns} FROM {left}) {word} (SELECT {others} FROM {right})"

    def except_all(self, node: ExceptAll) -> str:
        return self.bag_operator(node, "EXCEPT ALL")

    def intersect_all(self, node: IntersectAll) -> str:
        return self.bag_operator(node, "INTERSECT ALL")

    def generate(self, node: Generate) -> str:
        outer = "OUTER " if node.outer else ""
        output = f" AS {self._list(node.output)}" if node.output else ""
        view = f"LATERAL VIEW {outer}{self.expression(node.generator)} g{output}"
        return _select(node, self._list(node.columns), f"FROM {self.source(node.input, 's')} {view}")

    def recursion(self, node: Recursion) -> str:
        name, columns = f"levels{len(self.levels)}", [f"c{i}" for i in range(len(node.output))]
        # A common table expression outside of the recursion must not be used inside of its step.
        inner = SqlPrinter(self.relation, self.hint, lambda node: "")
        inner.levels = {**self.levels, node.table: name}
        most = f" MAX RECURSION LEVEL {node.most_levels}" if node.most_levels >= 0 else ""
        outputs = ", ".join(f"{c} AS {self.quote(o.name)}" for c, o in zip(columns, node.output, strict=True))
        union = " UNION " if node.once else " UNION ALL "
        parts = union.join(f"SELECT * FROM ({inner.lower(part)})" for part in (node.start, node.step))
        return f"WITH RECURSIVE {name}({', '.join(columns)}){most} AS ({parts}) SELECT {outputs} FROM {name}"

    def opaque(self, node: Opaque) -> str:
        columns = ", ".join(self.quote(c.name) for c in node.output)
        return f"SELECT * FROM ({node.sql}) AS o({columns})"

    def _list(self, columns: Iterable[Column]) -> str:
        return ", ".join(self.quote(c.name) for c in columns)
