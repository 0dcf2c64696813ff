"""Clauses: rules in normal form, on which everything after the parser works.

Arguments of atoms are variables, wildcards and constants. An equality that gives a variable its value is a `Define`. An
aggregate in a body is a predicate of its own, with a row for every group that has any facts, and a `Lookup` in the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nabla.frontends.datalog.functions import AGGREGATE_FUNCTIONS
from nabla.frontends.datalog.terms import (
    NOWHERE,
    Apply,
    Atom,
    Comparison,
    Constant,
    Position,
    Term,
    Variable,
    Wildcard,
    terms_of,
    variables_of,
    walk,
)


@dataclass(frozen=True)
class Define:
    """A condition that the variable has the value of the term, which may be NULL. It defines the variable, or compares the
    two if the variable has a value already."""

    variable: Variable
    term: Term

    def __str__(self) -> str:
        return f"{self.variable} = {self.term}"


@dataclass(frozen=True)
class AggregateLookup:
    """A look-up of the row of an aggregate's group. If there is none, the result is the default; without a default the
    condition fails."""

    atom: Atom
    default: Term | None

    @property
    def result(self) -> Variable:
        last = self.atom.arguments[-1]
        assert isinstance(last, Variable)
        return last

    @property
    def keys(self) -> tuple[Term, ...]:
        return self.atom.arguments[:-1]

    def __str__(self) -> str:
        return f"{self.atom}" + (f" or else {self.result} = {self.default}" if self.default else "")


Condition: TypeAlias = Atom | Comparison | Define | AggregateLookup


@dataclass(frozen=True)
class Clause:
    """A rule in normal form."""

    predicate: str
    arguments: tuple[Term, ...]
    body: tuple[Condition, ...] = ()
    place: Position = field(default=NOWHERE, compare=False)

    @property
    def grouped(self) -> bool:
        """Whether the head aggregates."""
        return any(aggregates(argument) for argument in self.arguments)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return tuple(c for c in self.body if isinstance(c, Atom))

    @property
    def head(self) -> Atom:
        return Atom(self.predicate, self.arguments, place=self.place)

    def __str__(self) -> str:
        return f"{self.head} ⇐ {', '.join(map(str, self.body))}." if self.body else f"{self.head}."

    def reads(self) -> Iterator[tuple[str, bool, Position]]:
        """The predicates that the body reads, and whether they must be complete before: negated or aggregated."""
        for condition in self.body:
            if isinstance(condition, Atom):
                yield condition.predicate, condition.negated or self.grouped, condition.place
            elif isinstance(condition, AggregateLookup):
                yield condition.atom.predicate, True, condition.atom.place


def aggregates(term: Term) -> bool:
    return any(isinstance(part, Apply) and part.function in AGGREGATE_FUNCTIONS for part in walk(term))


def names(condition: Condition) -> frozenset[str]:
    """The variables that a condition mentions."""
    match condition:
        case Define():
            return frozenset(variables_of(condition.variable, condition.term))
        case AggregateLookup():
            return frozenset(variables_of(*condition.atom.arguments))
    return frozenset(variables_of(*terms_of(condition)))


def is_plain(argument: Term) -> bool:
    return isinstance(argument, Variable | Wildcard | Constant)


def split_lookups(clause: Clause) -> tuple[Clause, ...]:
    """The clause without lookups: a clause for groups that exist, and one for groups that do not."""
    for place, condition in enumerate(clause.body):
        if not isinstance(condition, AggregateLookup):
            continue
        found = _replace_variable(clause, place, (condition.atom,))
        if condition.default is None:
            return split_lookups(found)
        missing = replace(condition.atom, arguments=(*condition.keys, Wildcard()), negated=True)
        default = _replace_variable(clause, place, (missing, Define(condition.result, condition.default)))
        return split_lookups(found) + split_lookups(default)
    return (clause,)


def _replace_variable(clause: Clause, place: int, conditions: tuple[Condition, ...]) -> Clause:
    return replace(clause, body=clause.body[:place] + conditions + clause.body[place + 1 :])
