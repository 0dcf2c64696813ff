"""The relations of a recursive group while it is evaluated: their names, and the rows of the group's predicates that are
true so far."""

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
"""The name of a relation that belongs to a predicate."""


def inserted_name(predicate: str) -> str:
    """The rows that the change inserts into an input of the group."""
    return f"{predicate}.inserted"


def deleted_name(predicate: str) -> str:
    """The rows that the change deletes from an input of the group."""
    return f"{predicate}.deleted"


def frontier_name(predicate: str) -> str:
    """The rows that the last round found."""
    return f"{predicate}.frontier"


def gone_name(predicate: str) -> str:
    """The rows that lost a derivation; they may have another one."""
    return f"{predicate}.gone"


def added_name(predicate: str) -> str:
    """The rows that were derived again or anew."""
    return f"{predicate}.added"


def derived_name(predicate: str) -> str:
    """The rows that a round derived, known ones among them."""
    return f"{predicate}.derived"


class Fresh:
    """Column names that are unique in one plan; `mark` keeps those of two parts of a plan apart."""

    def __init__(self, mark: str = "#") -> None:
        self._mark = mark
        self._numbers = count(1)

    def column(self, column: Column) -> Column:
        return column.rename(f"{column.name}{self._mark}{next(self._numbers)}")


def scan(name: str, at: At, columns: Sequence[Column], wanted: tuple[int, ...], fresh: Fresh) -> Scan:
    own = [columns[i] for i in wanted]
    return Scan(name, at, tuple(map(fresh.column, own)), tuple(c.name for c in own))


def same(left: Expr, right: Expr) -> Expr:
    """The test that two values unify. Rules take NULL as a value like any other, so two NULLs unify."""
    return equal(left, right, null_safe=left.nullable and right.nullable)


@dataclass(frozen=True)
class Present:
    """The rows of the group's own predicates that are true so far: the stored rows, if any, without those in `gone`, and
    the rows in `added`. Both name predicates that have such rows."""

    stored: bool
    gone: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()

    def has(self, predicate: str) -> bool:
        """Whether the predicate can have rows already."""
        return self.stored or predicate in self.added

    def rows(self, predicate: str, columns: tuple[Column, ...], wanted: tuple[int, ...], fresh: Fresh) -> Node:
        members: list[Node] = []
        if self.stored:
            members.append(self._stored_rows(predicate, columns, wanted, fresh))
        if predicate in self.added:
            members.append(scan(added_name(predicate), At.NEW, columns, wanted, fresh))
        if len(members) == 1:
            return members[0]
        if not members:
            return Constant(tuple(fresh.column(columns[i]) for i in wanted), ())
        return UnionAll(tuple(members), tuple(fresh.column(columns[i]) for i in wanted))

    def _stored_rows(self, predicate: str, columns: tuple[Column, ...], wanted: tuple[int, ...], fresh: Fresh) -> Node:
        if predicate not in self.gone:
            return scan(predicate, At.OLD, columns, wanted, fresh)
        every = tuple(range(len(columns)))
        stored = scan(predicate, At.OLD, columns, every, fresh)
        kept = without(stored, scan(gone_name(predicate), At.NEW, columns, every, fresh))
        return Project(kept, tuple(Named(stored.output[i], stored.output[i].ref) for i in wanted))


def without(rows: Node, others: Node) -> Node:
    """The rows that are not among the others."""
    on = tuple(same(a.ref, b.ref) for a, b in zip(rows.columns, others.columns, strict=True))
    return Join(rows, others, on, "anti")


def among(rows: Node, others: Node) -> Node:
    """The rows that are among the others."""
    on = tuple(same(a.ref, b.ref) for a, b in zip(rows.columns, others.columns, strict=True))
    return Join(rows, others, on, "semi")


def set_changes(names: Mapping[str, tuple[Column, ...]]) -> dict[str, Node]:
    """Queries for the rows that each table gained and lost as a set: if only the number of copies of a row changed, the
    set did not."""
    queries: dict[str, Node] = {}
    for name, columns in names.items():
        for relation, sign, against in ((inserted_name(name), ">", At.OLD), (deleted_name(name), "<", At.NEW)):
            fresh = Fresh()
            every = tuple(range(len(columns)))
            weight = fresh.column(Column("weight", "bigint", False))
            weighed = Weigh(Consolidate(scan(name, At.DELTA, columns, every, fresh)), weight)
            moved = Filter(weighed, (compare(weight.ref, sign, number(0)),))
            rows = Project(moved, tuple(Named(c, c.ref) for c in weighed.input.columns))
            queries[relation] = without(rows, scan(name, against, columns, every, fresh))
    return queries


class GroupQueries(Protocol):
    """The queries of a recursive group, by predicate. A query that cannot give rows of a predicate leaves it out.

    `moved` are predicates that have a frontier, `made` the names of the relations that the loop has computed.
    """

    def start(self) -> dict[str, Node]:
        """The rows that the rules give without the group's own predicates."""
        ...

    def step(self, present: Present, moved: Iterable[str]) -> dict[str, Node]:
        """The rows that follow from the frontiers and the rows present; some may be present already."""
        ...

    def step_beyond(self, present: Present, moved: Iterable[str]) -> dict[str, Node]:
        """The same without the rows that are present already."""
        ...

    def lost(self, made: Collection[str]) -> dict[str, Node]:
        """The stored rows with a derivation that used a change of the inputs."""
        ...

    def lost_step(self, moved: Iterable[str]) -> dict[str, Node]:
        """The stored rows with a derivation that used a row of the frontiers."""
        ...

    def found(self, made: Collection[str], present: Present) -> dict[str, Node]:
        """The rows that the changes of the inputs make true, and over-deleted rows that have another derivation."""
        ...

    def nothing(self, predicate: str) -> Node:
        """No rows, with the columns of the predicate."""
        ...

    def fresh_rows(self, predicate: str, present: Present) -> Node:
        """The rows that the round derived and that are not present."""
        ...

    def less(self, name: str, other: str, predicate: str) -> Node:
        """The rows of one relation of a predicate that are not in another one of it."""
        ...


class RecursiveGroup(Protocol):
    """Predicates that depend on each other, in any language that defines such."""

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
        """The places in the text that define these predicates, for error messages."""
        ...
