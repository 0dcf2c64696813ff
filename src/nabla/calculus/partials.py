"""Aggregate functions as partial results that a change can be added to.

A function that can *combine* two partial results and *cancel* a row (sum, count, avg) is kept as hidden columns, each a
sum over weighted rows: the change table of the thesis. min and max combine but cannot cancel: deleting the extreme
recomputes its group. Every other function, and sums of floating point numbers, whose running result would drift from a
fresh one, recompute their affected groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal as OneOf

from nabla._cached import cached_property
from nabla.algebra import types
from nabla.algebra.build import TRUE, all_of, arithmetic, coalesce, compare, is_not_null, null, number, when
from nabla.algebra.calls import Call
from nabla.algebra.expressions import Apply, Column, Expr, Literal
from nabla.algebra.names import part_name
from nabla.algebra.normalize import cast
from nabla.algebra.types import decimal_of

INTEGERS = ("tinyint", "smallint", "int", "bigint")
ORDERED = (*INTEGERS, "float", "double", "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary")

FORM = 2
"""The form in which the partial results of new views are stored."""

Extreme = OneOf["min", "max"]
_CHOICES: dict[Extreme, tuple[str, str]] = {"min": ("Least", "<="), "max": ("Greatest", ">=")}
"""The function that merges two partial results of min or of max, and how an extreme compares with others."""


@dataclass(frozen=True)
class Partial:
    """A hidden column of a change table.

    `change` is its aggregate over the weighed change, `whole` the same over plain rows. `extreme` marks a partial result of
    min or max; `deleted` is then the extreme of the rows that the change deletes.
    """

    column: Column
    change: Call
    whole: Call
    extreme: Extreme | None = None
    deleted: Call | None = None

    @cached_property
    def cancels(self) -> bool:
        """Whether deleted rows can be taken away from it again."""
        return self.extreme is None

    @property
    def initial(self) -> Expr:
        """The partial result of no rows."""
        return Literal("0", self.column.type) if self.cancels else null(self.column.type)

    def merge(self, old: Expr, change: Expr) -> Expr:
        """The new partial result from the old one and the change; of a sum, either may be missing."""
        if self.extreme is not None:
            return Apply(_CHOICES[self.extreme][0], (old, change), self.column.type)
        known = coalesce(old, self.initial), coalesce(change, self.initial)
        return cast(arithmetic(known[0], "+", known[1], self._sum_type), self.column.type)

    @property
    def _sum_type(self) -> str:
        decimal = types.parse_type(self.column.type)
        return str(types.decimal_result("+", decimal, decimal)) if decimal.kind == "decimal" else self.column.type

    def is_broken(self, old: Expr, change: Expr, deleted: Expr) -> Expr:
        """Whether the merged extreme may be wrong, because a value at least as extreme was deleted."""
        assert self.extreme is not None
        beyond = compare(deleted, _CHOICES[self.extreme][1], self.merge(old, change))
        return all_of((is_not_null(deleted), coalesce(beyond, TRUE)))


@dataclass(frozen=True)
class Maintained:
    """A call of an aggregate that is maintained by partial results, with its value as an expression over these."""

    call: Call
    partials: tuple[Partial, ...]
    value: Expr


def maintain(call: Call, weight: Column, form: int = FORM, ansi: bool = True) -> Maintained | None:
    """The partial results of a call; None if the function cannot be maintained from the change alone. `form` is that of the
    stored partial results. With `ansi`, Spark raises an error where a decimal overflows; else it gives NULL."""
    make = (FUNCTIONS if form == FORM else {**FUNCTIONS, **_FIRST_FORM}).get(call.function)
    if make is None or call.distinct or call.template or (not ansi and _may_overflow_to_null(call)):
        return None
    return make(call, weight)


def _may_overflow_to_null(call: Call) -> bool:
    """Whether some rows may have a sum that is NULL because it overflows: nothing could be taken away from it again, and no
    change added. Below this many digits Spark gives a sum ten more than its rows have."""
    decimal = decimal_of(call.arguments[0].type) if call.function in ("sum", "avg", "mean") else None
    return decimal is not None and decimal[0] > types.MAX_PRECISION - 10


def _hidden_column(call: Call, suffix: str, type_: str) -> Column:
    return Column(part_name(call.column.name, suffix), type_)


def _count_partial(call: Call, weight: Column) -> Partial:
    """The number of rows that the call sees: those that pass its filter and whose arguments are not NULL."""
    column = _hidden_column(call, "count", "bigint")
    tests = [call.filter] if call.filter else []
    tests += [is_not_null(a) for a in call.arguments if a.nullable]
    if not tests:
        return Partial(column, Call(column, "sum", (weight.ref,)), Call(column, "count"))
    seen = all_of(tests)
    change = Call(column, "sum", (when(seen, weight.ref, number(0)),))
    return Partial(column, change, Call(column, "count", (when(seen, number(1, "int")),)))


def _argument(call: Call) -> Expr:
    """The argument where the call sees the row, NULL elsewhere."""
    (argument,) = call.arguments
    return when(call.filter, argument) if call.filter else argument


def _sum_partial(call: Call, weight: Column, widen: bool = False) -> Partial | None:
    """The exact sum, or None where a running sum would not be exact. With `widen`, no number of BIGINTs overflows it."""
    argument = _argument(call)
    if widen and argument.type == "bigint":
        argument = cast(argument, str(types.as_decimal(types.BIGINT)))
    if argument.type in INTEGERS:
        column = _hidden_column(call, "sum", "bigint")
        wide = cast(argument, "bigint")
        change = Call(column, "sum", (arithmetic(wide, "*", weight.ref, "bigint"),))
        return Partial(column, change, Call(column, "sum", (wide,)))
    decimal = decimal_of(argument.type)
    if decimal and (decimal[1] <= 6 or decimal[0] + 21 <= 38):
        # A product of decimal(p,s) and a weight has p + 21 digits; beyond 38 Spark would cut the scale down to 6.
        column = _hidden_column(call, "sum", f"decimal(38,{decimal[1]})")
        product = types.decimal_result("*", types.decimal(*decimal), types.as_decimal(types.BIGINT))
        weighed = arithmetic(argument, "*", weight.ref, str(product))
        return Partial(column, Call(column, "sum", (weighed,), cast=True), Call(column, "sum", (argument,), cast=True))
    return None


def _count(call: Call, weight: Column) -> Maintained:
    count = _count_partial(call, weight)
    return Maintained(call, (count,), count.column.ref)


def _sum(call: Call, weight: Column) -> Maintained | None:
    count, total = _count_partial(call, weight), _sum_partial(call, weight)
    if total is None:
        return None
    some = compare(count.column.ref, ">", number(0))
    return Maintained(call, (count, total), when(some, cast(total.column.ref, call.column.type)))


def _avg(call: Call, weight: Column, widen: bool = True) -> Maintained | None:
    """The average, rounded once from the exact sum. Spark adds whole numbers as doubles, which have 53 bits: beyond that its
    own result depends on the order of the rows, and this one does not."""
    count, total = _count_partial(call, weight), _sum_partial(call, weight, widen)
    if total is None:
        return None
    n: Expr = count.column.ref
    some = compare(n, ">", number(0))
    if decimal := decimal_of(call.arguments[0].type):
        precision, scale = min(38, decimal[0] + 10), decimal[1]
        if 38 - (precision - scale) < scale + 6:
            return None  # Spark would divide with fewer digits than avg itself has
        kinds = types.decimal(precision, scale), types.as_decimal(types.BIGINT)
        quotient_type = str(types.decimal_result("/", *kinds))
        quotient = arithmetic(cast(total.column.ref, str(kinds[0])), "/", cast(n, str(kinds[1])), quotient_type)
    else:
        quotient = arithmetic(cast(total.column.ref, "double"), "/", n, "double")
    return Maintained(call, (count, total), when(some, cast(quotient, call.column.type)))


def _extreme(function: Extreme) -> Callable[[Call, Column], Maintained | None]:
    def make(call: Call, weight: Column) -> Maintained | None:
        argument = _argument(call)
        if argument.type not in ORDERED and not decimal_of(argument.type):
            return None
        column = _hidden_column(call, function, argument.type)
        inserted, deleted = (
            Call(column, function, (when(compare(weight.ref, sign, number(0)), argument),)) for sign in (">", "<")
        )
        kept = Partial(column, inserted, Call(column, function, (argument,)), function, deleted)
        return Maintained(call, (kept,), column.ref)

    return make


FUNCTIONS: dict[str, Callable[[Call, Column], Maintained | None]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
    "min": _extreme("min"),
    "max": _extreme("max"),
}


_FIRST_FORM: dict[str, Callable[[Call, Column], Maintained | None]] = {
    "avg": partial(_avg, widen=False),
    "mean": partial(_avg, widen=False),
}
"""What is kept in another way by views of the first form: averages of BIGINT kept a sum that was a BIGINT, too."""


def count_rows(name: str, weight: Column) -> Partial:
    """The hidden number of rows of a group: when it reaches zero the group is gone."""
    column = Column(name, "bigint", False)
    return Partial(column, Call(column, "sum", (weight.ref,)), Call(column, "count"))
