"""The rules of a recursive group as queries: each variant of a rule starts from what changed and looks up the rest.

A variant is the rule with one literal replaced by a change of it, which is read first. What the other literals read is
always said: the state before the refresh or after it, and for the group's own predicates the rows that stand so far.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Literal, TypeAlias

from nabla.algebra.expressions import Column, Expr, Named
from nabla.algebra.nodes import At, Consolidate, Constant, Distinct, Filter, Join, Node, Project, UnionAll, Weigh
from nabla.cached import cached_property
from nabla.datalog.clauses import Clause, Define, is_plain
from nabla.datalog.compile import Fresh, Translation, head_row, same, scan
from nabla.datalog.terms import Atom, Term, Variable
from nabla.datalog.types import Typing

State = Literal["old", "new"]
Naming: TypeAlias = Callable[[str], str]


def inserted(predicate: str) -> str:
    return f"{predicate}.inserted"


def deleted(predicate: str) -> str:
    return f"{predicate}.deleted"


def frontier(predicate: str) -> str:
    """What the last round found."""
    return f"{predicate}.frontier"


def gone(predicate: str) -> str:
    """What lost a derivation, rightly or not."""
    return f"{predicate}.gone"


def added(predicate: str) -> str:
    """What was derived again or anew."""
    return f"{predicate}.added"


def derived(predicate: str) -> str:
    """What a round derived, known or not."""
    return f"{predicate}.derived"


@dataclass(frozen=True)
class Group:
    """Predicates that depend on each other, with their rules in normal form and without lookups."""

    predicates: tuple[str, ...]
    clauses: tuple[Clause, ...]
    typing: Typing

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables and predicates that the group reads."""
        names = dict.fromkeys(a.predicate for c in self.clauses for a in c.atoms)
        return tuple(n for n in names if n not in self.predicates)

    def columns(self, predicate: str) -> tuple[Column, ...]:
        return self.typing.columns(predicate)

    @cached_property
    def queries(self) -> Queries:
        return Queries(self)


@dataclass(frozen=True)
class Present:
    """Which rows of the group's own predicates stand: those stored, if any, less what is gone, and what was added."""

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


