"""Spark SQL text compiled to closures over rows.

Columns are taken out of the text before it is parsed (`a#7` + 1 becomes `0` + 1), so that expressions that differ only
in the names of their columns are parsed once: parsing costs a hundred times more than evaluating.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from nabla.algebra.reference.evaluator.arithmetic import in_range, negative, operation
from nabla.algebra.reference.evaluator.casts import cast_to
from nabla.algebra.reference.evaluator.dates import MOVES
from nabla.algebra.reference.evaluator.functions import CLASSES, EXTRACTED, NAMES, Function
from nabla.algebra.reference.evaluator.terms import Layout, Slot, Term, constant, strict
from nabla.algebra.reference.evaluator.values import COMPARISONS, CannotEvaluate, SparkWouldFail, Struct, Value
from nabla.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTEGRAL,
    PLAIN,
    STRING,
    STRUCT,
    UNKNOWN,
    VOID,
    decimal_literal,
    parse_type,
)

# Literals are matched so that a backtick inside them is not taken for a column. A name after a dot is a field of a st
_TOKEN = re.compile(r"""(r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*")|(?<!\.)`((?:[^`]|``)+)`""", re.IGNORECASE)
_SPARK = Dialect.get_or_raise("spark")

# Flags of sqlglot's nodes that say what Spark does anyway, or that a builder reads. Others may change the meaning.
_UNDERSTOOD = frozenset(("safe", "typed", "ignore_nulls", "quoted", "is_string", "this", "big_int"))

# Spark prints BETWEEN as a function, which sqlglot does not know.
BETWEEN = "is_between"
_BETWEEN = re.compile(r"""(r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*")|\bbetween\(""", re.IGNORECASE)

Builder: TypeAlias = Callable[[Any, "Scope"], Term]
_BUILDERS: dict[type[exp.Expr], Builder] = {}
_AnyBuilder = TypeVar("_AnyBuilder", bound=Builder)


class Scope:
    """Builds the terms of one expression; knows where its columns are, and the cells of its lambdas' variables."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self.slots = slots
        self.variables: dict[str, list[Value]] = {}

    def __call__(self, node: exp.Expr) -> Term:
        builder = _BUILDERS.get(type(node))
        if builder is None:
            raise CannotEvaluate(f"{type(node).__name__} in {node.sql('spark')}")
        term = builder(node, self)
        flags = {name for name, value in node.args.items() if value is True} - _UNDERSTOOD
        if flags == {"negate"}:  # x NOT LIKE y, which is not always a Not(Like)
            return strict(operator.not_, [term], BOOLEAN)
        if flags:
            raise CannotEvaluate(f"{', '.join(sorted(flags))} in {node.sql('spark')}")
        return term

    def all(self, nodes: list[exp.Expr]) -> list[Term]:
        return [self(node) for node in nodes]


def builds(*kinds: type[exp.Expr]) -> Callable[[_AnyBuilder], _AnyBuilder]:
    def register(builder: _AnyBuilder) -> _AnyBuilder:
        _BUILDERS.update(dict.fromkeys(kinds, builder))
        return builder

    return register


def compile_expression(text: str, layout: Layout) -> Term:
    """`layout` says where in a row each column is; columns that the text does not read may be missing."""
    shape, names = shape_of(text)
    return _compiled(shape, slots_of(text, names, layout))


def slots_of(text: str, names: tuple[str, ...], layout: Layout) -> tuple[Slot, ...]:
    try:
        return tuple([layout[name] for name in names])
    except KeyError as missing:
        raise CannotEvaluate(f"{text} reads {missing}, which the row lacks: {sorted(layout)}") from None


@lru_cache(maxsize=1 << 16)
def shape_of(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with its columns numbered, and their names."""
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        if match[2] is None:
            return match[0]
        return f"`{names.setdefault(match[2].replace('``', '`'), len(names))}`"

    return _TOKEN.sub(number, text), tuple(names)


