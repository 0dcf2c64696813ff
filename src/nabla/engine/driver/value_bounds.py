"""Supersets of the rows of a query, which the driver knows before the query runs.

A piece is a table of some of the query's columns. Every row of the query has, in these columns, the values of some row of
the piece. Pieces start at relations that are at hand, such as a change, lose the rows that a filter drops, and, where a
join equates columns, those that meet nothing on its other side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
from nabla.engine.driver.driver_query import run
from nabla.engine.driver.duckdb_expressions import spell
from nabla.engine.driver.duckdb_types import NotExact, quote

Held = Callable[[Scan], pa.Table | None]
"""The rows of a relation in the order of its scan's columns, if they are at hand."""
Pieces = tuple[pa.Table, ...]

MOST_TESTED = 1_000_000
"""Rows that are tested against a filter."""
_ROW = " row"


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
    """The rows of a piece that pass the conditions on its columns, as far as DuckDB can tell."""
    if not 0 < piece.num_rows <= MOST_TESTED:
        return piece
    known = set(piece.column_names)
    tests = [(c.columns, text) for c in node.conjuncts if c.columns and c.columns <= known and (text := _spell(c))]
    if not tests:
        return piece
    columns = sorted(frozenset().union(*(columns for columns, _ in tests)))
    rows = piece.select(columns).append_column(_ROW, pa.arange(0, piece.num_rows))
    found = run(f"SELECT {quote(_ROW)} FROM t0 WHERE {' AND '.join(text for _, text in tests)}", {"t0": rows})
    if found is None or found.num_rows == piece.num_rows:
        return piece
    return piece.take(found[_ROW])


def _spell(test: Expr) -> str | None:
    try:
        return spell(test)
    except NotExact:
        return None


def _unique(column: pa.ChunkedArray) -> pa.Array:
    values = pc.unique(column)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
