"""The rules of a recursive group as queries: each variant of a rule starts from a change and looks up the rest.

A variant is the rule with one literal replaced by a change of it, which is read first. The other literals read a given state:
before or after the refresh, and for the group's own predicates the rows that are present so far.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Literal

from nabla._cached import cached_property
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Constant, Distinct, Node, UnionAll
from nabla.calculus.recursion.relations import (
    Fresh,
    Naming,
    Present,
    added_name,
    among,
    deleted_name,
    derived_name,
    frontier_name,
    gone_name,
    inserted_name,
    scan,
    without,
)
from nabla.frontends.datalog.clauses import Clause, Define, is_plain
from nabla.frontends.datalog.compile import Translation, head_row
from nabla.frontends.datalog.terms import Atom, Term, Variable
from nabla.frontends.datalog.types import Typing

State = Literal["old", "new"]


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

    def places(self, predicates: Collection[str]) -> list[str]:
        return sorted({str(c.place) for c in self.clauses if c.predicate in predicates})

    @cached_property
    def queries(self) -> RuleQueries:
        return RuleQueries(self)


class RuleQueries:
    """The queries of a group, as `GroupQueries` describes them.

    They depend on the relations that exist, never on rows, and are built once for each such case: later rounds run the same
    queries.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self._typing = group.typing
        self._built: dict[tuple[object, ...], dict[str, Node]] = {}
        for predicate in (*group.predicates, *group.inputs):
            for name in (inserted_name, deleted_name, frontier_name, gone_name, added_name, derived_name):
                self._typing.alias(name(predicate), predicate)

    def start(self) -> dict[str, Node]:
        """The rules that do not read the group, for an evaluation from scratch."""
        exits = [c for c in self.group.clauses if not any(a.predicate in self.group.predicates for a in c.atoms)]
        return self._build_once(("start",), exits, "new", Present(stored=False))

    def step(self, present: Present, moved: Iterable[str]) -> dict[str, Node]:
        """The rows that follow from the last round's rows of the predicates `moved`, in the new state."""
        names = frozenset(moved)
        return self._build_once(("step", names, present), self._from_frontiers(names), "new", present)

    def step_beyond(self, present: Present, moved: Iterable[str]) -> dict[str, Node]:
        """The rows that `step` gives, without those that are in the predicate already."""
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
        """The rows that lose a derivation of the old state by the changes of the inputs."""
        names = self._changes(made)
        variants = self._from_changes(names, deleted_name, inserted_name)
        return self._build_once(("lost", names), variants, "old", Present(stored=True))

    def lost_step(self, moved: Iterable[str]) -> dict[str, Node]:
        names = frozenset(moved)
        return self._build_once(("lost step", names), self._from_frontiers(names), "old", Present(stored=True))

    def found(self, made: Collection[str], present: Present) -> dict[str, Node]:
        """Deleted rows that have another derivation, and rows that the changes of the inputs make true."""
        names = self._changes(made)
        again = (_rederive(c) for c in self.group.clauses if c.predicate in present.gone)
        anew = self._from_changes(names, inserted_name, deleted_name)
        return self._build_once(("found", names, present), chain(again, anew), "new", present)

    @cache  # noqa: B019  a group lives as long as its program, and asks for few
    def nothing(self, predicate: str) -> Node:
        return Constant(tuple(map(Fresh().column, self.group.columns(predicate))), ())

    def _changes(self, made: Collection[str]) -> frozenset[str]:
        return frozenset(c for n in self.group.inputs for c in (inserted_name(n), deleted_name(n)) if c in made)

    @cache  # noqa: B019
    def fresh_rows(self, predicate: str, present: Present) -> Node:
        """The rows that a round derived, without those that are in the predicate already. The plan looks the few derived rows
        up in the predicate, and not the other way round."""
        fresh, columns = Fresh(), self.group.columns(predicate)
        every = tuple(range(len(columns)))
        candidates = scan(derived_name(predicate), At.NEW, columns, every, fresh)
        known = present.rows(predicate, columns, every, fresh)
        near = among(known, scan(derived_name(predicate), At.NEW, columns, every, fresh))
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
                    start = replace(condition, predicate=frontier_name(condition.predicate))
                    yield replace(clause, body=(start, *clause.body[:i], *clause.body[i + 1 :]))

    def _build_once(
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


def _rederive(clause: Clause) -> Clause:
    """The rule for heads that are gone: it reads the head itself first."""
    arguments: list[Term] = []
    definitions: list[Define] = []
    for i, argument in enumerate(clause.arguments):
        if not is_plain(argument):
            variable = Variable(f"head{i}")
            definitions.append(Define(variable, argument))
            argument = variable
        arguments.append(argument)
    start = Atom(gone_name(clause.predicate), tuple(arguments), place=clause.place)
    return replace(clause, body=(start, *clause.body, *definitions))
