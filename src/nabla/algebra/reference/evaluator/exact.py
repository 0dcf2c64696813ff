"""Which expressions plain Python computes exactly as Spark does, whatever the values are.

Whole numbers, decimals, dates, booleans and strings under comparison, logic and arithmetic: nothing that rounds in binary,
reads a locale, a time zone or a collation, or is written in a language of its own, such as patterns and formats.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import exp

from nabla.algebra.calls import Call
from nabla.algebra.reference.evaluator.calls import compile_aggregate
from nabla.algebra.reference.evaluator.compiler import BETWEEN, DATE_PART, Scope, children, parse, shape_of, slots_of
from nabla.algebra.reference.evaluator.terms import Layout, Slot, Term
from nabla.algebra.reference.evaluator.values import CannotEvaluate
from nabla.algebra.types import BIGINT, BOOLEAN, DATE, INT, INTEGRAL, STRING, VOID, SqlType

_TYPES = frozenset((*INTEGRAL, BOOLEAN, DATE, STRING, VOID))
_DDL = re.compile(r"(tinyint|smallint|int|bigint|boolean|date|string|decimal\(\d+,\s*\d+\))", re.IGNORECASE)

_FORMS = frozenset(
    (
        *(exp.Column, exp.Identifier, exp.Literal, exp.RawString, exp.Null, exp.Boolean, exp.Paren, exp.DataType),
        *(exp.DataTypeParam, exp.Tuple, exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.TryCast, exp.Alias),
        *(exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between),
        *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ),
        *(exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Div, exp.Interval, exp.Var),
        *(exp.Year, exp.Month, exp.TsOrDsToDate, exp.Substring, exp.Like, exp.Anonymous, exp.Greatest, exp.Least),
        *(exp.Stack, exp.TsOrDsAdd),
    )
)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_AGGREGATES = frozenset((exp.Sum, exp.Count, exp.Min, exp.Max, exp.Star))


def exact_type(ddl: str) -> bool:
    """Whether values of a type are equal and ordered in Python as they are in Spark."""
    return _DDL.fullmatch(ddl) is not None


def is_exact(text: str, layout: Layout) -> bool:
    """Whether an expression is one of these, over columns of these types, or a stack of some."""
    shape, names = shape_of(text)
    try:
        return _checked(shape, slots_of(text, names, layout))
    except CannotEvaluate:
        return False


def is_exact_aggregate(call: Call, layout: Layout) -> bool:
    """The same for an aggregate function, or an expression around some."""
    if call.distinct or call.filter is not None:
        return False
    shape, names = shape_of(call.sql)
    try:
        slots = slots_of(call.sql, names, layout)
        compile_aggregate(call, layout)
    except CannotEvaluate:
        return False
    return all(_is_exact_type(slot.type) for slot in slots) and _has_known_forms(shape, _FORMS | _AGGREGATES)


@lru_cache(maxsize=1 << 12)
def _checked(shape: str, slots: tuple[Slot, ...]) -> bool:
    if not _has_known_forms(shape, _FORMS):
        return False
    whole = parse(shape)
    _Checked(slots).all(list(children(whole)) if isinstance(whole, exp.Stack) else [whole])
    return True


@lru_cache(maxsize=1 << 12)
def _has_known_forms(shape: str, forms: frozenset[type[exp.Expr]]) -> bool:
    return all(type(node) in forms for node in parse(shape).walk())


def _is_exact_type(kind: SqlType) -> bool:
    return kind in _TYPES or kind.kind == "decimal"


class _Checked(Scope):
    """Builds an expression if every part of it has one of the exact types, and casts lose and read nothing."""

    def __call__(self, node: exp.Expr) -> Term:
        if not _is_plain(node):
            raise CannotEvaluate(f"{node.sql('spark')} is a language of its own")
        term = super().__call__(node)
        if not _is_exact_type(term.type):
            raise CannotEvaluate(f"{term.type} in {node.sql('spark')}")
        if isinstance(node, exp.Mod) and term.type not in INTEGRAL:
            raise CannotEvaluate(f"{node.sql('spark')} is a remainder of decimals")
        if isinstance(node, _COMPARISONS) and not _alike(self.all([node.left, node.right])):
            raise CannotEvaluate(f"{node.sql('spark')} compares text with something else")
        if isinstance(node, exp.Greatest | exp.Least) and not _alike(self.all([node.this, *node.expressions])):
            raise CannotEvaluate(f"{node.sql('spark')} compares text with something else")
        if isinstance(node, exp.Cast | exp.TryCast) and not _plain_cast(node.this, super().__call__(node.this), term):
            raise CannotEvaluate(f"{node.sql('spark')} depends on how a value is written")
        return term


def _alike(terms: list[Term]) -> bool:
    """Whether no text has to be read as something else to compare values."""
    kinds = {term.type for term in terms} - {VOID}
    return STRING not in kinds or len(kinds) == 1


def _is_plain(node: exp.Expr) -> bool:
    match node:
        case exp.Anonymous():
            return str(node.this) in (BETWEEN, DATE_PART)
        case exp.Like():
            pattern = node.expression
            return isinstance(pattern, exp.Literal) and "\\" not in pattern.this
        case exp.Substring():
            numbers = (node.args.get("start"), node.args.get("length"))
            return all(isinstance(n, exp.Literal) and n.this.isdecimal() and int(n.this) > 0 for n in numbers)
    return True


def _plain_cast(operand: exp.Expr, source: Term, target: Term) -> bool:
    if source.type in (target.type, VOID):
        return True
    if source.type == STRING:
        return isinstance(operand, exp.Literal) and (target.type == DATE or target.type.kind == "decimal")
    whole = source.type in INTEGRAL or source.type.kind == "decimal"
    return whole and (target.type.kind == "decimal" or (source.type in INTEGRAL and target.type in (INT, BIGINT)))