class Queries:
    """The queries of a group, by predicate; a predicate that a query cannot add to is left out.

    They depend on which relations there are, never on rows, and are built once for each such case: the same rounds run
    the same queries.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self._typing = group.typing
        self._built: dict[tuple[object, ...], dict[str, Node]] = {}
        for predicate in (*group.predicates, *group.inputs):
            for name in (inserted, deleted, frontier, gone, added, derived):
                self._typing.alias(name(predicate), predicate)

    def start(self) -> dict[str, Node]:
        """From scratch: the rules that do not read the group."""
        exits = [c for c in self.group.clauses if not any(a.predicate in self.group.predicates for a in c.atoms)]
        return self._united(("start",), exits, "new", Present(stored=False))

    def step(self, present: Present, moved: Iterable[str]) -> dict[str, Node]:
        """What follows from the last round's rows of the predicates `moved`, in the new state."""
        names = frozenset(moved)
        return self._united(("step", names, present), self._from_frontiers(names), "new", present)

    def step_beyond(self, present: Present, moved: Iterable[str]) -> dict[str, Node]:
        """What `step` gives, less what stands already."""
        names = frozenset(moved)
        key = ("step beyond", names, present)
        if key not in self._built:
            self._built[key] = {p: self._beyond(p, node, present) for p, node in self.step(present, names).items()}
        return self._built[key]

    def _beyond(self, predicate: str, derived: Node, present: Present) -> Node:
        if not present.has(predicate):
            return derived
        fresh, columns = Fresh("~"), self.group.columns(predicate)
        return without(derived, present.rows(predicate, columns, tuple(range(len(columns))), fresh))

    def lost(self, made: Collection[str]) -> dict[str, Node]:
        """What had a derivation in the old state that the changes of the inputs took away."""
        names = self._changes(made)
        variants = self._from_changes(names, deleted, inserted)
        return self._united(("lost", names), variants, "old", Present(stored=True))

    def lost_step(self, moved: Iterable[str]) -> dict[str, Node]:
        names = frozenset(moved)
        return self._united(("lost step", names), self._from_frontiers(names), "old", Present(stored=True))

    def found(self, made: Collection[str], present: Present) -> dict[str, Node]:
        """What is gone and has another derivation, and what the changes of the inputs make true."""
        names = self._changes(made)
        again = (_rederiving(c) for c in self.group.clauses if c.predicate in present.gone)
        anew = self._from_changes(names, inserted, deleted)
        return self._united(("found", names, present), chain(again, anew), "new", present)

    @cache  # noqa: B019  a group lives as long as its program, and asks for few
    def nothing(self, predicate: str) -> Node:
        return Constant(tuple(map(Fresh().column, self.group.columns(predicate))), ())

    def _changes(self, made: Collection[str]) -> frozenset[str]:
        return frozenset(c for n in self.group.inputs for c in (inserted(n), deleted(n)) if c in made)

    @cache  # noqa: B019
    def fresh_rows(self, predicate: str, present: Present) -> Node:
        """What a round derived, less what stands already: looked up from the few rows, not from the many."""
        fresh, columns = Fresh(), self.group.columns(predicate)
        every = tuple(range(len(columns)))
        candidates = scan(derived(predicate), At.NEW, columns, every, fresh)
        known = present.rows(predicate, columns, every, fresh)
        near = among(known, scan(derived(predicate), At.NEW, columns, every, fresh))
        return without(candidates, near)

    @cache  # noqa: B019
    def less(self, name: str, other: str, predicate: str) -> Node:
        """The rows of one relation that another one does not have."""
        fresh, columns = Fresh(), self.group.columns(predicate)
        every = tuple(range(len(columns)))
        return without(scan(name, At.NEW, columns, every, fresh), scan(other, At.NEW, columns, every, fresh))

    def _from_changes(self, changes: frozenset[str], positive: Naming, negative: Naming) -> Iterator[Clause]:
        """Rules with one literal read from a change: an atom from `positive`, a negated one from `negative`."""
        for clause in self.group.clauses:
            for i, condition in enumerate(clause.body):
                if not isinstance(condition, Atom):
                    continue
                name = (negative if condition.negated else positive)(condition.predicate)
                if name in changes:
                    start = replace(condition, predicate=name, negated=False)
                    rest = clause.body if condition.negated else clause.body[:i] + clause.body[i + 1 :]
                    yield replace(clause, body=(start, *rest))

    def _from_frontiers(self, moved: frozenset[str]) -> Iterator[Clause]:
        for clause in self.group.clauses:
            for i, condition in enumerate(clause.body):
                if isinstance(condition, Atom) and condition.predicate in moved:
                    start = replace(condition, predicate=frontier(condition.predicate))
                    yield replace(clause, body=(start, *clause.body[:i], *clause.body[i + 1 :]))

    def _united(
        self, key: tuple[object, ...], variants: Iterable[Clause], state: State, present: Present
    ) -> dict[str, Node]:
        if key not in self._built:
            self._built[key] = self._build(variants, state, present)
        return self._built[key]

    def _build(self, variants: Iterable[Clause], state: State, present: Present) -> dict[str, Node]:
        members: dict[str, list[Node]] = {}
        fresh = Fresh()

        def read(name: str, wanted: tuple[int, ...], fresh: Fresh) -> Node:
            columns = self._typing.columns(name)
            if name in self.group.predicates:
                return present.rows(name, columns, wanted, fresh)
            if name in self.group.inputs:
                return scan(name, At.OLD if state == "old" else At.NEW, columns, wanted, fresh)
            return scan(name, At.NEW, columns, wanted, fresh)

        for variant in variants:
            translation = Translation(variant, self._typing, read, fresh)
            columns = self.group.columns(variant.predicate)
            members.setdefault(variant.predicate, []).append(head_row(translation, translation.body(), columns))
        return {p: _distinct(nodes, self.group.columns(p), fresh) for p, nodes in members.items()}


def _distinct(nodes: list[Node], columns: tuple[Column, ...], fresh: Fresh) -> Node:
    return Distinct(nodes[0] if len(nodes) == 1 else UnionAll(tuple(nodes), tuple(map(fresh.column, columns))))


def _rederiving(clause: Clause) -> Clause:
    """The rule for heads that are gone: the head itself is read first."""
    arguments: list[Term] = []
    definitions: list[Define] = []
    for i, argument in enumerate(clause.arguments):
        if not is_plain(argument):
            variable = Variable(f"head{i}")
            definitions.append(Define(variable, argument))
            argument = variable
        arguments.append(argument)
    start = Atom(gone(clause.predicate), tuple(arguments), place=clause.place)
    return replace(clause, body=(start, *clause.body, *definitions))


def set_changes(names: Mapping[str, tuple[Column, ...]]) -> dict[str, Node]:
    """The rows that came to a table and those that left it: one copy more or less of a row that stays is no change."""
    queries: dict[str, Node] = {}
    for name, columns in names.items():
        for relation, sign, against in ((inserted(name), ">", At.OLD), (deleted(name), "<", At.NEW)):
            fresh = Fresh()
            every = tuple(range(len(columns)))
            weight = fresh.column(Column("weight", "bigint", False))
            weighed = Weigh(Consolidate(scan(name, At.DELTA, columns, every, fresh)), weight)
            moved = Filter(weighed, (Expr(f"({weight.ref.sql} {sign} 0)", "boolean", False),))
            rows = Project(moved, tuple(Named(c, c.ref) for c in weighed.input.columns))
            queries[relation] = without(rows, scan(name, against, columns, every, fresh))
    return queries