@lru_cache(maxsize=1 << 14)
def parse(shape: str) -> exp.Expr:
    try:
        trees = _SPARK.parse(_BETWEEN.sub(lambda m: m[1] or BETWEEN + "(", shape))
    except (SqlglotError, TypeError, ValueError) as error:
        raise CannotEvaluate(f"{shape} cannot be parsed: {error}") from error
    if len(trees) != 1 or trees[0] is None:
        raise CannotEvaluate(f"{shape} is not one expression")
    return trees[0]


@lru_cache(maxsize=1 << 16)
def _compiled(shape: str, slots: tuple[Slot, ...]) -> Term:
    return Scope(slots)(parse(shape))


def children(node: exp.Expr) -> Iterator[exp.Expr]:
    """The arguments of a function in the order in which they are written."""
    for name in node.arg_types:
        value = node.args.get(name)
        yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr))


# Leaves


@builds(exp.Column)
def _column(node: exp.Column, scope: Scope) -> Term:
    head, *fields = [part.name for part in node.parts]
    if not head.isdecimal():
        raise CannotEvaluate(f"{node.sql('spark')} is not a quoted column")
    key, kind = scope.slots[int(head)]
    term = Term(lambda row: row[key], kind)
    for field in fields:
        term = field_of(term, field)
    return term


@builds(exp.Dot)
def _dot(node: exp.Dot, scope: Scope) -> Term:
    return field_of(scope(node.this), node.expression.name)


def field_of(struct: Term, name: str) -> Term:
    """A field of a struct, or of every struct of an array."""

    def field(value: Value) -> Value:
        if isinstance(value, Struct):
            return value.field(name)
        return tuple([None if one is None else one.field(name) for one in value])

    return strict(field, [struct], UNKNOWN)


@builds(exp.Literal)
def _literal(node: exp.Literal, scope: Scope) -> Term:
    text: str = node.this
    if node.is_string:
        return constant(text, STRING)
    if text.isdecimal():
        return constant(int(text), INT if int(text) < 1 << 31 else BIGINT, len(text.lstrip("0")) or 1)
    if "e" in text.lower():
        return constant(float(text), DOUBLE)
    return constant(Decimal(text), decimal_literal(Decimal(text)))


@builds(exp.RawString)
def _raw_string(node: exp.RawString, scope: Scope) -> Term:
    return constant(node.this, STRING)


@builds(exp.Null)
def _null(node: exp.Null, scope: Scope) -> Term:
    return constant(None, VOID)


@builds(exp.Boolean)
def _boolean(node: exp.Boolean, scope: Scope) -> Term:
    return constant(bool(node.this), BOOLEAN)


@builds(exp.Paren)
def _paren(node: exp.Paren, scope: Scope) -> Term:
    return scope(node.this)


# Arithmetic, comparison, casts

_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
_COMPARING: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@builds(*_ARITHMETIC)
def _arithmetic(node: exp.Binary, scope: Scope) -> Term:
    if isinstance(node.right, exp.Interval):
        return _moved_date(node, scope)
    left, right = scope(node.left), scope(node.right)
    apply, kind = operation(_ARITHMETIC[type(node)], left.type, right.type, (left.digits, right.digits))
    return strict(apply, (left, right), kind)


def _moved_date(node: exp.Binary, scope: Scope) -> Term:
    """A date plus or minus an interval of whole years, months or days."""
    day, interval = scope(node.left), node.right
    unit, count = str(interval.args.get("unit")).upper(), interval.this
    whole = isinstance(count, exp.Literal) and count.this.isdecimal()
    if not isinstance(node, exp.Add | exp.Sub) or day.type != DATE or unit not in MOVES or not whole:
        raise CannotEvaluate(node.sql("spark"))
    n = int(count.this) * (1 if isinstance(node, exp.Add) else -1)
    return strict(lambda value: MOVES[unit](value, n), [day], DATE)


@builds(exp.Neg)
def _negative(node: exp.Neg, scope: Scope) -> Term:
    operand = scope(node.this)
    kind = operand.type
    apply = (lambda value: in_range(-value, kind)) if kind in INTEGRAL else negative
    return strict(apply, [operand], kind)._replace(digits=operand.digits)


