"""Relations in memory: the backend of the fixpoint loop that needs no Spark, for tests, for small questions, for proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from nabla.algebra.evaluator import Row, parse_type
from nabla.algebra.evaluator.types import INTEGRAL
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.interpreter import Bag, Database, Run
from nabla.algebra.nodes import At, Join, Node


@dataclass(frozen=True)
class Rows:
    """A relation: rows and the names of their columns."""

    fields: tuple[str, ...]
    bag: Bag

    @property
    def set(self) -> frozenset[Row]:
        return frozenset(self.bag)


@dataclass(frozen=True)
class _Overlaid(Database):
    """Tables, and over them the relations that the loop made."""

    made: Mapping[str, Rows] = field(default_factory=dict)

    def read(self, table: str, at: At) -> Bag:
        return self.made[table].bag if table in self.made else super().read(table, at)


class Memory:
    """Tables and stored predicates before and after a change, as sets of rows."""

    def __init__(self, columns: Mapping[str, Iterable[str]]) -> None:
        self.fields = {name: tuple(names) for name, names in columns.items()}
        self.before: dict[str, Bag] = {}
        self.after: dict[str, Bag] = {}

    def evaluate(self, queries: Mapping[str, Node], made: Mapping[str, Rows]) -> dict[str, Rows]:
        fields = self.fields | {name: rows.fields for name, rows in made.items()}
        database = _Overlaid(fields, self.before, self.after, made=made)
        run = _HashRun(database)
        return {name: Rows(tuple(c.label for c in node.columns), run(node)) for name, node in queries.items()}

    def size(self, relation: Rows) -> int:
        return len(relation.bag)

    def extended(self, relation: Rows, more: Rows) -> Rows:
        return Rows(relation.fields, Counter({**relation.bag, **more.bag}))


class _HashRun(Run):
    """The interpreter with joins by hashing: rounds join a few rows with many."""

    def __call__(self, node: Node) -> Bag:
        if isinstance(node, Join) and node.kind in ("inner", "semi", "anti") and id(node) not in self._results:
            keys = _key_columns(node)
            if keys is not None:
                self._results[id(node)] = self._hashed(node, *keys)
        return super().__call__(node)

    def _hashed(self, node: Join, left_key: tuple[int, ...], right_key: tuple[int, ...]) -> Bag:
        left, right = self(node.left), self(node.right)
        of_left, of_right = _getter(left_key), _getter(right_key)
        if node.kind != "inner":
            known = {of_right(row) for row in right}
            wanted = node.kind == "semi"
            return Counter({row: n for row, n in left.items() if (of_left(row) in known) is wanted})
        matches: dict[object, list[tuple[Row, int]]] = {}
        for row, n in right.items():
            matches.setdefault(of_right(row), []).append((row, n))
        result: Bag = Counter()
        for row, n in left.items():
            for other, m in matches.get(of_left(row), ()):
                result[row + other] += n * m
        return result


def _getter(places: tuple[int, ...]) -> Callable[[Row], object]:
    return itemgetter(*places)


def _key_columns(node: Join) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The positions of the columns that a join equates, if that is all it does and NULLs are equal or absent."""
    if not node.on:
        return None
    left, right = _places(node.left.columns), _places(node.right.columns)
    pairs = []
    for condition in node.on:
        pair = _pair(condition, left, right)
        if pair is None:
            return None
        pairs.append(pair)
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _places(columns: tuple[Column, ...]) -> dict[str, tuple[int, Column]]:
    return {column.name: (i, column) for i, column in enumerate(columns)}


def _pair(
    condition: Expr, left: Mapping[str, tuple[int, Column]], right: Mapping[str, tuple[int, Column]]
) -> tuple[int, int] | None:
    if condition.sides is None:
        return None
    a, b = (side.column for side in condition.sides)
    if a not in left or b not in right or a is None or b is None:
        return None
    (i, own), (j, other) = left[a], right[b]
    alike = own.type == other.type or {parse_type(own.type), parse_type(other.type)} <= INTEGRAL.keys()
    nulls_settled = condition.null_safe or not (own.nullable and other.nullable)
    return (i, j) if alike and nulls_settled else None
