"""The meaning of a program by its definition: every rule is applied to all facts, again and again, until nothing is new.

This is the specification that plans, the fixpoint loop, delta rules and magic sets are tested against. It shares the
parser, the order of strata and the trees of scalar terms with them, but no normal form of rules, no plans and no deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from nabla.algebra.build import compare
from nabla.algebra.expressions import Expr, Ref
from nabla.algebra.reference.evaluator import Row, Slot, Value, compile_expression, parse_type
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
    terms_of,
    variables_of,
    walk,
)
from nabla.frontends.datalog.trees import tree_of

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
        yield tuple(_value_of_group(a, members, body) for a in rule.head.arguments)


def _value_of_group(term: Term, members: list[Environment], body: _Body) -> Value:
    if not aggregates(term):
        return body.value(term, members[0])
    if isinstance(term, Apply) and term.function in AGGREGATE_FUNCTIONS:
        return _aggregate(term.function, term.arguments, term.distinct, members, body)
    calls = (part for part in walk(term) if isinstance(part, Apply) and part.function in AGGREGATE_FUNCTIONS)
    return body.value(term, members[0], {call: _value_of_group(call, members, body) for call in calls})


def _aggregate(
    function: str, arguments: Sequence[Term], distinct: bool, members: list[Environment], body: _Body
) -> Value:
    def getter(argument: Term) -> Callable[[Environment], Value]:
        return lambda solution: body.value(argument, solution)

    compiled = tuple(Compiled(getter(a), UNKNOWN) for a in arguments)
    return aggregation(function, compiled, distinct, None)((member, 1) for member in members)


@dataclass(frozen=True)
class _Body:
    """A conjunction of literals. `scope` has the variables of the rule around it; an aggregate's braces may have more."""

    literals: tuple[Literal, ...]
    state: State
    scope: frozenset[str]

    def solutions(self, given: Environment) -> Iterator[Environment]:
        """Every way to make the body true, one for each combination of facts."""
        positive = [b for b in self.literals if isinstance(b, Atom) and not b.negated]
        rest = [b for b in self.literals if b not in positive]
        for environment in self._matches(positive, given):
            with suppress(_Fails):
                if (solution := self._decide(rest, positive, environment)) is not None:
                    yield solution

    def _matches(self, atoms: list[Atom], environment: Environment) -> Iterator[Environment]:
        if not atoms:
            yield environment
            return
        first, *others = atoms
        for row in self.state[first.predicate]:
            extended = _unify(first, row, environment)
            if extended is not None:
                yield from self._matches(others, extended)

    def _decide(self, rest: list[Literal], atoms: list[Atom], environment: Environment) -> Environment | None:
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
            return _evaluate(compare(Ref("0", ""), literal.operator, Ref("1", "")), (left, right)) is True
        wanted = [None if isinstance(a, Wildcard) else (self.value(a, known),) for a in literal.arguments]
        return not any(
            all(w is None or null_safe_equal(w[0], v) for w, v in zip(wanted, row, strict=True))
            for row in self.state[literal.predicate]
        )

    def value(self, term: Term, known: Environment, results: Mapping[Term, Value] | None = None) -> Value:
        """The value of a term; `results` has those of the aggregate calls in it."""
        if isinstance(term, Variable):
            return known[term.name]
        if isinstance(term, Aggregation):
            return self._aggregation(term, known)
        given: dict[Term, Value] = {variable: known[name] for name, variable in variables_of(term).items()}
        given |= {part: self._aggregation(part, known) for part in walk(term) if isinstance(part, Aggregation)}
        given |= results or {}
        return _evaluate(_tree(term, tuple(given)), tuple(given.values()))

    def _aggregation(self, term: Aggregation, known: Environment) -> Value:
        inner_scope = self.scope | frozenset(v for b in term.body for t in terms_of(b) for v in variables_of(t))
        inner = _Body(term.body, self.state, inner_scope)
        visible = {name: value for name, value in known.items() if name in self.scope}
        members = list(inner.solutions(visible))
        if not members and term.function not in ("count", "sum", "count_if", "approx_count_distinct"):
            raise _Fails
        value = _aggregate(term.function, term.arguments, False, members, inner)
        return 0 if value is None and term.function == "sum" else value


class _Fails(Exception):
    """An aggregate over no facts has no value, as `min` of an empty set: the rule then derives nothing."""


@lru_cache(maxsize=1 << 14)
def _tree(term: Term, given: tuple[Term, ...]) -> Expr:
    """The expression of a term over a row with the values of the given terms. Its columns have no types: values tell."""
    return tree_of(term, {part: Ref(str(place), "") for place, part in enumerate(given)})


def _evaluate(expr: Expr, row: Row) -> Value:
    return compile_expression(expr, {str(place): Slot(place) for place, _ in enumerate(row)}).get(row)


def _unify(atom: Atom, row: Row, environment: Environment) -> Environment | None:
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
                if not null_safe_equal(value, _evaluate(_tree(argument, ()), ())):
                    return None
            case _:
                extended[f"{id(atom)}.{i}"] = value
    return extended


def _definition(literal: Comparison, known: Environment) -> tuple[str, Term]:
    for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
        if isinstance(side, Variable) and side.name not in known:
            return side.name, other
    raise AssertionError(f"{literal} defines nothing")
