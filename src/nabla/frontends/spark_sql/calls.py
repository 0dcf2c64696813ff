"""Aggregate and window functions."""

from __future__ import annotations

import re

from nabla.algebra.build import number
from nabla.algebra.calls import CURRENT_ROW, UNBOUNDED_FOLLOWING, UNBOUNDED_PRECEDING, Bound, Call, Frame, WindowCall
from nabla.algebra.expressions import Column
from nabla.frontends.spark_sql.expressions import Translator, Unsupported
from nabla.frontends.spark_sql.tree import Expression

# The name for a function with several aliases.
_CANONICAL = {
    "mean": "avg",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "every": "bool_and",
    "any": "bool_or",
    "some": "bool_or",
    "first_value": "first",
    "last_value": "last",
    "array_agg": "collect_list",
    "string_agg": "listagg",
}

# Their arguments, if any, repeat the order of the window, and their frame is prescribed.
_RANKING = frozenset({"RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist"})
_FRAMELESS = _RANKING | {"NTile", "Lead", "Lag"}

_BOUNDS = {
    "UnboundedPreceding": UNBOUNDED_PRECEDING,
    "UnboundedFollowing": UNBOUNDED_FOLLOWING,
    "CurrentRow": CURRENT_ROW,
}

# Functions and forms that are translated here, so that Spark need not print them.
PRINTED = _FRAMELESS | _BOUNDS.keys() | {"NthValue", "WindowExpression", "WindowSpecDefinition", "SpecifiedWindowFrame"}
PRINTED |= {"SortOrder", "ListAgg", "Mode", "First", "Last", "HyperLogLogPlusPlus", "PivotFirst"}


def call(p: Translator, e: Expression, column: Column) -> Call:
    """An AggregateExpression as the call that defines `column`."""
    function, distinct = e.children[0], bool(e.fields["isDistinct"])
    name = _CANONICAL.get(function.function, function.function)
    inputs = [part.children[0] if part.kind == "SortOrder" else part for part in function.children]
    arguments = tuple(p.expr(part) for part in inputs)
    if name == "count" and not distinct and list(arguments) == [number(1, "int")]:
        arguments = ()
    condition = p.expr(e.fields["filter"]) if e.fields["filter"] else None
    ignores_nulls = function.kind in ("First", "Last") and bool(function.fields["ignoreNulls"])
    template = _template(p, function, name, distinct)
    return Call(column, name, arguments, distinct, condition, template, ignores_nulls)


def _template(p: Translator, function: Expression, name: str, distinct: bool) -> str:
    """The template of a call that plain `name(arguments)` does not express; empty for other calls."""
    word, fields = "DISTINCT " if distinct else "", function.fields
    if function.kind == "ListAgg" and fields.get("orderExpressions"):
        order = ", ".join(f"{{{i}}} {p.order(o).direction}" for i, o in enumerate(fields["orderExpressions"], start=2))
        return f"{name}({word}{{0}}, {{1}}) WITHIN GROUP (ORDER BY {order})"
    if function.kind == "Mode" and fields["reverseOpt"] is not None:
        # Spark's own text has the direction the wrong way round.
        return f"mode() WITHIN GROUP (ORDER BY {{0}}{'' if fields['reverseOpt'] else ' DESC'})"
    if function.kind == "HyperLogLogPlusPlus" and fields["relativeSD"] != 0.05:
        return f"{name}({word}{{0}}, {fields['relativeSD']})"
    if function.kind in PRINTED:
        return ""
    if function.sql is None:
        raise Unsupported(f"the aggregate function {name}, which Spark cannot print as SQL that means the same")
    if "WITHIN GROUP" not in function.sql:
        return ""
    return re.sub(r"`(\{\d+\})`", r"\1", function.sql)


def window_call(p: Translator, e: Expression, column: Column) -> WindowCall:
    """A WindowExpression; the partition is the operator's."""
    function, window = e.children
    order = tuple(p.order(o) for o in window.fields["orderSpec"])
    frame = None if function.kind in _FRAMELESS else _frame(p, window.children[-1])
    return WindowCall(_window_function(p, function, column), order, frame)


def _window_function(p: Translator, function: Expression, column: Column) -> Call:
    if function.kind == "AggregateExpression":
        return call(p, function, column)
    if function.kind in _RANKING:
        return Call(column, function.function)
    if function.kind not in ("NTile", "Lead", "Lag", "NthValue"):
        raise Unsupported(f"the window function {function.function}")
    arguments = tuple(p.expr(argument) for argument in function.children)
    return Call(column, function.function, arguments, ignore_nulls=bool(function.fields.get("ignoreNulls")))


def _frame(p: Translator, frame: Expression) -> Frame | None:
    if frame.kind != "SpecifiedWindowFrame":
        return None
    lower, upper = (_bound(p, bound) for bound in frame.children)
    return Frame("rows" if frame.fields["frameType"] == "RowFrame" else "range", lower, upper)


def _bound(p: Translator, bound: Expression) -> Bound:
    if bound.kind in _BOUNDS:
        return _BOUNDS[bound.kind]
    if bound.kind == "UnaryMinus":
        return Bound("preceding", p.expr(bound.children[0]))
    return Bound("following", p.expr(bound))
