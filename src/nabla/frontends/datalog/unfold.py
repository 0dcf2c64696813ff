"""Unfolding of rules into operators, as Manthey does it: join, difference, selection, projection, union, grouping.

link(X, Y) ⇐ edge(X, Y).                      link(X, Y)     ⇐ edge(X, Y).        union of edge
link(X, Y) ⇐ edge(X, Z), edge(Z, Y).          link(X, Y)     ⇐ link1(X, Y).       and link1
                                              link1(X, Y)    ⇐ link2(X, Y, Z).    projection
                                              link2(X, Y, Z) ⇐ edge(X, Z), edge(Z, Y).   join
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from nabla.frontends.datalog.clauses import (
    AggregateLookup,
    Clause,
    Condition,
    Define,
    aggregates,
    is_plain,
    names,
    split_lookups,
)
from nabla.frontends.datalog.terms import TRUE, Atom, Comparison, Term, Variable, Wildcard, new_variables, variables_of

Kind = Literal["join", "difference", "selection", "projection", "union", "grouping", "fact"]
UNIT = Atom("unit", (TRUE,))
"""A fact that always holds. The operators of a body without positive atoms start from it."""


@dataclass(frozen=True)
class UnfoldedOperator:
    """A rule with one operator: `head` follows from one or two operands and conditions on their variables."""

    kind: Kind
    head: Atom
    operands: tuple[Atom, ...]
    conditions: tuple[Condition, ...] = ()

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The operator as rules."""
        if self.kind == "union":
            return tuple(Clause(self.head.predicate, self.head.arguments, (operand,)) for operand in self.operands)
        left, *right = self.operands or (None,)
        body: list[Condition] = [left] if left else []
        body += [replace(r, negated=self.kind == "difference") for r in right]
        return (Clause(self.head.predicate, self.head.arguments, (*body, *self.conditions)),)


class Unfolding:
    """The operators of one predicate, each after those that it reads."""

    def __init__(self, predicate: str, clauses: Iterable[Clause], taken: set[str]) -> None:
        self.predicate = predicate
        self.taken = taken
        self.operators: list[UnfoldedOperator] = []
        self._define(predicate, [c for clause in clauses for c in split_lookups(self._flat(clause))])

    def _flat(self, clause: Clause) -> Clause:
        """Make the body of an aggregate with lookups a relation of its own, because each lookup is two rules."""
        if not clause.grouped or not any(isinstance(c, AggregateLookup) for c in clause.body):
            return clause
        clause = _name_wildcards(clause)
        bound = (c for c in clause.body if not (isinstance(c, Atom) and c.negated))
        variables = tuple(Variable(name) for name in dict.fromkeys(n for c in bound for n in sorted(names(c))))
        body = Atom(self._new_name(), variables or (TRUE,))
        self._define(body.predicate, list(split_lookups(Clause(body.predicate, body.arguments, clause.body))))
        return replace(clause, body=(body,))

    def _define(self, predicate: str, rules: list[Clause]) -> None:
        if len(rules) == 1:
            self._rule(rules[0], predicate)
            return
        variables = _distinct_variables(rules[0].arguments) or tuple(
            Variable(f"X{i + 1}") for i in range(len(rules[0].arguments))
        )
        operands = [self._operand(rule, variables) for rule in rules]
        self._unite(predicate, list(dict.fromkeys(operands)), variables)

    def _new_name(self) -> str:
        name = next(n for i in count(1) if (n := f"{self.predicate}{i}") not in self.taken)
        self.taken.add(name)
        return name

    def _unite(self, predicate: str, operands: list[Atom], variables: tuple[Variable, ...]) -> None:
        """Unite two relations at a time, because a union of many would need a delta rule for every subset of them."""
        first, *others = operands
        for i, other in enumerate(others):
            name = predicate if i == len(others) - 1 else self._new_name()
            self.operators.append(UnfoldedOperator("union", Atom(name, variables), (first, other)))
            first = Atom(name, variables)
        if not others:
            self.operators.append(UnfoldedOperator("selection", Atom(predicate, variables), (first,)))

    def _operand(self, rule: Clause, variables: tuple[Variable, ...]) -> Atom:
        """The relation that a rule contributes to a union: the relation that it copies, or a new one."""
        if len(rule.body) == 1 and isinstance(rule.body[0], Atom) and not rule.grouped:
            atom, own = rule.body[0], _distinct_variables(rule.arguments)
            read = _distinct_variables(rule.body[0].arguments)
            if not atom.negated and own and read and {v.name for v in own} == {v.name for v in read}:
                renamed = {a.name: b for a, b in zip(own, variables, strict=True)}
                return replace(atom, arguments=tuple(renamed[v.name] for v in read))
        name = self._new_name()
        self._rule(rule, name)
        return Atom(name, variables)

    def _rule(self, rule: Clause, name: str) -> None:
        """The operators of one rule, named from the outermost inwards and listed from the innermost outwards."""
        rule = _name_wildcards(rule)
        if not rule.body and not rule.grouped:
            self.operators.append(UnfoldedOperator("fact", Atom(name, rule.arguments), ()))
            return
        first, *steps = self._steps(rule)
        head = Atom(name, rule.arguments)
        keeps_all = set(variables_of(*rule.arguments)) == {v.name for v in (steps or [first])[-1].variables}
        last: UnfoldedOperator | None = None
        if rule.grouped:
            last = UnfoldedOperator("grouping", head, ())
        elif not keeps_all:
            last = UnfoldedOperator("projection", head, ())
        elif not steps:
            last = UnfoldedOperator("selection", head, ())
        labels = [self._new_name() for _ in range(len(steps) - (last is None))]
        labels = [*reversed(labels), name] if last is None else labels[::-1]
        below = first.operands[0]
        for step, label in zip(steps, labels, strict=True):
            own = head if label == name else Atom(label, step.variables or (TRUE,))
            self.operators.append(UnfoldedOperator(step.kind, own, (below, *step.operands), step.conditions))
            below = own
        if last is not None:
            self.operators.append(replace(last, operands=(below,)))

    def _steps(self, rule: Clause) -> list[_Step]:
        """The steps from the first atom: joins with the others, conditions and definitions, differences."""
        positive = [a for a in rule.atoms if not a.negated] or [UNIT]
        waiting = [c for c in rule.body if not isinstance(c, Atom)]
        shown = variables_of(*rule.arguments)
        variables = _arrange(variables_of(*positive[0].arguments), shown)
        steps = [_Step("selection", (positive[0],), (), variables)]
        for atom in positive[1:]:
            variables = _arrange(_by_name(variables) | variables_of(*atom.arguments), shown)
            ready = tuple(c for c in waiting if isinstance(c, Comparison) and names(c) <= _by_name(variables).keys())
            waiting = [c for c in waiting if c not in ready]
            steps.append(_Step("join", (atom,), ready, variables))
        if waiting:
            for condition in waiting:
                if isinstance(condition, Define):
                    variables = _arrange(_by_name(variables) | variables_of(condition.variable), shown)
            steps.append(_Step("selection", (), tuple(waiting), variables))
        elif len(steps) == 1 and not _each_once(positive[0]):
            steps.append(_Step("selection", (), (), variables))
        for atom in rule.atoms:
            if atom.negated:
                steps.append(_Step("difference", (self._negation(atom),), (), variables))
        return steps

    def _negation(self, atom: Atom) -> Atom:
        """The negated atom; with wildcards it is negated as a projection of its relation."""
        if not any(isinstance(a, Wildcard) for a in atom.arguments):
            return replace(atom, negated=False)
        fresh = new_variables("W", variables_of(*atom.arguments))
        named = tuple(next(fresh) if isinstance(a, Wildcard) else a for a in atom.arguments)
        kept = tuple(variables_of(*atom.arguments).values())
        own = Atom(self._new_name(), kept or (TRUE,))
        self.operators.append(UnfoldedOperator("projection", own, (Atom(atom.predicate, named),)))
        return own


