"""The relations of a recursive group while it is evaluated: their names, and which rows of the group's predicates stand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeAlias

from nabla.algebra.build import compare, equal, number
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import At, Consolidate, Constant, Filter, Join, Node, Project, Scan, UnionAll, Weigh

Naming: TypeAlias = Callable[[str], str]


def inserted(predicate: str) -> str:
    return f"{predicate}.inserted"


def deleted(predicate: str) -> str:
    return f"{predicate}.deleted"


def frontier(predicate: str) -> str:
    """The rows that the last round found."""
    return f"{predicate}.frontier"


def gone(predicate: str) -> str:
    """The rows that lost a derivation; they may have another one."""
    return f"{predicate}.gone"


def added(predicate: str) -> str:
    """The rows that were derived again or anew."""
    return f"{predicate}.added"


def derived(predicate: str) -> str:
    """The rows that a round derived, known ones among them."""
    return f"{predicate}.derived"


class Fresh:
    """Column names that are unique in one plan; `mark` keeps those of two parts of a plan apart."""

    def __init__(self, mark: str = "#") -> None:
        self._mark = mark
        self._numbers = count(1)

    def column(self, column: Column) -> Column:
        return column.renamed(f"{column.name}{self._mark}{next(self._numbers)}")


def scan(name: str, at: At, columns: Sequence[Column], wanted: tuple[int, ...], fresh: Fresh) -> Scan:
    own = [columns[i] for i in wanted]
    return Scan(name, at, tuple(map(fresh.column, own)), tuple(c.name for c in own))


def same(left: Expr, right: Expr) -> Expr:
    """Values that unify: NULL is a value like any other."""
    return equal(left, right, null_safe=left.nullable and right.nullable)


@dataclass(frozen=True)
class Present:
    """The rows of the group's own predicates that stand: those stored, if any, less those gone, and those added."""

    stored: bool
    gone: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()

    def has(self, predicate: str) -> bool:
        return self.stored or predicate in self.added

    def rows(self, predicate: str, columns: tuple[Column, ...], wanted: tuple[int, ...], fresh: Fresh) -> Node:
        members: list[Node] = []
        if self.stored:
            members.append(self._kept(predicate, columns, wanted, fresh))
        if predicate in self.added:
            members.append(scan(added(predicate), At.NEW, columns, wanted, fresh))
        if len(members) == 1:
            return members[0]
        if not members:
            return Constant(tuple(fresh.column(columns[i]) for i in wanted), ())
        return UnionAll(tuple(members), tuple(fresh.column(columns[i]) for i in wanted))

    def _kept(self, predicate: str, columns: tuple[Column, ...], wanted: tuple[int, ...], fresh: Fresh) -> Node:
        if predicate not in self.gone:
            return scan(predicate, At.OLD, columns, wanted, fresh)
        every = tuple(range(len(columns)))
        stored = scan(predicate, At.OLD, columns, every, fresh)
        kept = without(stored, scan(gone(predicate), At.NEW, columns, every, fresh))
        return Project(kept, tuple(Named(stored.output[i], stored.output[i].ref) for i in wanted))


def without(rows: Node, others: Node) -> Node:
    """The rows that are not among the others."""
    on = tuple(same(a.ref, b.ref) for a, b in zip(rows.columns, others.columns, strict=True))
    return Join(rows, others, on, "anti")


def among(rows: Node, others: Node) -> Node:
    on = tuple(same(a.ref, b.ref) for a, b in zip(rows.columns, others.columns, strict=True))
    return Join(rows, others, on, "semi")


def set_changes(names: Mapping[str, tuple[Column, ...]]) -> dict[str, Node]:
    """The rows that came to a table and those that left it: one copy more or less of a row that stays is no change."""
    queries: dict[str, Node] = {}
    for name, columns in names.items():
        for relation, sign, against in ((inserted(name), ">", At.OLD), (deleted(name), "<", At.NEW)):
            fresh = Fresh()
            every = tuple(range(len(columns)))
            weight = fresh.column(Column("weight", "bigint", False))
            weighed = Weigh(Consolidate(scan(name, At.DELTA, columns, every, fresh)), weight)
            moved = Filter(weighed, (compare(weight.ref, sign, number(0)),))
            rows = Project(moved, tuple(Named(c, c.ref) for c in weighed.input.columns))
            queries[relation] = without(rows, scan(name, against, columns, every, fresh))
    return queries


class GroupQueries(Protocol):
    """The queries of a recursive group, by predicate; a predicate that a query cannot add to is left out."""

    def start(self) -> dict[str, Node]: ...

    def step(self, present: Present, moved: Iterable[str]) -> dict[str, Node]: ...

    def step_beyond(self, present: Present, moved: Iterable[str]) -> dict[str, Node]: ...

    def lost(self, made: Collection[str]) -> dict[str, Node]: ...

    def lost_step(self, moved: Iterable[str]) -> dict[str, Node]: ...

    def found(self, made: Collection[str], present: Present) -> dict[str, Node]: ...

    def nothing(self, predicate: str) -> Node: ...

    def fresh_rows(self, predicate: str, present: Present) -> Node: ...

    def less(self, name: str, other: str, predicate: str) -> Node: ...


class RecursiveGroup(Protocol):
    """Predicates that depend on each other, whatever language defines them."""

    @property
    def predicates(self) -> tuple[str, ...]: ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables and predicates that the group reads."""
        ...

    @property
    def queries(self) -> GroupQueries: ...

    def columns(self, predicate: str) -> tuple[Column, ...]: ...

    def places(self, predicates: Collection[str]) -> list[str]:
        """Where these predicates are defined, for error messages."""
        ...
