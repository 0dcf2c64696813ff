"""Supersets of the rows of a query, which the driver knows before the query runs.

A piece is a table of some of the query's columns. Every row of the query has, in these columns, the values of some row of
the piece. Pieces start at relations that are at hand, such as a change, lose the rows that a filter drops, and, where a
join equates columns, those that meet nothing on its other side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from nabla.algebra.equalities import exactly_equal_columns
from nabla.algebra.expressions import Expr
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
from nabla.algebra.reference.evaluator import CannotEvaluate, SparkWouldFail, compile_expression, named_layout

Held = Callable[[Scan], pa.Table | None]
"""The rows of a relation in the order of its scan's columns, if they are at hand."""
Pieces = tuple[pa.Table, ...]

MOST_TESTED = 20_000
"""Rows, or different values of a column, that the driver tests against a filter."""
_TESTED_TYPES = ("string", "date", "tinyint", "smallint", "int", "bigint", "decimal", "boolean")


class ValueBounds:
    """Pieces of queries, each found once."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self._pieces: Memo[Node, Pieces] = Memo()
        self._values: Memo[pa.Table, dict[str, pa.Array]] = Memo()

    def values(self, node: Node, name: str) -> pa.Array | None:
        """All values that a column can have, and perhaps more; None where nothing is known."""
        return self._distinct(self.pieces(node), name)

    def empty(self, node: Node) -> bool:
        """Whether the query is known to have no rows."""
        return any(piece.num_rows == 0 for piece in self.pieces(node))

    def _distinct(self, pieces: Pieces, name: str) -> pa.Array | None:
        for piece in pieces:
            if name in piece.column_names and not pa.types.is_nested(piece[name].type):
                values = self._values.setdefault(piece, {})
                if name not in values:
                    values[name] = _unique(piece[name])
                return values[name]
        return None

    def pieces(self, node: Node) -> Pieces:
        return self._pieces.once(node, lambda node: tuple(p for p in self._find(node) if p.num_columns))

    def _find(self, node: Node) -> Pieces:
        match node:
            case Scan():
                rows = self.held(node)
                return () if rows is None else (rows.rename_columns([c.name for c in node.output]),)
            case Constant(rows=()):
                return (pa.table({c.name: pa.nulls(0) for c in node.output}),)
            case Filter():
                return tuple(_pass_filter(piece, node) for piece in self.pieces(node.input))
            case Project():
                return tuple(_rename(piece, node) for piece in self.pieces(node.input))
            case Negate() | Consolidate() | Unweigh() | Weigh() | Distinct() | TopK() | Window() | Generate():
                return self.pieces(node.inputs[0])
            case ExceptAll() | IntersectAll():
                return self.pieces(node.left)
            case Aggregate():
                return tuple(piece.select(_present(piece, node.keys)) for piece in self.pieces(node.input))
            case UnionAll():
                return tuple(self._unite(node))
            case Join():
                return self._join(node)
        return ()

    def _unite(self, node: UnionAll) -> Iterator[pa.Table]:
        """Column by column: pieces of different members have nothing else in common."""
        for place, column in enumerate(node.output):
            values = [self.values(member, member.columns[place].name) for member in node.members]
            known = [v for v in values if v is not None]
            if len(known) == len(values) and len({v.type for v in known}) == 1:
                yield pa.table({column.name: _unique(pa.chunked_array(known))})

    def _join(self, node: Join) -> Pieces:
        left, right = self.pieces(node.left), self.pieces(node.right)
        match node.kind:
            case "inner":
                for mine, other in exactly_equal_columns(node):
                    left, right = self._meet(left, mine, right, other), self._meet(right, other, left, mine)
                return left + right
            case "semi":
                if self.empty(node.right):
                    return tuple(piece.slice(0, 0) for piece in left)
                for mine, other in exactly_equal_columns(node):
                    left = self._meet(left, mine, right, other)
                return left
            case "left" | "anti":
                return left
            case "right":
                return right
        return ()

    def _meet(self, pieces: Pieces, mine: str, others: Pieces, other: str) -> Pieces:
        """The pieces without rows that join nothing; a column equal to a known one becomes known, too."""
        wanted = self._distinct(others, other)
        if wanted is None:
            return pieces
        if not any(mine in piece.column_names for piece in pieces):
            return (*pieces, pa.table({mine: wanted}))
        return tuple(_keep_among(piece, mine, wanted) for piece in pieces)


def _keep_among(piece: pa.Table, name: str, wanted: pa.Array) -> pa.Table:
    if name not in piece.column_names or piece[name].type != wanted.type:
        return piece
    mask = pc.is_in(piece[name], value_set=wanted)
    return piece if pc.all(mask).as_py() else piece.filter(mask)


def _rename(piece: pa.Table, node: Project) -> pa.Table:
    found = {o.column.name: piece[c] for o in node.outputs if (c := o.expr.column) in piece.column_names}
    return pa.table(found)


def _present(piece: pa.Table, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in piece.column_names]


def _pass_filter(piece: pa.Table, node: Filter) -> pa.Table:
    for conjunct in node.conjuncts:
        if len(conjunct.columns) == 1 and conjunct.columns <= set(piece.column_names):
            (name,) = conjunct.columns
            passing = _values_passing(conjunct, name, node.input.column(name).type, piece[name])
            piece = piece if passing is None else _keep_among(piece, name, passing)
    return piece


def _values_passing(test: Expr, name: str, kind: str, column: pa.ChunkedArray) -> pa.Array | None:
    """The different values of a column that pass a test; None where the driver cannot tell."""
    if not kind.startswith(_TESTED_TYPES) or " " in kind:  # for example, a string with a collation
        return None
    values = _unique(column)
    if len(values) > MOST_TESTED:
        return None
    row: dict[str, Any] = {name: None}
    try:
        term = compile_expression(test, named_layout(row, {name: kind}))
        return values.filter(pa.array([term.get({name: value}) is True for value in values.to_pylist()], pa.bool_()))
    except (CannotEvaluate, SparkWouldFail):
        return None


def _unique(column: pa.ChunkedArray) -> pa.Array:
    values = pc.unique(column)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
