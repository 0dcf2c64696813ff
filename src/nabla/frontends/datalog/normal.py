"""The normal form of rules: `Normalizer` makes clauses of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from nabla.errors import NablaError
from nabla.frontends.datalog.clauses import AggregateLookup, Clause, Condition, Define, aggregates, is_plain
from nabla.frontends.datalog.clauses import names as names_in
from nabla.frontends.datalog.functions import AGGREGATE_FUNCTIONS, ZERO_WHEN_EMPTY
from nabla.frontends.datalog.safety import binds, bound_by, check_safety, plain_variables, unsafe
from nabla.frontends.datalog.terms import (
    Aggregation,
    Apply,
    Atom,
    Comparison,
    Literal,
    Operation,
    Position,
    Rule,
    Term,
    Variable,
    Wildcard,
    integer,
    parts,
    terms_of,
    variables_of,
    walk,
)


@dataclass
class Normalizer:
    """Makes clauses. `taken` are the names of predicates and tables. Aggregates in bodies become predicates with new names;
    `hidden` has the texts that messages show for them."""

    taken: set[str]
    hidden: dict[str, str] = field(default_factory=dict)

    def clauses(self, rule: Rule) -> Iterator[Clause]:
        """The clauses of the aggregates in the rule's body, and then the clause of the rule."""
        work = _RuleWork(self, rule)
        body = [part for literal in rule.body for part in work.conditions(literal)]
        arguments = tuple(work.expression(argument, "the head") for argument in rule.head.arguments)
        clause = Clause(rule.head.predicate, arguments, _find_definitions([*body, *work.extra]), rule.place)
        if clause.grouped:
            _check_aggregates(clause)
        check_safety(clause)
        for auxiliary in work.auxiliaries:
            yield from self.clauses(auxiliary)
        yield clause

    def apart(self, clauses: Iterable[Clause]) -> Iterator[Clause]:
        """The clauses with a new predicate for each clause that aggregates, if other clauses define its predicate, too. The
        other clauses may then depend on it."""
        made = list(clauses)
        rules = Counter(clause.predicate for clause in made)
        for clause in made:
            if clause.grouped and rules[clause.predicate] > 1:
                name = self.new_predicate(clause.predicate, "rule")
                yield replace(clause, predicate=name)
                row = tuple(Variable(f"X{i + 1}", a.place) for i, a in enumerate(clause.arguments))
                atom = Atom(name, row, place=clause.place)
                yield Clause(clause.predicate, row, (atom,), clause.place)
            else:
                yield clause

    def new_predicate(self, owner: str, what: str) -> str:
        name = next(n for i in count(1) if (n := f"{owner}_{what}{i}") not in self.taken)
        self.taken.add(name)
        self.hidden[name] = f"{what} in {owner}"
        return name


