"""Types: from the tables through the rules to the columns of every predicate.

A column that several rules fill has the type that holds all of their values: numbers are widened, other types must be equal.
Types grow along recursion until they are stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nabla.algebra.expressions import Column
from nabla.algebra.types import FLOAT, FRACTIONAL, INTEGRAL, numeric, parse_type, wider
from nabla.errors import NablaError
from nabla.frontends.datalog.clauses import AggregateLookup, Clause, Condition, Define
from nabla.frontends.datalog.functions import ZERO_WHEN_EMPTY, Changeable, KnownTypes, TypeOf, UnknownType
from nabla.frontends.datalog.terms import (
    Apply,
    Atom,
    Comparison,
    Constant,
    Operation,
    Position,
    Term,
    Variable,
    variables_of,
)

_TIMES = frozenset(("date", "timestamp", "timestamp_ntz", "time"))


def normal_type(ddl: str) -> str:
    """The type in the spelling by which this module compares types."""
    kind = parse_type(ddl)
    text = "".join(ddl.lower().split())
    known = numeric(kind) or kind.kind in ("string", "boolean", "date", "void")
    return str(kind) if known and not text.startswith(("array", "map", "struct")) else text


def wider_type(left: str, right: str) -> str | None:
    """The type that holds the values of both, or None if there is none."""
    if left == right or right == "void":
        return left
    if left == "void":
        return right
    a, b = parse_type(left), parse_type(right)
    if numeric(a) and numeric(b):
        if FLOAT in (a, b) and {a, b} <= FRACTIONAL | INTEGRAL.keys() and a != b:
            return "double"
        return str(wider(a, b))
    return "timestamp" if {left, right} == {"date", "timestamp"} else None


def comparable(left: str, right: str) -> bool:
    return wider_type(left, right) is not None


class Typing:
    """The columns of every predicate, found by growing types from the tables until nothing changes. `groups` are the
    rules by stratum, each after what it reads."""

    def __init__(
        self,
        groups: Sequence[Sequence[Clause]],
        labels: Mapping[str, Sequence[str]],
        tables: Mapping[str, Sequence[Column]],
        type_of: TypeOf,
    ) -> None:
        self.type_of = type_of if isinstance(type_of, KnownTypes) else KnownTypes(type_of)
        self.labels = dict(labels)
        self.types: dict[str, list[str | None]] = {p: [None] * len(names) for p, names in labels.items()}
        self.nullable: dict[str, list[bool]] = {p: [False] * len(names) for p, names in labels.items()}
        self._set_by: dict[tuple[str, int], Position] = {}
        for table, columns in tables.items():
            self.types[table] = [normal_type(c.type) for c in columns]
            self.nullable[table] = [c.nullable for c in columns]
        for group in groups:
            while sum(self._grow(clause) for clause in group):
                pass
        clauses = [clause for group in groups for clause in group]
        self._settle(clauses)
        for clause in clauses:
            self._check(clause)

    def alias(self, name: str, predicate: str) -> None:
        """Give another relation, a state or a change of the predicate, the same columns."""
        self.types[name], self.nullable[name] = self.types[predicate], self.nullable[predicate]
        self.labels[name] = self.labels[predicate]

    def columns(self, predicate: str) -> tuple[Column, ...]:
        kinds, nullable = self.types[predicate], self.nullable[predicate]
        names = self.labels[predicate]
        return tuple(Column(n, k or "void", may) for n, k, may in zip(names, kinds, nullable, strict=True))

    def variables(self, clause: Clause) -> dict[str, tuple[str | None, bool]]:
        """Type and nullability of the variables of a rule; None where not yet known."""
        found: dict[str, tuple[str | None, bool]] = {}
        for condition in clause.body:
            if isinstance(condition, Atom) and not condition.negated:
                self._by_columns(condition, found)
        pending = [c for c in clause.body if isinstance(c, Define | AggregateLookup)]
        while pending:
            ready = [c for c in pending if _operands(c) <= found.keys()]
            if not ready:
                break
            for condition in ready:
                pending.remove(condition)
                if isinstance(condition, AggregateLookup):
                    last = (self.types[condition.atom.predicate][-1], self.nullable[condition.atom.predicate][-1])
                    found.setdefault(condition.result.name, last)
                elif condition.variable.name not in found:
                    found[condition.variable.name] = self.expression(condition.term, found)
        return found

    def _by_columns(self, atom: Atom, found: dict[str, tuple[str | None, bool]]) -> None:
        kinds, nullable = self.types[atom.predicate], self.nullable[atom.predicate]
        for argument, kind, may in zip(atom.arguments, kinds, nullable, strict=True):
            if isinstance(argument, Variable):
                before = found.get(argument.name, (None, True))
                # A value that is in both columns fits the wider type, and is NULL only where both may be.
                both = wider_type(before[0], kind) or before[0] if before[0] and kind else before[0] or kind
                found[argument.name] = (both, may and before[1])

    def expression(self, term: Term, known: Mapping[str, tuple[str | None, bool]]) -> tuple[str | None, bool]:
        if isinstance(term, Constant):
            return term.type, term.type == "void"
        if isinstance(term, Variable):
            return known[term.name]
        used = {name: known[name] for name in variables_of(term)}
        types = {name: kind for name, (kind, _) in used.items() if kind is not None}
        if len(types) < len(used):
            return None, False
        try:
            kind = normal_type(self.type_of(term, types))
        except UnknownType as error:
            raise NablaError(
                "NABLA_RULES_TYPE", f"the type of {term} is not known: {error}", place=str(term.place)
            ) from None
        except Changeable:
            raise NablaError(
                "NABLA_RULES_CHANGEABLE",
                f"{term} can have another value although no fact has changed",
                place=str(term.place),
                remedy="Keep the value in a table, and read it from there.",
            ) from None
        return kind, _nullable(term, known)

    def _grow(self, clause: Clause) -> bool:
        known, changed = self.variables(clause), False
        types, nullable = self.types[clause.predicate], self.nullable[clause.predicate]
        for i, argument in enumerate(clause.arguments):
            kind, may = self.expression(argument, known)
            if may and not nullable[i]:
                nullable[i] = changed = True
            if kind is None:
                continue
            before = types[i]
            common = kind if before is None else wider_type(before, kind)
            if common is None:
                raise self._clash(clause, i, kind, argument.place)
            self._set_by.setdefault((clause.predicate, i), argument.place)
            if common != before:
                types[i], changed = common, True
        return changed

    def _clash(self, clause: Clause, i: int, kind: str, place: Position) -> NablaError:
        first, column = self._set_by[clause.predicate, i], self.labels[clause.predicate][i]
        return NablaError(
            "NABLA_RULES_TYPE",
            f'column {i + 1} ("{column}") of {clause.predicate} is {kind} here and '
            f"{self.types[clause.predicate][i]} in {first}",
            place=str(place if place.line else clause.place),
            remedy=f"Convert one of them, for example with string({column.upper()}).",
        )

    def _settle(self, clauses: Sequence[Clause]) -> None:
        for clause in clauses:
            for i, kind in enumerate(self.types[clause.predicate]):
                if kind is None:
                    raise NablaError(
                        "NABLA_RULES_TYPE",
                        f'nothing tells the type of column {i + 1} ("{self.labels[clause.predicate][i]}") of '
                        f"{clause.predicate}: every rule for it reads it",
                        place=str(clause.place),
                        remedy="Add a rule that starts the recursion.",
                    )
                if kind == "void":
                    self.types[clause.predicate][i] = "string"

    def _check(self, clause: Clause) -> None:
        """Refuse a rule that compares values of types that cannot be compared."""
        known = {name: kind or "void" for name, (kind, _) in self.variables(clause).items()}
        for condition in clause.body:
            match condition:
                case Atom():
                    self._check_atom(condition, condition.arguments, known)
                case AggregateLookup():
                    self._check_atom(condition.atom, condition.keys, known)
                case Comparison():
                    left, right = (self._type(t, known) for t in (condition.left, condition.right))
                    sides = ((condition.left, right), (condition.right, left))
                    if not comparable(left, right) and not any(_is_time_text(t, kind) for t, kind in sides):
                        raise _incomparable(str(condition), left, right, condition.place)
                case Define():
                    left, right = self._type(condition.variable, known), self._type(condition.term, known)
                    if not comparable(left, right):
                        raise _incomparable(str(condition), left, right, condition.term.place)

    def _type(self, term: Term, known: Mapping[str, str]) -> str:
        return self.expression(term, {name: (kind, True) for name, kind in known.items()})[0] or "void"

    def _check_atom(self, atom: Atom, arguments: Iterable[Term], known: Mapping[str, str]) -> None:
        for i, (argument, kind) in enumerate(zip(arguments, self.types[atom.predicate], strict=False)):
            if not isinstance(argument, Variable | Constant) or kind is None:
                continue
            own = known[argument.name] if isinstance(argument, Variable) else argument.type
            if not comparable(own, kind) and not _is_time_text(argument, kind):
                column = self.labels[atom.predicate][i]
                raise NablaError(
                    "NABLA_RULES_TYPE",
                    f'{argument} is {own}, and column {i + 1} ("{column}") of {atom.predicate} is {kind}',
                    place=str(argument.place if argument.place.line else atom.place),
                    remedy="Convert one of them, for example with string(X) or bigint(X).",
                )


def _operands(condition: Condition) -> set[str]:
    if isinstance(condition, Define):
        return set(variables_of(condition.term))
    assert isinstance(condition, AggregateLookup)
    return set(variables_of(*condition.keys))


def _is_time_text(term: Term, other: str) -> bool:
    """Whether the term is a string that is compared with a time and so read as one: day >= "2026-01-01"."""
    return isinstance(term, Constant) and term.type == "string" and other in _TIMES


def _nullable(term: Term, known: Mapping[str, tuple[str | None, bool]]) -> bool:
    match term:
        case Constant():
            return term.type == "void"
        case Variable():
            return known[term.name][1]
        case Operation():
            return any(_nullable(operand, known) for operand in term.operands)
        case Apply():
            counts = term.function in ZERO_WHEN_EMPTY - {"sum"}
            fallback = term.function == "coalesce" and not _nullable(term.arguments[-1], known)
            return not (counts or fallback)
    return True


def _incomparable(what: str, left: str, right: str, place: Position) -> NablaError:
    return NablaError(
        "NABLA_RULES_TYPE",
        f"{what} compares {left} with {right}",
        place=str(place),
        remedy="Convert one of them, for example with string(X) or bigint(X).",
    )