@dataclass(frozen=True)
class _Step:
    """A step: the other operands that it joins, and the variables that have values after it."""

    kind: Literal["join", "difference", "selection"]
    operands: tuple[Atom, ...]
    conditions: tuple[Condition, ...]
    variables: tuple[Variable, ...]


def _by_name(variables: Iterable[Variable]) -> dict[str, Variable]:
    return {v.name: v for v in variables}


def _arrange(variables: dict[str, Variable], first: Iterable[str]) -> tuple[Variable, ...]:
    """The variables, those of the head first, in its order."""
    order = [n for n in first if n in variables]
    return tuple(variables[n] for n in dict.fromkeys([*order, *variables]))


def _distinct_variables(terms: Sequence[Term]) -> tuple[Variable, ...] | None:
    variables = tuple(t for t in terms if isinstance(t, Variable))
    return variables if len({v.name for v in variables}) == len(terms) else None


def _each_once(atom: Atom) -> bool:
    used = [a.name for a in atom.arguments if isinstance(a, Variable)]
    return len(set(used)) == len(used)


def _name_wildcards(rule: Clause) -> Clause:
    """The rule with names for the wildcards of positive atoms, and with definitions for expressions of the head."""
    taken = {name for c in rule.body for name in names(c)} | set(variables_of(*rule.arguments))
    fresh = new_variables("W", taken)

    def named(atom: Atom) -> Atom:
        return replace(atom, arguments=tuple(next(fresh) if isinstance(a, Wildcard) else a for a in atom.arguments))

    body: list[Condition] = [named(c) if isinstance(c, Atom) and not c.negated else c for c in rule.body]
    arguments: list[Term] = []
    for argument in rule.arguments:
        if not is_plain(argument) and not aggregates(argument):
            variable = next(fresh)
            body.append(Define(variable, argument))
            argument = variable
        arguments.append(argument)
    return replace(rule, arguments=tuple(arguments), body=tuple(body))