class _RuleWork:
    """Makes the normal form of one rule."""

    def __init__(self, owner: Normalizer, rule: Rule) -> None:
        self.owner = owner
        self.rule = rule
        self.names = {v for literal in rule.body for v in _all_variables(terms_of(literal))}
        self.names |= _all_variables(rule.head.arguments)
        self.extra: list[Condition] = []
        self.auxiliaries: list[Rule] = []

    def fresh(self, place: Position) -> Variable:
        name = next(n for i in count(1) if (n := f"V{i}") not in self.names)
        self.names.add(name)
        return Variable(name, place)

    def conditions(self, literal: Literal) -> Iterator[Condition]:
        if isinstance(literal, Comparison):
            if (named := self._named_result(literal)) is not None:
                self.look_up(*named)
                return
            left, right = (self.expression(t, "a comparison", no_aggregates=True) for t in terms_of(literal))
            yield replace(literal, left=left, right=right)
            return
        arguments: list[Term] = []
        for argument in literal.arguments:
            if not is_plain(argument):
                value = self.expression(argument, f"an argument of {literal.predicate}", no_aggregates=True)
                variable = self.fresh(argument.place)
                yield Define(variable, value)
                argument = variable
            arguments.append(argument)
        yield replace(literal, arguments=tuple(arguments))

    def expression(self, term: Term, where: str, no_aggregates: bool = False) -> Term:
        match term:
            case Wildcard():
                raise unsafe("_", f"stands for any value in {where}, where one is needed", term.place)
            case Aggregation():
                return self.look_up(term)
            case Apply():
                if no_aggregates and term.function in AGGREGATE_FUNCTIONS:
                    raise _misplaced_aggregate(term)
                return replace(term, arguments=tuple(self.expression(a, where, no_aggregates) for a in term.arguments))
            case Operation():
                return replace(term, operands=tuple(self.expression(o, where, no_aggregates) for o in term.operands))
        return term

    def _named_result(self, literal: Comparison) -> tuple[Aggregation, Variable] | None:
        """The variable N of `N = count : { … }`, if nothing else gives N its value: it is the result of the lookup."""
        equalities = [b for b in self.rule.body if isinstance(b, Comparison) and b.operator == "="]
        for variable, term in ((literal.left, literal.right), (literal.right, literal.left)):
            if literal in equalities and isinstance(variable, Variable) and isinstance(term, Aggregation):
                elsewhere = [b for b in equalities if b is not literal and variable in terms_of(b)]
                if not elsewhere and variable.name not in bound_by([b for b in self.rule.body if isinstance(b, Atom)]):
                    return term, variable
        return None

    def look_up(self, term: Aggregation, named: Variable | None = None) -> Variable:
        """Make an aggregate in a body a hidden predicate with a row for each group; the rule looks its value up."""
        if term.function not in AGGREGATE_FUNCTIONS:
            raise NablaError(
                "NABLA_RULES_AGGREGATE", f"{term.function} is not an aggregate function", place=str(term.place)
            )
        term = replace(term, body=tuple(map(self._define_outer_values, term.body)))
        inner = _all_variables([*term.arguments, *(t for literal in term.body for t in terms_of(literal))])
        outer = {**self._own_variables(), **{d.variable.name: d.variable for d in self.extra if isinstance(d, Define)}}
        shared = tuple(Variable(name, term.place) for name in outer if name in inner)
        predicate = self.owner.new_predicate(self.rule.head.predicate, term.function)
        body = term.body
        if needed := tuple(v for v in shared if v.name not in bound_by(body)):
            body = (self._domain(needed, term), *body)
        value: Term = Apply(term.function, term.arguments, place=term.place)
        zero = term.function in ZERO_WHEN_EMPTY
        if term.function == "sum":
            value = Apply("coalesce", (value, integer(0)), place=term.place)
        self.auxiliaries.append(Rule(Atom(predicate, (*shared, value), place=term.place), body, term.place))
        result = named or self.fresh(term.place)
        atom = Atom(predicate, (*shared, result), place=term.place)
        self.extra.append(AggregateLookup(atom, integer(0) if zero else None))
        return result

    def _define_outer_values(self, literal: Literal) -> Literal:
        """Replace an argument in braces that this rule computes, as in `p(X + 1)`, by a variable that the rule defines."""
        if isinstance(literal, Comparison):
            return literal
        outer = self._own_variables()

        def value(argument: Term) -> Term:
            own = variables_of(argument)
            inside = any(isinstance(part, Aggregation | Wildcard) for part in walk(argument))
            if is_plain(argument) or inside or not own or not own.keys() <= outer.keys():
                return argument
            variable = self.fresh(argument.place)
            self.extra.append(Define(variable, self.expression(argument, literal.predicate, no_aggregates=True)))
            return variable

        return replace(literal, arguments=tuple(map(value, literal.arguments)))

    def _own_variables(self) -> dict[str, Variable]:
        return variables_of(*self.rule.head.arguments, *(t for literal in self.rule.body for t in terms_of(literal)))

    def _domain(self, shared: tuple[Variable, ...], term: Aggregation) -> Atom:
        """The values of this rule that an aggregate's body needs but does not bind itself: `count : { p(Y), Y < X }`."""
        outer = tuple(
            literal
            for literal in self.rule.body
            if not any(isinstance(part, Aggregation) for t in terms_of(literal) for part in walk(t))
            and (isinstance(literal, Comparison) or not literal.negated)
        )
        known = bound_by(outer)
        for variable in shared:
            if variable.name not in known:
                raise unsafe(
                    variable.name, f"is used around and inside of {term.function}, and bound by neither", term.place
                )
        outer = tuple(literal for literal in outer if isinstance(literal, Atom) or names_in(literal) <= known)
        predicate = self.owner.new_predicate(self.rule.head.predicate, "domain")
        domain = Atom(predicate, shared, place=term.place)
        self.auxiliaries.append(Rule(domain, outer, term.place))
        return domain


