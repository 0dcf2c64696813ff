"""Conjuncts that are known to hold, and what follows from them: equal columns, ranges, lists of values, columns that are not
NULL, and conjuncts themselves (Goldstein and Larson 2001, section 3)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from nabla._cached import cached_property
from nabla.algebra.build import is_not_true
from nabla.algebra.expressions import Apply, Expr, Literal, Ref
from nabla.algebra.types import decimal_of
from nabla.answer.canonical import canonical, conjuncts_of, disjuncts_of, is_exact, is_true

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_COMPARED = frozenset(("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "EqualTo"))
STRICT = (
    _COMPARED
    | frozenset(
        (
            "Add",
            "Subtract",
            "Multiply",
            "Divide",
            "Remainder",
            "IntegralDivide",
            "UnaryMinus",
            "Abs",
            "Ceil",
            "Floor",
            "Round",
        )
    )
    | frozenset(
        (
            "Not",
            "Cast",
            "Upper",
            "Lower",
            "Length",
            "Substring",
            "StartsWith",
            "EndsWith",
            "Contains",
            "Like",
            "RLike",
            "Concat",
        )
    )
    | frozenset(("Year", "Quarter", "Month", "DayOfMonth", "DayOfWeek", "DateAdd", "DateSub", "DateDiff"))
)
"""Functions that are NULL where an argument is."""
_TEXT_DATE = re.compile(r"\d{4}-\d{2}-\d{2}.*", re.DOTALL)


def value_of(literal: Literal) -> Any:
    """The value of a constant, ordered as Spark orders values of its type; None where that is not known."""
    text = literal.value
    if text is None:
        return None
    if literal.type in _INTEGERS:
        return int(text)
    if decimal_of(literal.type):
        return Decimal(text)
    if literal.type in ("float", "double"):
        number = float(text)
        return None if number != number else number
    if literal.type == "string":
        return text.encode("utf-8")
    if literal.type in ("date", "timestamp", "timestamp_ntz"):
        return text if _TEXT_DATE.fullmatch(text) else None
    return None


@dataclass(frozen=True)
class Range:
    """The values that an expression may have: those between two bounds, each with whether it is included, or some of a list.
    NULL is never among them."""

    lower: tuple[Any, bool] | None = None
    upper: tuple[Any, bool] | None = None
    members: frozenset[Any] | None = None
    excluded: frozenset[Any] = frozenset()

    def both(self, other: Range) -> Range:
        """The values in this range and in another one."""
        lower = max((b for b in (self.lower, other.lower) if b), key=lambda b: (b[0], not b[1]), default=None)
        upper = min((b for b in (self.upper, other.upper) if b), key=lambda b: (b[0], b[1]), default=None)
        lists = [m for m in (self.members, other.members) if m is not None]
        members = frozenset.intersection(*lists) if lists else None
        return Range(lower, upper, members, self.excluded | other.excluded)

    def has(self, value: Any) -> bool:
        above = self.lower is None or value > self.lower[0] or (value == self.lower[0] and self.lower[1])
        below = self.upper is None or value < self.upper[0] or (value == self.upper[0] and self.upper[1])
        return above and below and (self.members is None or value in self.members) and value not in self.excluded

    def within(self, other: Range) -> bool:
        """Whether all of its values are in another range."""
        if self.members is not None:
            return all(other.has(value) for value in self.members if self.has(value))
        if self.lower and self.upper and self.lower[0] == self.upper[0] and self.lower[1] and self.upper[1]:
            return other.has(self.lower[0])
        if other.members is not None:
            return False
        lower = other.lower is None or (
            self.lower is not None and (self.lower[0], not self.lower[1]) >= (other.lower[0], not other.lower[1])
        )
        upper = other.upper is None or (
            self.upper is not None and (self.upper[0], self.upper[1]) <= (other.upper[0], other.upper[1])
        )
        return lower and upper and all(not self.has(value) for value in other.excluded)


def read_range(conjunct: Expr) -> tuple[Expr, Range] | None:
    """A conjunct as a range of an expression; None if it is something else."""
    if not isinstance(conjunct, Apply):
        return None
    if conjunct.function == "Not" and isinstance(inner := conjunct.arguments[0], Apply) and inner.function == "EqualTo":
        subject, literal = _with_constant(inner.arguments)
        value = value_of(literal) if literal else None
        return (subject, Range(excluded=frozenset((value,)))) if value is not None else None
    if conjunct.function == "In":
        values = [value_of(m) if isinstance(m, Literal) else None for m in conjunct.arguments[1:]]
        types = {m.type for m in conjunct.arguments}
        if None in values or len(types) > 1:
            return None
        return conjunct.arguments[0], Range(members=frozenset(values))
    if conjunct.function not in _COMPARED:
        return None
    subject, literal = _with_constant(conjunct.arguments)
    value = value_of(literal) if literal else None
    if value is None or literal is None:
        return None
    mirrored = conjunct.arguments[0] is literal
    return subject, _bounds(conjunct.function, value, mirrored, literal.type in _INTEGERS)


def _with_constant(sides: tuple[Expr, ...]) -> tuple[Expr, Literal | None]:
    """An expression and the constant that it is compared with, if one side is a constant of its type."""
    left, right = sides
    if isinstance(left, Literal):
        left, right = right, left
    if isinstance(right, Literal) and not isinstance(left, Literal) and left.type == right.type:
        return left, right
    return left, None


def _bounds(function: str, value: Any, mirrored: bool, whole: bool) -> Range:
    """The range of `x < value`, or of `value < x` if it is mirrored. Bounds of whole numbers are included."""
    if function == "EqualTo":
        return Range((value, True), (value, True))
    included = function.endswith("OrEqual")
    is_lower = function.startswith("Greater") != mirrored
    if whole and not included:
        value, included = (value + 1 if is_lower else value - 1), True
    return Range(lower=(value, included)) if is_lower else Range(upper=(value, included))


class Known:
    """What follows from conjuncts. `not_null` are columns that hold no NULL in any row."""

    def __init__(self, conjuncts: Iterable[Expr], not_null: Collection[str] = ()) -> None:
        self.conjuncts = tuple(part for conjunct in conjuncts for part in conjuncts_of(conjunct))
        self.not_null = frozenset(not_null)
        self._parents: dict[str, str] = {}
        for conjunct in self.conjuncts:
            self._equate(conjunct)
        self._facts = {canonical(c, self.same) for c in self.conjuncts}
        self._ranges: dict[Expr, Range] = {}
        for conjunct in self._facts:
            if found := read_range(conjunct):
                subject, values = found
                self._ranges[subject] = self._ranges[subject].both(values) if subject in self._ranges else values

    def _equate(self, conjunct: Expr) -> None:
        if conjunct.sides is None or conjunct.null_safe:
            return
        left, right = conjunct.sides
        if left.column and right.column and left.type == right.type and is_exact(left.type):
            one, other = sorted((self.same(left.column), self.same(right.column)))
            if one != other:
                self._parents[other] = one

    def same(self, name: str) -> str:
        """The representative of the columns that equal a column."""
        while name in self._parents:
            name = self._parents[name]
        return name

    def form(self, expr: Expr) -> Expr:
        """The canonical form of an expression in rows for which the conjuncts hold."""
        return canonical(expr, self.same)

    @cached_property
    def valued(self) -> frozenset[str]:
        """The representatives of columns that are not NULL where the conjuncts hold."""
        found = {self.same(name) for name in self.not_null}
        for conjunct in self._facts:
            found |= rejects_null(conjunct)
        return frozenset(found)

    def implies(self, goal: Expr) -> bool:
        """Whether an expression is true wherever the conjuncts hold. False if that is not found out."""
        return all(self._implies(part) for part in conjuncts_of(self.form(goal)))

    def _implies(self, goal: Expr) -> bool:
        if is_true(goal) or goal in self._facts:
            return True
        if goal.sides is not None and goal.sides[0] == goal.sides[1]:
            return goal.null_safe or self._has_value(goal.sides[0])
        if isinstance(goal, Apply) and goal.function == "IsNotNull":
            return self._has_value(goal.arguments[0])
        if (wanted := read_range(goal)) and (known := self._ranges.get(wanted[0])) and known.within(wanted[1]):
            return True
        options = list(disjuncts_of(goal))
        if len(options) > 1 and any(self.implies(option) for option in options):
            return True
        return any(self._case_by_case(fact, goal) for fact in self._facts if len(list(disjuncts_of(fact))) > 1)

    def _case_by_case(self, disjunction: Expr, goal: Expr) -> bool:
        """Whether the goal follows from each part of a disjunction that is known."""
        others = [fact for fact in self._facts if fact is not disjunction and len(list(disjuncts_of(fact))) == 1]
        return all(Known([*others, case], self.not_null).implies(goal) for case in disjuncts_of(disjunction))

    def _has_value(self, expr: Expr) -> bool:
        """Whether an expression is not NULL: a strict function of columns that are not."""
        match expr:
            case Ref():
                return expr.name in self.valued
            case Literal():
                return expr.value is not None
            case Apply() if expr.function in ("Upper", "Lower", "Length") or (
                expr.function in ("Add", "Subtract", "Multiply", "Abs") and expr.type in _INTEGERS
            ):
                return all(map(self._has_value, expr.arguments))
        return expr in self._ranges


def rejects_null(conjunct: Expr) -> frozenset[str]:
    """The columns that are not NULL where a conjunct is true."""
    match conjunct:
        case Apply(function="IsNotNull"):
            return _strict_columns(conjunct.arguments[0])
        case Apply(function="In"):
            return _strict_columns(conjunct.arguments[0])
        case Apply(function="Not") if isinstance(conjunct.arguments[0], Apply):
            inner = conjunct.arguments[0]
            return _strict_columns(inner) if inner.function in STRICT or inner.function == "In" else frozenset()
        case Apply(function="And"):
            return frozenset().union(*map(rejects_null, conjunct.arguments))
        case Apply(function="Or"):
            return frozenset.intersection(*map(rejects_null, conjunct.arguments))
        case Apply() | Ref():
            return _strict_columns(conjunct)
    return frozenset()


def _strict_columns(expr: Expr) -> frozenset[str]:
    """The columns whose NULL makes an expression NULL."""
    match expr:
        case Ref():
            return frozenset((expr.name,))
        case Apply(function="In"):
            return _strict_columns(expr.arguments[0])
        case Apply() if expr.function in STRICT:
            return frozenset().union(*map(_strict_columns, expr.arguments))
    return frozenset()


def opposite(conjunct: Expr) -> Expr:
    """A test for the rows in which a conjunct is false or NULL."""
    return is_not_true(replace(conjunct, nullable=True) if isinstance(conjunct, Apply) else conjunct)
