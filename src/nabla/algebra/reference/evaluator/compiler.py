"""Expressions compiled to closures over rows.

Columns are numbered before an expression is compiled (a#7 + 1 becomes 0 + 1), so that expressions that differ only in the
names of their columns are compiled once: compiling costs a hundred times more than evaluating.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

from nabla.algebra.expressions import Apply, Expr, Literal, Ref, Variable
from nabla.algebra.normalize import interval_part
from nabla.algebra.reference.evaluator.arithmetic import in_range, negative, operation
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.dates import MOVES
from nabla.algebra.reference.evaluator.functions import FUNCTIONS, PARTS_OF_DATES, to_date
from nabla.algebra.reference.evaluator.terms import Layout, Slot, Term, constant, strict
from nabla.algebra.reference.evaluator.values import COMPARISONS, CannotEvaluate, SparkWouldFail, Struct, Value
from nabla.algebra.types import (
    BOOLEAN,
    DATE,
    INT,
    INTEGRAL,
    PLAIN,
    STRING,
    STRUCT,
    UNKNOWN,
    VOID,
    SqlType,
    literal_digits,
    parse_type,
)

Builder: TypeAlias = Callable[[Apply, "Scope"], Term]
_BUILDERS: dict[str, Builder] = {}


class Scope:
    """Builds the terms of one expression; knows where its columns are, and the cells of its lambdas' variables."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self.slots = slots
        self.variables: dict[str, list[Value]] = {}

    def __call__(self, e: Expr) -> Term:
        match e:
            case Apply():
                term = self._apply(e)
            case Ref():
                key, kind = self.slots[int(e.name)]
                term = Term(lambda row: row[key], kind)
            case Literal():
                return _literal(e)
            case Variable():
                term = self._variable(e)
            case _:
                raise CannotEvaluate(f"{type(e).__name__} {e}")
        # The type follows from the operands; where they do not tell it, the tree may.
        return term._replace(type=known_type(e)) if term.type == UNKNOWN and e.type else term

    def all(self, expressions: Iterable[Expr]) -> list[Term]:
        return [self(e) for e in expressions]

    def _apply(self, e: Apply) -> Term:
        builder = _BUILDERS.get(e.function)
        if builder is None:
            raise CannotEvaluate(f"{e.function} in {e}")
        return builder(e, self)

    def _variable(self, e: Variable) -> Term:
        if e.name not in self.variables:
            raise CannotEvaluate(f"{e.name} is not a variable of a lambda around it")
        cell = self.variables[e.name]
        return Term(lambda row: cell[0], UNKNOWN)


def builds(*functions: str) -> Callable[[Builder], Builder]:
    """Registers how functions, by their classes in Catalyst, become terms."""

    def register(builder: Builder) -> Builder:
        _BUILDERS.update(dict.fromkeys(functions, builder))
        return builder

    return register


def known_type(e: Expr) -> SqlType:
    return parse_type(e.type) if e.type else UNKNOWN


def compile_expression(expr: Expr, layout: Layout) -> Term:
    """`layout` says where in a row each column is; columns that the expression does not read may be missing."""
    shape, names = number_columns(expr)
    return _compiled(shape, slots_of(expr, names, layout))


def slots_of(expr: Expr, names: tuple[str, ...], layout: Layout) -> tuple[Slot, ...]:
    try:
        return tuple([layout[name] for name in names])
    except KeyError as missing:
        raise CannotEvaluate(f"{expr} reads {missing}, which the row lacks: {sorted(layout)}") from None


@lru_cache(maxsize=1 << 16)
def number_columns(expr: Expr) -> tuple[Expr, tuple[str, ...]]:
    """The expression with its columns numbered, and their names."""
    columns = {e.name: e for e in expr.walk() if isinstance(e, Ref)}
    numbered = {name: Ref(str(place), e.type) for place, (name, e) in enumerate(columns.items())}
    return _one_of_all(expr.substitute(numbered)), tuple(columns)


@lru_cache(maxsize=1 << 16)
def _one_of_all(shape: Expr) -> Expr:
    """The first of all equal shapes: looking up the same object in a cache compares no trees."""
    return shape


