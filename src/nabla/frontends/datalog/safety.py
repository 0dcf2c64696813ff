"""Safety of rules: the body gives every variable finitely many values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nabla.errors import NablaError
from nabla.frontends.datalog.clauses import AggregateLookup, Clause, Condition, Define
from nabla.frontends.datalog.terms import Atom, Comparison, Position, Term, Variable, terms_of, variables_of


def bound_by(body: Sequence[Condition]) -> set[str]:
    """The variables that get values from positive atoms, from lookups, and from equalities with terms that have values."""
    bound = {v for c in body if isinstance(c, Atom) and not c.negated for v in plain_variables(c)}
    while True:
        more = {name for condition in body for name in binds(condition, bound)} - bound
        if not more:
            return bound
        bound |= more


def plain_variables(atom: Atom) -> Iterator[str]:
    yield from (a.name for a in atom.arguments if isinstance(a, Variable))


def binds(condition: Condition, bound: set[str]) -> Iterator[str]:
    match condition:
        case Define():
            if set(variables_of(condition.term)) <= bound:
                yield condition.variable.name
        case AggregateLookup():
            if set(variables_of(*condition.keys)) <= bound:
                yield condition.result.name
        case Comparison(operator="="):
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                # An aggregation beside the sign has a value whatever stands in its braces.
                if isinstance(side, Variable) and set(variables_of(other)) <= bound:
                    yield side.name


def check_safety(clause: Clause) -> None:
    bound = bound_by(clause.body)
    for condition in sorted(clause.body, key=lambda c: isinstance(c, AggregateLookup)):
        terms = terms_of(condition) if isinstance(condition, Atom | Comparison) else _operands(condition)
        for name, variable in variables_of(*terms).items():
            if name not in bound:
                raise unsafe(name, f"has no value in {_shown(condition)}", variable.place)
    for term in clause.arguments:
        for name, variable in variables_of(term).items():
            if name not in bound:
                raise unsafe(name, "is in the head and has no value in the body", variable.place)


def _operands(condition: Define | AggregateLookup) -> tuple[Term, ...]:
    return (condition.term,) if isinstance(condition, Define) else condition.keys


def _shown(condition: Condition) -> str:
    if isinstance(condition, Atom) and condition.negated:
        return f"{condition}: a negation only tests values"
    if isinstance(condition, AggregateLookup):
        return "the rule around the braces that use it"
    return str(condition.term if isinstance(condition, Define) else condition)


def unsafe(name: str, why: str, place: Position) -> NablaError:
    remedy = "Bind it with an atom that is not negated, or write _ for any value."
    return NablaError("NABLA_RULES_UNSAFE", f"{name} {why}", place=str(place), remedy=remedy if name != "_" else "")
