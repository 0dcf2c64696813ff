"""Equations in the condition of a join: columns of one side that have to equal values of the other one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Column, DataFrame

from nabla.frontends.spark_sql.statements import column_of, kind_of, list_of

_INTEGRAL = ("tinyint", "smallint", "int", "bigint")
_EXACT = frozenset((*_INTEGRAL, "string", "date", "boolean", "binary", "timestamp", "timestamp_ntz"))


def equations(left: DataFrame, right: DataFrame, on: Column) -> dict[str, Column]:
    """Columns of the left side with expressions over the right one that they have to equal for `on` to hold.

    Only those of types whose equal values are equal in storage: 0.0 equals -0.0, and collations have equals of their own.
    """
    plan: Any = left.join(right, on, "inner")._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() != "Join":
        if plan.children().size() != 1:
            return {}
        plan = plan.children().apply(0)
    if not plan.condition().isDefined():
        return {}
    mine = {_id(attribute): str(attribute.name()) for attribute in list_of(plan.left().output())}
    others = {_id(attribute) for attribute in list_of(plan.right().output())}
    if others != {_id(attribute) for attribute in list_of(right._jdf.queryExecution().analyzed().output())}:
        return {}  # Spark has renamed them, so that the expressions are not about the frame any more
    found: dict[str, Column] = {}
    for one in _conjuncts(plan.condition().get()):
        if kind_of(one) not in ("EqualTo", "EqualNullSafe"):
            continue
        for column, value in ((one.left(), one.right()), (one.right(), one.left())):
            equation = _equation(column, value, mine, others)
            if equation is not None:
                found.setdefault(*equation)
    return found


def _equation(column: Any, value: Any, mine: dict[int, str], others: set[int]) -> tuple[str, Column] | None:
    asked = {_id(attribute) for attribute in list_of(value.references().toSeq())}
    if not asked or not asked <= others or not value.deterministic():
        return None
    kind = str(value.dataType().simpleString())
    narrow = None
    if kind_of(column) == "Cast" and kind in _INTEGRAL:
        inner = str(column.child().dataType().simpleString())
        if inner not in _INTEGRAL or _INTEGRAL.index(inner) > _INTEGRAL.index(kind):
            return None
        narrow, column = inner, column.child()
    if kind_of(column) != "AttributeReference" or _id(column) not in mine:
        return None
    if narrow is None and (str(column.dataType().simpleString()) != kind or not _is_exact(kind)):
        return None
    given = column_of(value)
    return mine[_id(column)], given if narrow is None else given.try_cast(narrow)


def _is_exact(kind: str) -> bool:
    return kind in _EXACT or kind.startswith("decimal(")


def _conjuncts(condition: Any) -> Iterator[Any]:
    if kind_of(condition) == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())
