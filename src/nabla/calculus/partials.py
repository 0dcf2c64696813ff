"""Aggregate functions as partial results that a change can be added to.

A function that can *combine* two partial results and *cancel* a row (sum, count, avg) is kept as hidden columns, each a
sum over weighted rows: the change table of the thesis. min and max combine but cannot cancel: deleting the extreme
recomputes its group. Every other function, and sums of floating point numbers, whose running result would drift from a
fresh one, recompute their affected groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nabla.algebra.expressions import Call, Column, Expr, quote
from nabla.algebra.names import part_name

INTEGERS = ("tinyint", "smallint", "int", "bigint")
ORDERED = (*INTEGERS, "float", "double", "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary")


@dataclass(frozen=True)
class Partial:
    """A hidden column. `change` is its aggregate over the weighed change, `whole` that over plain rows, `merged` the new
    value from the old one and the change (`{old}`, `{change}`, `{deleted}`)."""

    column: Column
    change: Expr
    whole: Expr
    initial: str
    merged: str = "({old} + {change})"
    deleted: Expr | None = None
    broken: str = ""
    extreme: Literal["min", "max", ""] = ""

    @property
    def cancels(self) -> bool:
        return not self.extreme


@dataclass(frozen=True)
class Maintained:
    """How one call of an aggregate is kept: its partials, and its value as an expression over them."""

    call: Call
    partials: tuple[Partial, ...]
    value: Expr


def decimal_of(type_: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    return (int(match[1]), int(match[2])) if match else None


def maintained(call: Call, weight: Column) -> Maintained | None:
    """None where the function cannot be kept up to date from the change alone."""
    make = FUNCTIONS.get(call.function)
    if make is None or call.distinct or call.template:
        return None
    return make(call, weight)


def _named(call: Call, suffix: str, type_: str) -> Column:
    return Column(part_name(call.column.name, suffix), type_)


def _counted(call: Call, weight: Column) -> Partial:
    """How many rows the call sees: those that pass its filter and whose arguments are not NULL."""
    tests = [f"{a.sql} IS NOT NULL" for a in call.arguments if a.nullable]
    if call.filter:
        tests.insert(0, f"({call.filter.sql})")
    test = " AND ".join(tests)
    seen = f"CASE WHEN {test} THEN {weight.ref.sql} ELSE 0L END" if tests else weight.ref.sql
    whole = f"COUNT(CASE WHEN {test} THEN 1 END)" if tests else "COUNT(1)"
    return Partial(_named(call, "count", "bigint"), Expr(f"SUM({seen})", "bigint"), Expr(whole, "bigint"), "0L")


def _argument(call: Call) -> str:
    (argument,) = call.arguments
    return f"CASE WHEN {call.filter.sql} THEN {argument.sql} END" if call.filter else argument.sql


def _summed(call: Call, weight: Column) -> Partial | None:
    """The exact sum, or None where a running sum would not be exact."""
    type_ = call.arguments[0].type
    if type_ in INTEGERS:
        stored = "bigint"
        whole = f"SUM(CAST({_argument(call)} AS BIGINT))"
        change = f"SUM(CAST({_argument(call)} AS BIGINT) * {weight.ref.sql})"
    elif (decimal := decimal_of(type_)) and (decimal[1] <= 6 or decimal[0] + 21 <= 38):
        # A product of decimal(p,s) and a weight has p + 21 digits; beyond 38 Spark would cut the scale down to 6.
        stored = f"decimal(38,{decimal[1]})"
        whole = f"CAST(SUM({_argument(call)}) AS {stored})"
        change = f"CAST(SUM({_argument(call)} * {weight.ref.sql}) AS {stored})"
    else:
        return None
    return Partial(
        _named(call, "sum", stored),
        Expr(change, stored),
        Expr(whole, stored),
        f"CAST(0 AS {stored})",
        f"CAST({{old}} + {{change}} AS {stored})",
    )


def _count(call: Call, weight: Column) -> Maintained:
    count = _counted(call, weight)
    return Maintained(call, (count,), Expr(count.column.ref.sql, call.column.type, False))


def _sum(call: Call, weight: Column) -> Maintained | None:
    count, total = _counted(call, weight), _summed(call, weight)
    if total is None:
        return None
    value = f"CASE WHEN {count.column.ref.sql} > 0 THEN CAST({total.column.ref.sql} AS {call.column.type}) END"
    return Maintained(call, (count, total), Expr(value, call.column.type))


def _avg(call: Call, weight: Column) -> Maintained | None:
    count, total = _counted(call, weight), _summed(call, weight)
    if total is None:
        return None
    sum_, n = total.column.ref.sql, count.column.ref.sql
    if decimal := decimal_of(call.arguments[0].type):
        precision, scale = min(38, decimal[0] + 10), decimal[1]
        if 38 - (precision - scale) < scale + 6:
            return None  # Spark would divide with fewer digits than avg itself has
        quotient = f"CAST({sum_} AS DECIMAL({precision},{scale})) / CAST({n} AS DECIMAL(20,0))"
    else:
        quotient = f"CAST({sum_} AS DOUBLE) / {n}"
    value = f"CASE WHEN {n} > 0 THEN CAST({quotient} AS {call.column.type}) END"
    return Maintained(call, (count, total), Expr(value, call.column.type))


def _extreme(extreme: Literal["min", "max"], choose: str, beyond: str) -> Callable[[Call, Column], Maintained | None]:
    word = extreme.upper()

    def make(call: Call, weight: Column) -> Maintained | None:
        type_ = call.arguments[0].type
        if type_ not in ORDERED and not decimal_of(type_):
            return None
        argument = _argument(call)
        inserted = Expr(f"{word}(CASE WHEN {weight.ref.sql} > 0 THEN {argument} END)", type_)
        deleted = Expr(f"{word}(CASE WHEN {weight.ref.sql} < 0 THEN {argument} END)", type_)
        partial = Partial(
            _named(call, extreme, type_),
            inserted,
            Expr(f"{word}({argument})", type_),
            f"CAST(NULL AS {type_})",
            f"{choose}({{old}}, {{change}})",
            deleted,
            # The new extreme stands unless something at least as extreme went away.
            f"({{deleted}} IS NOT NULL AND COALESCE({{deleted}} {beyond} {choose}({{old}}, {{change}}), true))",
            extreme,
        )
        return Maintained(call, (partial,), Expr(partial.column.ref.sql, call.column.type))

    return make


FUNCTIONS: dict[str, Callable[[Call, Column], Maintained | None]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
    "min": _extreme("min", "LEAST", "<="),
    "max": _extreme("max", "GREATEST", ">="),
}


def count_rows(name: str, weight: Column) -> Partial:
    """The hidden number of rows of a group: when it reaches zero the group is gone."""
    changed = Expr(f"SUM({quote(weight.name)})", "bigint")
    return Partial(Column(name, "bigint", False), changed, Expr("COUNT(1)", "bigint"), "0L")
