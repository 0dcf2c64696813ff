"""The plan of a predicate that is not recursive: one query over tables and other predicates.

Predicates are sets: the plan is the distinct union of the rules for a predicate, which is maintained by counting. If one rule
gives each row only once, the plan needs no distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nabla.algebra.build import compare, number
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import Aggregate, Constant, Distinct, Filter, Node, Project, UnionAll
from nabla.algebra.normalize import cast
from nabla.calculus.recursion.relations import Fresh
from nabla.frontends.datalog.clauses import Clause, aggregates
from nabla.frontends.datalog.compile import Body, Read, Translation, head_row
from nabla.frontends.datalog.functions import AGGREGATE_FUNCTIONS
from nabla.frontends.datalog.terms import Apply, Term, Variable, Wildcard, parts, variables_of
from nabla.frontends.datalog.trees import tree_of, with_type
from nabla.frontends.datalog.types import Typing

IsSet = Callable[[str], bool]


def predicate_plan(
    clauses: Sequence[Clause], columns: Sequence[Column], typing: Typing, read: Read, is_set: IsSet, fresh: Fresh
) -> Node:
    """The rows of a predicate, each once."""
    facts = [c for c in clauses if not c.body and not c.grouped]
    rules = [c for c in clauses if c not in facts]
    members = [clause_plan(c, columns, typing, read, is_set, fresh) for c in rules]
    if facts:
        members.append(_facts(facts, columns, typing, fresh))
    if len(clauses) == 1 and (clauses[0].grouped or not rules or _gives_rows_once(clauses[0], is_set)):
        return members[0]
    if len(members) == 1:
        return Distinct(members[0])
    return Distinct(UnionAll(tuple(members), tuple(map(fresh.column, columns))))


def clause_plan(
    clause: Clause, columns: Sequence[Column], typing: Typing, read: Read, is_set: IsSet, fresh: Fresh
) -> Node:
    """The heads that one rule gives, possibly several times."""
    translation = Translation(clause, typing, read, fresh, whole_facts=clause.grouped)
    body = translation.body()
    if not clause.grouped:
        return head_row(translation, body, columns)
    if not all(is_set(a.predicate) for a in clause.atoms if not a.negated):
        body.node = Distinct(body.node)
    return _group(translation, body, columns)


def _facts(facts: Sequence[Clause], columns: Sequence[Column], typing: Typing, fresh: Fresh) -> Node:
    rows = []
    for fact in facts:
        values = (with_type(tree_of(a, {}), *typing.expression(a, {})) for a in fact.arguments)
        rows.append(tuple(cast(v, c.type) for v, c in zip(values, columns, strict=True)))
    return Constant(tuple(map(fresh.column, columns)), tuple(dict.fromkeys(rows)))


def _gives_rows_once(clause: Clause, is_set: IsSet) -> bool:
    """Whether the head has all variables of the body, so that each row comes from one combination of facts."""
    shown = {a.name for a in clause.arguments if isinstance(a, Variable)}
    positive = [a for a in clause.atoms if not a.negated]
    return all(
        is_set(atom.predicate)
        and not any(isinstance(a, Wildcard) for a in atom.arguments)
        and set(variables_of(*atom.arguments)) <= shown
        for atom in positive
    )


def _group(translation: Translation, body: Body, columns: Sequence[Column]) -> Node:
    """Group by the arguments that do not aggregate. A rule whose body has no rows gives no row, unlike SQL without keys."""
    clause, fresh = translation.clause, translation.fresh
    keys: dict[Term, Column] = {}
    for argument, column in zip(clause.arguments, columns, strict=True):
        if not aggregates(argument):
            keys.setdefault(argument, fresh.column(column))
    named = [Named(column, translation.expression(term, body)) for term, column in keys.items()]
    named = [Named(Column(n.column.name, n.expr.type, n.expr.nullable), n.expr) for n in named]
    kept = Project(body.node, (*named, *(Named(c, c.ref) for c in body.node.columns)))
    calls = _Calls(translation, body)
    refs: dict[Term, Expr] = {term: n.column.ref for term, n in zip(keys, named, strict=True)}
    values = [calls.value(a, refs) for a in clause.arguments]
    there = None if keys else compare(calls.add(Apply("count", ())), ">", number(0))
    grouped: Node = Aggregate(kept, tuple(n.column.name for n in named), tuple(calls.calls))
    if there is not None:
        grouped = Filter(grouped, (there,))
    outputs = zip(columns, values, strict=True)
    return Project(grouped, tuple(Named(fresh.column(c), cast(value, c.type)) for c, value in outputs))


class _Calls:
    """The calls of aggregate functions in a head, each once, and expressions over them."""

    def __init__(self, translation: Translation, body: Body) -> None:
        self.translation = translation
        self.body = body
        self.calls: list[Call] = []
        self._known: dict[Term, Expr] = {}

    def add(self, term: Apply) -> Expr:
        if term not in self._known:
            kind, nullable = self.translation.typing.expression(term, self.translation.known)
            column = self.translation.fresh.column(Column(term.function, kind or "void", nullable))
            arguments = tuple(self.translation.expression(a, self.body) for a in term.arguments)
            self.calls.append(Call(column, term.function, arguments, term.distinct))
            self._known[term] = column.ref
        return self._known[term]

    def value(self, term: Term, keys: Mapping[Term, Expr]) -> Expr:
        """The expression of an argument of a head, over the columns of its aggregate calls and keys."""
        found = tree_of(term, {**keys, **self._results(term, keys)})
        if found.column is not None:
            return found
        return with_type(found, *self.translation.typing.expression(term, self.translation.known))

    def _results(self, term: Term, keys: Mapping[Term, Expr]) -> dict[Term, Expr]:
        """The columns of the aggregate calls in a term."""
        if term in keys:
            return {}
        if isinstance(term, Apply) and term.function in AGGREGATE_FUNCTIONS:
            return {term: self.add(term)}
        return {call: result for part in parts(term) for call, result in self._results(part, keys).items()}
