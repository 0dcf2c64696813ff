"""Bodies of rules as algebra: atoms become joined scans, negations anti joins, and lookups of aggregates outer joins.

The same translation serves whole predicates, whose plans the calculus then maintains, and the rule variants of a
recursive group, which start from a frontier. The caller decides which relation an atom reads (`Read`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nabla.algebra.build import compare, equal, number
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import Constant, Filter, Join, Node, Project
from nabla.algebra.normalize import cast, make, normalize
from nabla.calculus.recursion.relations import Fresh, same
from nabla.frontends.datalog import terms
from nabla.frontends.datalog.clauses import AggregateLookup, Clause, Condition, Define, names
from nabla.frontends.datalog.terms import Atom, Comparison, Term, Variable, Wildcard, variables_of
from nabla.frontends.datalog.trees import constant, tree_of, with_type
from nabla.frontends.datalog.types import Typing, wider_type

Read: TypeAlias = Callable[[str, tuple[int, ...], Fresh], Node]
"""The rows of a relation, reduced to the columns at the given positions, under fresh names."""


@dataclass
class Body:
    """A translated body: its rows, and the variables as expressions over their columns."""

    node: Node
    values: dict[str, Expr] = field(default_factory=dict)


class Translation:
    """Translates the body of one clause."""

    def __init__(self, clause: Clause, typing: Typing, read: Read, fresh: Fresh, whole_facts: bool = False) -> None:
        self.clause = clause
        self.typing = typing
        self.read = read
        self.fresh = fresh
        self.whole_facts = whole_facts  # an aggregate ranges over whole facts, not over the columns that the head keeps
        self.known = typing.variables(clause)
        uses = Counter(name for condition in clause.body for name in _mentions(condition))
        uses.update(name for a in clause.arguments for name in variables_of(a))
        self.used_once = frozenset(name for name, n in uses.items() if n == 1)

    def body(self) -> Body:
        atoms = [c for c in self.clause.body if isinstance(c, Atom) and not c.negated]
        rest = [c for c in self.clause.body if c not in atoms]
        body = self._start(atoms)
        rest = self._apply(body, rest, Comparison)
        while atoms:
            atom = max(atoms, key=lambda a: (self._connections(a, body), -atoms.index(a)))
            atoms.remove(atom)
            body = self._join(body, atom)
            rest = self._apply(body, rest, Comparison)
        while rest:
            left = self._apply(body, rest, Comparison, Define, AggregateLookup, Atom)
            if left == rest:
                raise AssertionError(f"{self.clause} is not safe")
            rest = left
        return body

    def _start(self, atoms: list[Atom]) -> Body:
        if not atoms:
            one = self.fresh.column(Column("one", "int", False))
            return Body(Constant((one,), ((number(1, "int"),),)))
        first = atoms.pop(0)
        node, values, inner = self._scan(first)
        return Body(_filter(node, inner), values)

    def _connections(self, atom: Atom, body: Body) -> int:
        return sum(isinstance(a, Variable) and a.name in body.values for a in atom.arguments)

    def _scan(self, atom: Atom) -> tuple[Node, dict[str, Expr], list[Expr]]:
        """The relation, the values of the atom's variables, and the conditions that the atom itself makes."""

        def needed(argument: Term) -> bool:
            return not isinstance(argument, Wildcard) and not (
                isinstance(argument, Variable) and argument.name in self.used_once
            )

        every = self.whole_facts and not atom.negated
        wanted = tuple(i for i, a in enumerate(atom.arguments) if every or needed(a))
        node = self.read(atom.predicate, wanted or (0,), self.fresh)
        values: dict[str, Expr] = {}
        conditions: list[Expr] = []
        for i, column in zip(wanted, node.columns, strict=False):
            argument = atom.arguments[i]
            if isinstance(argument, terms.Constant):
                conditions.append(_is_constant(column, argument))
            elif isinstance(argument, Variable) and argument.name in values:
                conditions.append(same(values[argument.name], column.ref))
            elif isinstance(argument, Variable):
                values[argument.name] = column.ref
        return node, values, conditions

    def _cast_variable(self, name: str, value: Expr) -> Expr:
        kind = self.known[name][0] if name in self.known else None
        return cast(value, kind) if kind and wider_type(kind, value.type) == kind else value

    def _join(self, body: Body, atom: Atom) -> Body:
        node, values, conditions = self._scan(atom)
        shared = [name for name in values if name in body.values]
        on = tuple(same(body.values[name], values[name]) for name in shared)
        right = _filter(node, conditions)
        # An atom without common or new variables is a yes or no. A join would make a product of it, a semijoin does not.
        body.node = Join(body.node, right, on, "inner" if values or self.whole_facts else "semi")
        for name, value in values.items():
            body.values.setdefault(name, value)
        return body

    def _apply(self, body: Body, conditions: list[Condition], *kinds: type) -> list[Condition]:
        """Apply the conditions of the given kinds whose variables have values; return the other conditions."""
        left: list[Condition] = []
        tests: list[Expr] = []
        for condition in conditions:
            if not isinstance(condition, kinds) or not self._ready(condition, body):
                left.append(condition)
            elif isinstance(condition, Comparison):
                tests.append(self._comparison(condition, body))
            elif isinstance(condition, Define):
                value = self.expression(condition.term, body)
                if condition.variable.name in body.values:
                    tests.append(same(body.values[condition.variable.name], value))
                else:
                    body.values[condition.variable.name] = value
            elif isinstance(condition, AggregateLookup):
                self._look_up(condition, body)
            else:
                self._negate(condition, body)
        body.node = _filter(body.node, tests)
        return left

    def _ready(self, condition: Condition, body: Body) -> bool:
        match condition:
            case Define():
                return set(variables_of(condition.term)) <= body.values.keys()
            case AggregateLookup():
                return set(variables_of(*condition.keys)) <= body.values.keys()
        return names(condition) <= body.values.keys()

    def expression(self, term: Term, body: Body) -> Expr:
        if isinstance(term, Variable):
            return self._cast_variable(term.name, body.values[term.name])
        values: dict[Term, Expr] = {
            v: self._cast_variable(name, body.values[name]) for name, v in variables_of(term).items()
        }
        return with_type(tree_of(term, values), *self.typing.expression(term, self.known))

    def _comparison(self, condition: Comparison, body: Body) -> Expr:
        left, right = self.expression(condition.left, body), self.expression(condition.right, body)
        left, right = _as_time(condition.left, left, right), _as_time(condition.right, right, left)
        return normalize(compare(left, condition.operator, right))

    def _negate(self, atom: Atom, body: Body) -> None:
        node, values, conditions = self._scan(atom)
        on = tuple(same(body.values[name], value) for name, value in values.items())
        body.node = Join(body.node, _filter(node, conditions), on, "anti")

    def _look_up(self, lookup: AggregateLookup, body: Body) -> None:
        width = len(lookup.atom.arguments)
        node = self.read(lookup.atom.predicate, tuple(range(width)), self.fresh)
        *keys, result = node.columns
        on = []
        for argument, column in zip(lookup.keys, keys, strict=True):
            assert isinstance(argument, Variable)
            on.append(same(body.values[argument.name], column.ref))
        body.node = Join(body.node, node, tuple(on), "inner" if lookup.default is None else "left")
        value = result.ref
        if lookup.default is not None:
            default = cast(tree_of(lookup.default, {}), result.type)
            value = make("Coalesce", (result.ref, default), result.type, False)
        body.values[lookup.result.name] = value


def _mentions(condition: Condition) -> list[str]:
    """The variables of a condition, one for each occurrence in an atom, because a variable that occurs twice is a join."""
    if isinstance(condition, Atom):
        return [a.name for a in condition.arguments if isinstance(a, Variable)]
    return list(names(condition))


def _filter(node: Node, conditions: list[Expr]) -> Node:
    return Filter(node, tuple(conditions)) if conditions else node


def _is_constant(column: Column, argument: terms.Constant) -> Expr:
    value: Expr = constant(argument)
    if argument.type == "string" and column.type != "string":
        value = cast(value, column.type)
    return equal(column.ref, value, null_safe=argument.type == "void")


def _as_time(term: Term, value: Expr, other: Expr) -> Expr:
    is_text = isinstance(term, terms.Constant) and term.type == "string"
    return cast(value, other.type) if is_text and other.type != "string" else value


def head_row(translation: Translation, body: Body, columns: Sequence[Column]) -> Node:
    """The head's values, in the types of the predicate's columns."""
    outputs = []
    for argument, column in zip(translation.clause.arguments, columns, strict=True):
        value = translation.expression(argument, body)
        outputs.append(Named(translation.fresh.column(column), cast(value, column.type)))
    return Project(body.node, tuple(outputs))