@builds(*_COMPARING)
def _comparison(node: exp.Binary, scope: Scope) -> Term:
    return compared(_COMPARING[type(node)], scope(node.left), scope(node.right))


def compared(symbol: str, left: Term, right: Term) -> Term:
    full, plain = COMPARISONS[symbol]
    same = left.type in PLAIN and right.type in PLAIN
    alike = left.type == right.type or (left.type in INTEGRAL and right.type in INTEGRAL)
    return strict(plain if same and alike else full, (left, right), BOOLEAN)


@lru_cache(maxsize=1 << 10)
def _type_text(type_: exp.DataType) -> str:
    return type_.sql("spark")


@builds(exp.Cast)
def _cast(node: exp.Cast, scope: Scope) -> Term:
    target = parse_type(_type_text(node.to))
    return strict(cast_to(target), [scope(node.this)], target)


@builds(exp.TryCast)
def _hive_cast(node: exp.TryCast, scope: Scope) -> Term:
    """sqlglot reads Spark's CAST as TryCast too, and marks the real one as safe."""
    term = _cast(node, scope)
    return _guarded(term) if node.args.get("safe") else term


def _guarded(term: Term) -> Term:
    def get(row: Any) -> Value:
        try:
            return term.get(row)
        except SparkWouldFail:
            return None

    return Term(get, term.type)


# Functions


def _apply(function: Function, arguments: list[Term]) -> Term:
    return strict(function.apply, arguments, function.type(*(term.type for term in arguments)))


def _function(node: exp.Expr, scope: Scope) -> Term:
    # A unit (DAY) is a variable that the class of the function already implies.
    arguments = [child for child in children(node) if not isinstance(child, exp.Var)]
    return _apply(CLASSES[type(node)], scope.all(arguments))


builds(*CLASSES)(_function)


@builds(exp.Anonymous)
def _named_function(node: exp.Anonymous, scope: Scope) -> Term:
    name = str(node.this).lower()
    if name in _NAMED_BUILDERS:
        return _NAMED_BUILDERS[name](node.expressions, scope)
    if name not in NAMES:
        raise CannotEvaluate(f"the function {name}")
    return _apply(NAMES[name], scope.all(node.expressions))


_NAMED_BUILDERS: dict[str, Callable[[list[exp.Expr], Scope], Term]] = {}
DATE_PART = "date_part"


def builds_named(name: str) -> Callable[[Callable[[list[exp.Expr], Scope], Term]], None]:
    def register(builder: Callable[[list[exp.Expr], Scope], Term]) -> None:
        _NAMED_BUILDERS[name] = builder

    return register


@builds_named(DATE_PART)
def _days_of_interval(arguments: list[exp.Expr], scope: Scope) -> Term:
    """date_part('DAY', INTERVAL '90' DAY), as which Spark writes the days of an interval that is added to a date."""
    part, interval = arguments
    if isinstance(part, exp.Literal) and part.this.upper() == "DAY" and isinstance(interval, exp.Interval):
        days = interval.this
        if str(interval.args.get("unit")).upper() == "DAY" and isinstance(days, exp.Literal) and days.this.isdecimal():
            return constant(int(days.this), INT)
    raise CannotEvaluate(f"{DATE_PART}({', '.join(a.sql('spark') for a in arguments)})")


@builds(exp.Extract)
def _extract(node: exp.Extract, scope: Scope) -> Term:
    part = node.this.name.upper()
    if part not in EXTRACTED:
        raise CannotEvaluate(f"EXTRACT({part})")
    return strict(EXTRACTED[part], [scope(node.expression)], INT)


@builds(exp.Struct)
def _struct(node: exp.Struct, scope: Scope) -> Term:
    names = [field.this.name for field in node.expressions]
    gets = [scope(field.expression).get for field in node.expressions]
    return Term(lambda row: Struct.of(names, [get(row) for get in gets]), STRUCT)