@lru_cache(maxsize=1 << 16)
def _compiled(shape: Expr, slots: tuple[Slot, ...]) -> Term:
    return Scope(slots)(shape)


def _literal(e: Literal) -> Term:
    kind = known_type(e)
    if e.value is None:
        return constant(None, VOID if kind == UNKNOWN else kind)
    if kind == STRING:
        return constant(e.value, STRING)
    return constant(cast_to(kind)(e.value), kind, literal_digits(e.value, kind))


# Arithmetic, comparison, casts

_ARITHMETIC = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "IntegralDivide": "div",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
}
_COMPARING = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}


@builds(*_ARITHMETIC)
def _arithmetic(e: Apply, scope: Scope) -> Term:
    left, right = scope.all(e.arguments)
    apply, kind = operation(_ARITHMETIC[e.function], left.type, right.type, (left.digits, right.digits))
    return strict(apply, (left, right), kind)


@builds("DateAddYMInterval")
def _moved_date(e: Apply, scope: Scope) -> Term:
    """A date plus an interval of whole years or months."""
    day, interval = scope(e.arguments[0]), e.arguments[1]
    found = ((unit, count.value) for unit in ("YEAR", "MONTH") if (count := interval_part(interval, unit)))
    unit, n = next(found, ("", None))
    if n is None:
        raise CannotEvaluate(f"a date moved by {interval}")
    move, by = MOVES[unit], int(n)
    return strict(lambda value: move(to_date(value), by), [day], DATE)


@builds("UnaryMinus")
def _negative(e: Apply, scope: Scope) -> Term:
    operand = scope(e.arguments[0])
    kind = operand.type
    apply = (lambda value: in_range(-value, kind)) if kind in INTEGRAL else negative
    return strict(apply, [operand], kind)._replace(digits=operand.digits)


@builds(*_COMPARING)
def _comparison(e: Apply, scope: Scope) -> Term:
    left, right = scope.all(e.arguments)
    full, plain = COMPARISONS[_COMPARING[e.function]]
    same = left.type in PLAIN and right.type in PLAIN
    alike = left.type == right.type or (left.type in INTEGRAL and right.type in INTEGRAL)
    return strict(plain if same and alike else full, (left, right), BOOLEAN)


@builds("Cast")
def _cast(e: Apply, scope: Scope) -> Term:
    target = parse_type(e.type)
    return strict(cast_to(target), scope.all(e.arguments), target)


@builds("TryCast")
def _try_cast(e: Apply, scope: Scope) -> Term:
    term = _cast(e, scope)

    def get(row: Any) -> Value:
        try:
            return term.get(row)
        except SparkWouldFail:
            return None

    return Term(get, term.type)


# Functions


@builds(*FUNCTIONS)
def _function(e: Apply, scope: Scope) -> Term:
    function, arguments = FUNCTIONS[e.function], scope.all(e.arguments)
    return strict(function.apply, arguments, function.type(*(term.type for term in arguments)))


@builds(*PARTS_OF_DATES)
def _part_of_date(e: Apply, scope: Scope) -> Term:
    day = scope(e.arguments[0])
    return strict(PARTS_OF_DATES[e.function], [day if day.type == DATE else strict(to_date, [day], DATE)], INT)


@builds("GetStructField", "GetArrayStructFields")
def _field(e: Apply, scope: Scope) -> Term:
    """A field of a struct, or of every struct of an array."""
    name = field_name(e)

    def field(value: Value) -> Value:
        if isinstance(value, Struct):
            return value.field(name)
        return tuple([None if one is None else one.field(name) for one in value])

    return strict(field, [scope(e.arguments[0])], UNKNOWN)


def field_name(e: Expr) -> str:
    """The name of the field that an expression reads, if it is one that reads a field."""
    if not isinstance(e, Apply) or e.function not in ("GetStructField", "GetArrayStructFields"):
        return ""
    name = e.arguments[1]
    assert isinstance(name, Literal)
    return name.value or ""


@builds("CreateNamedStruct")
def _struct(e: Apply, scope: Scope) -> Term:
    names = [name.get(()) for name in scope.all(e.arguments[::2])]
    gets = [term.get for term in scope.all(e.arguments[1::2])]
    return Term(lambda row: Struct.of(names, [get(row) for get in gets]), STRUCT)
