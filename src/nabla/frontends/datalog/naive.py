"""The meaning of a program, by the book: every rule tried with all facts, over and over, until nothing is new.

This is the specification that plans, the fixpoint loop, delta rules and magic sets are tested against. It shares the
parser and the order of strata with them and nothing else: no normal form, no algebra, no deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nabla.algebra.reference.evaluator import Row, Value, evaluate_expression, parse_type
from nabla.algebra.reference.evaluator import Term as Compiled
from nabla.algebra.reference.evaluator.aggregates import aggregation
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.values import null_safe_equal
from nabla.algebra.types import UNKNOWN
from nabla.frontends.datalog.clauses import aggregates
from nabla.frontends.datalog.functions import AGGREGATE_FUNCTIONS
from nabla.frontends.datalog.program import Program
from nabla.frontends.datalog.terms import (
    Aggregation,
    Apply,
    Atom,
    Comparison,
    Constant,
    Literal,
    Operation,
    Rule,
    Term,
    Variable,
    Wildcard,
    parts,
    sql_of,
    terms_of,
    variables_of,
    walk,
)

Environment = dict[str, Value]
State = Mapping[str, frozenset[Row]]


def naive(program: Program, facts: Mapping[str, Iterable[Row]], bound: int = 1000) -> dict[str, frozenset[Row]]:
    """The rows of every derived predicate."""
    state: dict[str, frozenset[Row]] = {t: frozenset(map(tuple, facts.get(t, ()))) for t in program.tables}
    for stratum in program.strata:
        own = [p for p in stratum.predicates if p not in program.hidden]
        rules = [rule for rule in program.rules if rule.head.predicate in own]
        state |= dict.fromkeys(own, frozenset())
        for _ in range(bound):
            before = dict(state)
            for rule in rules:
                name = rule.head.predicate
                kinds = [c.type for c in program.columns(name)]
                state[name] |= {_cast(row, kinds) for row in _heads(rule, before)}
            if state == before:
                break
        else:
            raise RuntimeError(f"{', '.join(own)} did not settle in {bound} rounds")
    return {p: state[p] for p in program.predicates}


def _cast(row: Row, kinds: Sequence[str]) -> Row:
    casts = (cast_to(parse_type(kind)) for kind in kinds)
    return tuple(None if value is None else cast(value) for value, cast in zip(row, casts, strict=True))


def _heads(rule: Rule, state: State) -> Iterator[Row]:
    scope = frozenset(variables_of(*rule.head.arguments, *(t for b in rule.body for t in terms_of(b))))
    body = _Body(rule.body, state, scope)
    solutions = list(body.solutions({}))
    if not any(aggregates(a) for a in rule.head.arguments):
        for solution in solutions:
            with suppress(_Fails):
                yield tuple([body.value(a, solution) for a in rule.head.arguments])
        return
    groups: dict[Row, list[Environment]] = {}
    keys = [a for a in rule.head.arguments if not aggregates(a)]
    for solution in solutions:
        groups.setdefault(tuple(body.value(k, solution) for k in keys), []).append(solution)
    for members in groups.values():
        yield tuple(_grouped(a, members, body) for a in rule.head.arguments)


def _grouped(term: Term, members: list[Environment], body: _Body) -> Value:
    if not aggregates(term):
        return body.value(term, members[0])
    if isinstance(term, Apply) and term.function in AGGREGATE_FUNCTIONS:
        return _aggregated(term.function, term.arguments, term.distinct, members, body)
    inside = {f"?{i}": _grouped(part, members, body) for i, part in enumerate(parts(term))}
    marks = tuple(Variable(name) for name in inside)
    around: Term = Apply(term.function, marks) if isinstance(term, Apply) else term
    if isinstance(term, Operation):
        around = Operation(term.operator, marks)
    return evaluate_expression(sql_of(around), inside)


def _aggregated(
    function: str, arguments: Sequence[Term], distinct: bool, members: list[Environment], body: _Body
) -> Value:
    def getter(argument: Term) -> Callable[[Environment], Value]:
        return lambda solution: body.value(argument, solution)

    compiled = tuple(Compiled(getter(a), UNKNOWN) for a in arguments)
    return aggregation(function, compiled, distinct, None)((member, 1) for member in members)


@dataclass(frozen=True)
class _Body:
    """A conjunction. `scope` are the variables of the rule around it; those in braces are the aggregate's own."""

    literals: tuple[Literal, ...]
    state: State
    scope: frozenset[str]

    def solutions(self, given: Environment) -> Iterator[Environment]:
        """Every way to make the body true, one for each combination of facts."""
        positive = [b for b in self.literals if isinstance(b, Atom) and not b.negated]
        rest = [b for b in self.literals if b not in positive]
        for environment in self._matches(positive, given):
            with suppress(_Fails):
                if (solution := self._tested(rest, positive, environment)) is not None:
                    yield solution

    def _matches(self, atoms: list[Atom], environment: Environment) -> Iterator[Environment]:
        if not atoms:
            yield environment
            return
        first, *others = atoms
        for row in self.state[first.predicate]:
            extended = _unified(first, row, environment)
            if extended is not None:
                yield from self._matches(others, extended)

    def _tested(self, rest: list[Literal], atoms: list[Atom], environment: Environment) -> Environment | None:
        known, waiting = dict(environment), list(rest)
        while waiting:
            literal = next((b for b in waiting if self._ready(b, known)), None)
            if literal is None:
                break
            waiting.remove(literal)
            if isinstance(literal, Comparison) and not self._has_value(literal, known):
                variable, value = _definition(literal, known)
                known[variable] = self.value(value, known)
            elif not self._holds(literal, known):
                return None
        assert not waiting, f"{waiting} cannot be decided"
        for atom in atoms:  # arguments that are expressions
            for i, argument in enumerate(atom.arguments):
                if isinstance(argument, Apply | Operation | Aggregation) and not null_safe_equal(
                    known[f"{id(atom)}.{i}"], self.value(argument, known)
                ):
                    return None
        return known

    def _needs(self, term: Term) -> set[str]:
        """The variables that must have values before a term has one."""
        needed = set(variables_of(term))
        for part in walk(term):
            if isinstance(part, Aggregation):
                inside = {v for b in part.body for t in terms_of(b) for v in self._needs(t)}
                needed |= (inside | {v for a in part.arguments for v in self._needs(a)}) & self.scope
        return needed

    def _ready(self, literal: Literal, known: Environment) -> bool:
        if isinstance(literal, Comparison) and literal.operator == "=":
            sides = ((literal.left, literal.right), (literal.right, literal.left))
            if any(isinstance(a, Variable) and self._needs(b) <= known.keys() for a, b in sides):
                return True
        return all(self._needs(t) <= known.keys() for t in terms_of(literal))

    def _has_value(self, literal: Comparison, known: Environment) -> bool:
        return all(self._needs(t) <= known.keys() for t in terms_of(literal))

    def _holds(self, literal: Literal, known: Environment) -> bool:
        if isinstance(literal, Comparison):
            left, right = self.value(literal.left, known), self.value(literal.right, known)
            return evaluate_expression(f"`l` {literal.operator} `r`", {"l": left, "r": right}) is True
        wanted = [None if isinstance(a, Wildcard) else (self.value(a, known),) for a in literal.arguments]
        return not any(
            all(w is None or null_safe_equal(w[0], v) for w, v in zip(wanted, row, strict=True))
            for row in self.state[literal.predicate]
        )

    def value(self, term: Term, known: Environment) -> Value:
        if isinstance(term, Variable):
            return known[term.name]
        if isinstance(term, Aggregation):
            return self._aggregation(term, known)
        inside = {f"?{i}": part for i, part in enumerate(walk(term)) if isinstance(part, Aggregation)}
        assert not inside or isinstance(term, Apply | Operation)
        if not inside:
            return evaluate_expression(sql_of(term), {n: known[n] for n in variables_of(term)})
        values = {f"?{i}": self.value(part, known) for i, part in enumerate(parts(term))}
        marks = tuple(Variable(name) for name in values)
        around = Apply(term.function, marks) if isinstance(term, Apply) else Operation(term.operator, marks)  # type: ignore[union-attr]
        return evaluate_expression(sql_of(around), values)

    def _aggregation(self, term: Aggregation, known: Environment) -> Value:
        inner_scope = self.scope | frozenset(v for b in term.body for t in terms_of(b) for v in variables_of(t))
        inner = _Body(term.body, self.state, inner_scope)
        visible = {name: value for name, value in known.items() if name in self.scope}
        members = list(inner.solutions(visible))
        if not members and term.function not in ("count", "sum", "count_if", "approx_count_distinct"):
            raise _Fails
        value = _aggregated(term.function, term.arguments, False, members, inner)
        return 0 if value is None and term.function == "sum" else value


class _Fails(Exception):
    """An aggregate that has no value, such as the least of nothing: the rule does not hold."""


def _unified(atom: Atom, row: Row, environment: Environment) -> Environment | None:
    extended = dict(environment)
    for i, (argument, value) in enumerate(zip(atom.arguments, row, strict=True)):
        match argument:
            case Wildcard():
                pass
            case Variable():
                if argument.name not in extended:
                    extended[argument.name] = value
                elif not null_safe_equal(extended[argument.name], value):
                    return None
            case Constant():
                if not null_safe_equal(value, evaluate_expression(argument.sql, {})):
                    return None
            case _:
                extended[f"{id(atom)}.{i}"] = value
    return extended


def _definition(literal: Comparison, known: Environment) -> tuple[str, Term]:
    for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
        if isinstance(side, Variable) and side.name not in known:
            return side.name, other
    raise AssertionError(f"{literal} defines nothing")
