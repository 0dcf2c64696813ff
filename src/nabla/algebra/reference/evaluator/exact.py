"""Which expressions plain Python computes exactly as Spark does, whatever the values are.

Whole numbers, decimals, dates, booleans and strings under comparison, logic and arithmetic: nothing that rounds in binary,
reads a locale, a time zone or a collation, or is written in a language of its own, such as patterns and formats.
"""

from __future__ import annotations

import re
from functools import lru_cache

from nabla.algebra.calls import Call
from nabla.algebra.expressions import Apply, Expr, Literal
from nabla.algebra.functions import COMPARISONS
from nabla.algebra.reference.evaluator.calls import compile_aggregate
from nabla.algebra.reference.evaluator.compiler import Scope, number_columns, slots_of
from nabla.algebra.reference.evaluator.terms import Layout, Slot, Term
from nabla.algebra.reference.evaluator.values import CannotEvaluate
from nabla.algebra.types import BIGINT, BOOLEAN, DATE, INT, INTEGRAL, STRING, VOID, SqlType

_TYPES = frozenset((*INTEGRAL, BOOLEAN, DATE, STRING, VOID))
_DDL = re.compile(r"(tinyint|smallint|int|bigint|boolean|date|string|decimal\(\d+,\s*\d+\))", re.IGNORECASE)

_FUNCTIONS = frozenset(
    (
        *COMPARISONS,
        *("And", "Or", "Not", "IsNull", "IsNotNull", "In", "CaseWhen", "Coalesce", "Greatest", "Least"),
        *("Add", "Subtract", "Multiply", "Divide", "Remainder", "UnaryMinus", "Cast", "TryCast"),
        *("Year", "Month", "DateAdd", "DateSub", "DateAddYMInterval", "Substring", "Like"),
    )
)
_AGGREGATES = frozenset(("sum", "count", "min", "max"))


def exact_type(ddl: str) -> bool:
    """Whether values of a type are equal and ordered in Python as they are in Spark."""
    return _DDL.fullmatch(ddl) is not None


def is_exact(expr: Expr, layout: Layout) -> bool:
    """Whether an expression is one of these, over columns of these types, or a stack of some."""
    shape, names = number_columns(expr)
    try:
        return _checked(shape, slots_of(expr, names, layout))
    except CannotEvaluate:
        return False


def is_exact_aggregate(call: Call, layout: Layout) -> bool:
    """The same for a call of an aggregate function."""
    if call.function not in _AGGREGATES or call.distinct or call.filter is not None:
        return False
    try:
        compile_aggregate(call, layout)
    except CannotEvaluate:
        return False
    return all(is_exact(argument, layout) for argument in call.arguments)


@lru_cache(maxsize=1 << 12)
def _checked(shape: Expr, slots: tuple[Slot, ...]) -> bool:
    stacked = isinstance(shape, Apply) and shape.function == "Stack"
    _Checked(slots).all(shape.parts if stacked else (shape,))
    return True


def _is_exact_type(kind: SqlType) -> bool:
    return kind in _TYPES or kind.kind == "decimal"


class _Checked(Scope):
    """Builds an expression if every part of it has one of the exact types, and casts lose and read nothing."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        super().__init__(slots)
        self.types: dict[Expr, SqlType] = {}

    def __call__(self, e: Expr) -> Term:
        if isinstance(e, Apply) and not (e.function in _FUNCTIONS and _is_plain(e)):
            raise CannotEvaluate(f"{e} may be computed in another way")
        term = super().__call__(e)
        if not _is_exact_type(term.type):
            raise CannotEvaluate(f"{term.type} in {e}")
        self.types[e] = term.type
        if isinstance(e, Apply):
            self._check(e, term.type)
        return term

    def _check(self, e: Apply, kind: SqlType) -> None:
        if e.function == "Remainder" and kind not in INTEGRAL:
            raise CannotEvaluate(f"{e} is a remainder of decimals")
        if e.function in (*COMPARISONS, "In", "Greatest", "Least") and not self._alike(e):
            raise CannotEvaluate(f"{e} compares text with something else")
        if e.function in ("Cast", "TryCast") and not _is_plain_cast(e.arguments[0], self.types[e.arguments[0]], kind):
            raise CannotEvaluate(f"{e} depends on how a value is written")

    def _alike(self, e: Apply) -> bool:
        """Whether no text has to be read as something else to compare values."""
        kinds = {self.types[argument] for argument in e.arguments} - {VOID}
        return STRING not in kinds or len(kinds) == 1


def _is_plain(e: Apply) -> bool:
    """Whether no argument is written in a language of its own, or means something else where it is not positive."""
    others = e.arguments[1:]
    match e.function:
        case "Like":
            pattern, *escape = others
            return isinstance(pattern, Literal) and "\\" not in (pattern.value or "") and not escape
        case "Substring":
            return all(isinstance(n, Literal) and int(n.value or 0) > 0 for n in others)
    return True


def _is_plain_cast(operand: Expr, source: SqlType, target: SqlType) -> bool:
    if source in (target, VOID):
        return True
    if source == STRING:
        return isinstance(operand, Literal) and (target == DATE or target.kind == "decimal")
    whole = source in INTEGRAL or source.kind == "decimal"
    return whole and (target.kind == "decimal" or (source in INTEGRAL and target in (INT, BIGINT)))
