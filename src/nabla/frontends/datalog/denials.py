"""Denials: `:- path(X, X).` says that nothing may satisfy a body. Whatever does is a violation.

The rows are asked of a state of the tables, and nothing of them is stored. Where the denial held before a change, a violation
needs a fact that came with the change, unless a negation or an aggregate is involved. Then the question begins with these
facts: a predicate `new p` has the facts of p with a derivation that uses one of them. All else is asked for the values that
are needed, by magic sets, so that a new edge from 3 to 1 asks for the paths that pass it and not for all paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from nabla._cached import cached_property
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Constant
from nabla.calculus.recursion.fixpoint import Backend, Relation, Round
from nabla.calculus.recursion.relations import inserted_name, set_changes
from nabla.frontends.datalog.clauses import AggregateLookup, Clause
from nabla.frontends.datalog.evaluate import evaluate_program
from nabla.frontends.datalog.magic import MagicRewriting
from nabla.frontends.datalog.program import Program
from nabla.frontends.datalog.syntax import VIOLATION
from nabla.frontends.datalog.terms import Atom


@dataclass(frozen=True, eq=False)
class Denial:
    """A program with a predicate that must stay empty."""

    program: Program

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.program.columns(VIOLATION)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tables and views that its violations depend on."""
        return tuple(name for name in self.program.tables if name in self._read)

    @cached_property
    def _read(self) -> set[str]:
        """All that is read for a violation, directly or through rules."""
        return self.program.reached((VIOLATION,))

    @cached_property
    def is_asked(self) -> bool:
        """Whether the denial reads predicates that no view stores. Its violations are then asked for before each commit."""
        return self.program.stored != (VIOLATION,)

    def violations(self, backend: Backend[Relation], rounds: list[Round]) -> Relation:
        """All violations, in the new state of the tables."""
        return evaluate_program(self._question, backend, rounds=rounds)[VIOLATION]

    def new_violations(self, backend: Backend[Relation], changed: Collection[str], rounds: list[Round]) -> Relation:
        """All violations in the new state, if there was none before these tables have changed."""
        if not self._is_positive:
            return self.violations(backend, rounds)
        moved = tuple(name for name in self.inputs if name in changed)
        if not moved:
            return backend.evaluate({VIOLATION: Constant(self.columns, ())}, {})[VIOLATION]
        inserted = {inserted_name(name) for name in moved}
        changes = {n: query for n, query in set_changes(self._columns(moved)).items() if n in inserted}
        question, given = self._new_question(moved), backend.evaluate(changes, {})
        return evaluate_program(question, backend, rounds=rounds, given=given)[VIOLATION]

    def _columns(self, names: Iterable[str]) -> Mapping[str, tuple[Column, ...]]:
        return {name: self.program.columns(name) for name in names}

    @cached_property
    def _is_positive(self) -> bool:
        """Whether more facts can only give more violations."""
        return not any(
            clause.grouped
            or any(isinstance(c, AggregateLookup) or (isinstance(c, Atom) and c.negated) for c in clause.body)
            for clause in self.program.clauses
            if clause.predicate in self._read
        )

    @cached_property
    def _question(self) -> Program:
        rewriting = MagicRewriting(self.program, frozenset((VIOLATION,)))
        for clause in self.program.clauses_of(VIOLATION):
            rewriting.ask_for(clause)
        return rewriting.program({VIOLATION: tuple(c.name for c in self.columns)})

    @cached_property
    def _new_questions(self) -> dict[tuple[str, ...], Program]:
        return {}

    def _new_question(self, moved: tuple[str, ...]) -> Program:
        if moved not in self._new_questions:
            self._new_questions[moved] = self._make_new_question(moved)
        return self._new_questions[moved]

    def _make_new_question(self, moved: tuple[str, ...]) -> Program:
        """The program for violations that use a new fact of the moved tables."""
        moving = self._depending_on(moved)
        new = {name: inserted_name(name) for name in moved} | {p: f"new {p}" for p in moving if p != VIOLATION}
        heads = new | {VIOLATION: VIOLATION}
        rewriting = MagicRewriting(self.program, frozenset(heads.values()))
        for clause in self.program.clauses:
            if clause.predicate in moving:
                for variant in _beginning_with_new(clause, new):
                    rewriting.ask_for(replace(variant, predicate=heads[clause.predicate]))
        labels = {heads[p]: tuple(c.name for c in self.program.columns(p)) for p in moving}
        tables = self.program.tables | {inserted_name(name): self.program.columns(name) for name in moved}
        return rewriting.program(labels, tables)

    def _depending_on(self, moved: tuple[str, ...]) -> set[str]:
        """The predicates among those that are read for a violation that can change when these tables do."""
        found, before = set(moved), -1
        while len(found) != before:
            before = len(found)
            for clause in self.program.clauses:
                if clause.predicate in self._read and any(name in found for name, _, _ in clause.reads()):
                    found.add(clause.predicate)
        return found - set(moved)


def _beginning_with_new(clause: Clause, new: Mapping[str, str]) -> Iterator[Clause]:
    """The clause for each of its atoms that can have new facts, with these read first."""
    for place, condition in enumerate(clause.body):
        if isinstance(condition, Atom) and condition.predicate in new:
            start = replace(condition, predicate=new[condition.predicate])
            yield replace(clause, body=(start, *clause.body[:place], *clause.body[place + 1 :]))