def _all_variables(terms: Iterable[Term]) -> set[str]:
    """The variables of terms, also those inside of aggregations."""
    found: set[str] = set()
    for term in terms:
        for part in walk(term):
            if isinstance(part, Variable):
                found.add(part.name)
            elif isinstance(part, Aggregation):
                found |= _all_variables([*part.arguments, *(t for literal in part.body for t in terms_of(literal))])
    return found


def _find_definitions(body: list[Condition]) -> tuple[Condition, ...]:
    """The conditions with definitions instead of equalities that give a variable its only value. A definition comes after
    those of its operands."""
    bound = {v for c in body if isinstance(c, Atom) and not c.negated for v in plain_variables(c)}
    result, changed = list(body), True
    while changed:
        changed = False
        for place, condition in enumerate(result):
            if isinstance(condition, Comparison) and condition.operator == "=":
                defined = _as_definition(condition, bound)
                if defined is not None:
                    result[place], changed = defined, True
                    bound.add(defined.variable.name)
            elif not isinstance(condition, Atom | Comparison):
                more = set(binds(condition, bound)) - bound
                bound |= more
                changed = changed or bool(more)
    return tuple(result)


def _as_definition(condition: Comparison, bound: set[str]) -> Define | None:
    for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
        if isinstance(side, Variable) and side.name not in bound and set(variables_of(other)) <= bound:
            return Define(side, other)
    return None


def _misplaced_aggregate(term: Apply) -> NablaError:
    hint = "greatest" if term.function == "max" else "least" if term.function == "min" else ""
    other = f" Of two values the function is {hint}." if hint else ""
    return NablaError(
        "NABLA_RULES_AGGREGATE",
        f"{term.function} aggregates, and stands in a body",
        place=str(term.place),
        remedy=f"Write N = {term.function} X : {{ … }}, or aggregate in a head.{other}",
    )


def _check_aggregates(clause: Clause) -> None:
    """An aggregate of a head stands alone or among the variables that the head groups by."""
    keys = {a for a in clause.arguments if not aggregates(a)}

    def refuse(what: str, place: Position, remedy: str) -> NablaError:
        return NablaError("NABLA_RULES_AGGREGATE", what, place=str(place), remedy=remedy)

    def visit(term: Term) -> None:
        if term in keys:
            return
        if isinstance(term, Apply) and term.function in AGGREGATE_FUNCTIONS:
            if any(aggregates(inside) for inside in term.arguments):
                raise refuse(
                    f"{term} aggregates an aggregate", term.place, "Define the inner one by a rule of its own."
                )
            return
        if isinstance(term, Variable):
            remedy = f"Make {term} an argument of the head, or put it inside of the aggregate."
            raise refuse(f"{term} stands beside an aggregate, and the head does not group by it", term.place, remedy)
        for part in parts(term):
            visit(part)

    for argument in clause.arguments:
        visit(argument)
