"""Relations in memory: the backend of the fixpoint loop without Spark, for tests, for small questions and for changes that
fit the driver.

A round joins a few rows with many. Of the many it reads only those that the few can join: a join evaluates its left side
and asks its right side for the rows with these keys, down to the tables, which have indexes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Protocol, TypeAlias, cast

from nabla._cached import cached_property
from nabla.algebra.equalities import equality_of
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import At, Distinct, Filter, Join, Node, Project, Scan, UnionAll
from nabla.algebra.reference.evaluator import Row, parse_type
from nabla.algebra.reference.interpreter import Bag, Database, Run, all_true, bag_of
from nabla.algebra.types import INTEGRAL

Key: TypeAlias = object
"""The value of a column, or a tuple of those of several."""
Places: TypeAlias = tuple[int, ...]


class TooManyRows(Exception):
    """A query gives more rows than the caller allowed to hold in memory."""


class Table(Protocol):
    """Rows that can be read whole, or looked up by some of their columns."""

    @property
    def bag(self) -> Bag: ...

    def matching(self, places: Places, keys: Set[Key]) -> Iterator[tuple[Row, int]]:
        """The rows with one of the keys in these columns, and how many there are of each."""
        ...


class Piece:
    """Rows that never change, with an index for each combination of columns by which they were looked up."""

    def __init__(self, bag: Bag) -> None:
        self.bag = bag
        self._indexes: dict[Places, dict[Key, list[Row]]] = {}

    def matching(self, places: Places, keys: Set[Key]) -> Iterator[tuple[Row, int]]:
        bag, width = self.bag, len(next(iter(self.bag), ()))
        if width > 1 and places == tuple(range(width)):
            yield from ((row, bag[row]) for key in keys if (row := cast("Row", key)) in bag)
            return
        index = self._indexes.get(places)
        if index is None:
            index = self._indexes[places] = {}
            of_row = key_of(places)
            for row in self.bag:
                index.setdefault(of_row(row), []).append(row)
        for key in keys if len(keys) < len(index) else index.keys() & keys:
            for row in index.get(key, ()):
                yield row, bag[row]


@dataclass(frozen=True, eq=False)
class MemoryRelation:
    """A relation that was computed: the names of its columns, and its rows in pieces. No row is in two pieces."""

    fields: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, fields: Iterable[str], bag: Bag) -> MemoryRelation:
        return cls(tuple(fields), (Piece(bag),))

    @cached_property
    def bag(self) -> Bag:
        if len(self.pieces) == 1:
            return self.pieces[0].bag
        return Counter({row: n for piece in self.pieces for row, n in piece.bag.items()})

    @property
    def set(self) -> frozenset[Row]:
        return frozenset(row for piece in self.pieces for row in piece.bag)

    def matching(self, places: Places, keys: Set[Key]) -> Iterator[tuple[Row, int]]:
        for piece in self.pieces:
            yield from piece.matching(places, keys)

    def __len__(self) -> int:
        return sum(len(piece.bag) for piece in self.pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryRelation) and (self.fields, self.bag) == (other.fields, other.bag)


@dataclass(frozen=True)
class _LoopDatabase(Database):
    """The stored tables, and the relations that the loop made; these hide tables of the same names."""

    made: Mapping[str, MemoryRelation] = field(default_factory=dict)
    stored: Callable[[str, At], Table] = field(kw_only=True)

    def table(self, name: str, at: At) -> Table:
        return self.made[name] if name in self.made else self.stored(name, at)

    def read(self, table: str, at: At) -> Bag:
        return self.table(table, at).bag


class Memory:
    """Tables and stored predicates before and after a change. `most` bounds the number of rows that a query may give."""

    def __init__(self, columns: Mapping[str, Iterable[str]], most: int | None = None) -> None:
        self.fields = {name: tuple(names) for name, names in columns.items()}
        self.before: dict[str, Bag] = {}
        self.after: dict[str, Bag] = {}
        self.most = most
        self._tables: dict[tuple[str, At], Piece] = {}

    def table(self, name: str, at: At) -> Table:
        """A stored table. Its indexes are kept until its rows change."""
        if at is At.DELTA:
            return Piece(Database({}, self.before, self.after).delta(name))
        bag = (self.before if at is At.OLD else self.after)[name]
        known = self._tables.get((name, at))
        if known is None or known.bag is not bag:
            known = self._tables[name, at] = Piece(bag)
        return known

    def evaluate(self, queries: Mapping[str, Node], made: Mapping[str, MemoryRelation]) -> dict[str, MemoryRelation]:
        fields = self.fields | {name: rows.fields for name, rows in made.items()}
        run = _IndexedRun(_LoopDatabase(fields, made=made, stored=self.table), self.most)
        return {name: MemoryRelation.of((c.label for c in node.columns), run(node)) for name, node in queries.items()}

    def size(self, relation: MemoryRelation) -> int:
        return len(relation)

    def extend(self, relation: MemoryRelation, more: MemoryRelation) -> MemoryRelation:
        """The rows of both. Each piece has at least twice the rows of the next one, so that there are few pieces and a row
        is copied few times."""
        pieces = [*relation.pieces, *more.pieces]
        while len(pieces) > 1 and 2 * len(pieces[-1].bag) > len(pieces[-2].bag):
            last, before = pieces.pop(), pieces.pop()
            pieces.append(Piece(Counter({**before.bag, **last.bag})))
        return MemoryRelation(relation.fields, tuple(pieces))


@dataclass(frozen=True)
class _Keys:
    """The places of the columns that a join equates, on both sides, and the other conditions as `rest`. A row with a NULL
    at a place in `no_null` joins nothing."""

    left: Places
    right: Places
    no_null: Places
    rest: tuple[Expr, ...]


class _IndexedRun(Run):
    """The interpreter, with joins that look up the rows of their right side by key."""

    database: _LoopDatabase

    def __init__(self, database: _LoopDatabase, most: int | None) -> None:
        super().__init__(database)
        self.most = most

    def __call__(self, node: Node) -> Bag:
        if isinstance(node, Join) and node not in self._results:
            self._results[node] = self._join(node, self(node.left))
        result = super().__call__(node)
        self._check(len(result))
        return result

    def matching(self, node: Node, places: Places, keys: Set[Key]) -> Bag:
        """The rows of a node that have one of the keys in the columns at these places."""
        match node:
            case Scan():
                own = self.database.fields[node.table]
                fields = tuple(own.index(name) for name in node.fields)
                table = self.database.table(node.table, node.at)
                found = table.matching(tuple(fields[place] for place in places), keys)
                if fields == tuple(range(len(own))):
                    return Counter(dict(found))
                return bag_of((tuple([row[i] for i in fields]), n) for row, n in found)
            case Filter():
                return self._apply_to(node, self.matching(node.input, places, keys))
            case Distinct():
                return self._apply_to(node, self.matching(node.input, places, keys))
            case UnionAll():
                members = [self.matching(member, places, keys) for member in node.members]
                return bag_of(item for bag in members for item in bag.items())
            case Project():
                below = _places_in_input(node, places)
                if below is not None:
                    return self._apply_to(node, self.matching(node.input, below, keys))
            case Join() if node.kind in ("semi", "anti"):
                return self._join(node, self.matching(node.left, places, keys))
        of_row = key_of(places)
        return Counter({row: n for row, n in self(node).items() if of_row(row) in keys})

    def _apply_to(self, node: Filter | Distinct | Project, rows: Bag) -> Bag:
        """Apply the operator to some rows of its input."""
        inner = _IndexedRun(self.database, self.most)
        inner._results[node.input] = rows
        return inner(node)

    def _join(self, node: Join, left: Bag) -> Bag:
        keys = _equated_columns(node)
        if keys is None or node.kind not in ("inner", "semi", "anti"):
            inner = _IndexedRun(self.database, self.most)
            right = self(node.right)
            self._check(len(left) * len(right) // 16)  # trying a pair costs less than holding a row
            inner._results[node.left], inner._results[node.right] = left, right
            return Run.__call__(inner, node)
        of_left, of_right = key_of(keys.left), key_of(keys.right)
        wanted = {of_left(row) for row in left if not keys.no_null or None not in [row[i] for i in keys.no_null]}
        right = self.matching(node.right, keys.right, wanted) if wanted else Counter()
        if node.kind != "inner" and not keys.rest:
            known = {of_right(row) for row in right}  # found by wanted keys, so without NULLs that join nothing
            is_wanted = node.kind == "semi"
            return Counter({row: n for row, n in left.items() if (of_left(row) in known) is is_wanted})
        matches: dict[Key, list[Row]] = {}
        for row in right:
            matches.setdefault(of_right(row), []).append(row)
        passes = all_true(keys.rest, node.left.columns + node.right.columns) if keys.rest else _always
        if node.kind != "inner":
            is_wanted = node.kind == "semi"
            return Counter(
                {
                    row: n
                    for row, n in left.items()
                    if any(passes(row + other) for other in matches.get(of_left(row), ())) is is_wanted
                }
            )
        result: Bag = Counter()
        for row, n in left.items():
            for other in matches.get(of_left(row), ()):
                if passes(row + other):
                    result[row + other] += n * right[other]
            self._check(len(result))
        return result

    def _check(self, size: int) -> None:
        if self.most is not None and size > self.most:
            raise TooManyRows(f"{size:,} rows, and at most {self.most:,} are held in memory")


def key_of(places: Places) -> Callable[[Row], Key]:
    return itemgetter(*places)


def _always(_: Row) -> bool:
    return True


def _places_in_input(node: Project, places: Places) -> Places | None:
    """The places in a projection's input of its columns; None if one of them is computed."""
    own = {column.name: i for i, column in enumerate(node.input.columns)}
    names = [node.outputs[place].expr.column for place in places]
    return tuple(own[name] for name in names if name is not None) if None not in names else None


def _equated_columns(node: Join) -> _Keys | None:
    """The columns that a join equates; None if it equates none."""
    pairs = [(condition, _pair(node, condition)) for condition in node.on]
    found = [pair for _, pair in pairs if pair is not None]
    if not found:
        return None
    return _Keys(
        tuple(i for i, _, _ in found),
        tuple(j for _, j, _ in found),
        tuple(i for i, _, strict in found if strict),
        tuple(condition for condition, pair in pairs if pair is None),
    )


def _pair(node: Join, condition: Expr) -> tuple[int, int, bool] | None:
    """The places of two columns that a condition equates, and whether the condition takes two NULLs as unequal."""
    found = equality_of(node, condition)
    if found is None or found.columns is None:
        return None
    (i, own), (j, other) = (_place(side, name) for side, name in zip(node.inputs, found.columns, strict=True))
    alike = own.type == other.type or {parse_type(own.type), parse_type(other.type)} <= INTEGRAL.keys()
    return (i, j, not found.null_safe) if alike else None


def _place(node: Node, name: str) -> tuple[int, Column]:
    return next((i, column) for i, column in enumerate(node.columns) if column.name == name)
