"""Aggregate functions over a group with NULLs and duplicates."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column
from nabla.algebra.reference.evaluator import NAN, CannotEvaluate, Slot, compile_aggregate, parse_type, read_expression

TYPES = {"i": "int", "d": "decimal(10,2)", "f": "double", "s": "string", "t": "boolean", "day": "date"}
LAYOUT = {name: Slot(place, parse_type(kind)) for place, (name, kind) in enumerate(TYPES.items())}
# Each row with its number of copies.
GROUP = [
    ((1, Decimal("1.00"), 0.5, "b", True, date(2024, 1, 1)), 1),
    ((2, None, 1.5, "a", None, None), 2),
    ((None, Decimal("2.01"), None, None, False, date(2023, 1, 1)), 1),
]
EMPTY: list[Any] = []
NULLS = [((None,) * 6, 3)]


def call(
    function: str, *arguments: str, distinct: bool = False, where: str = "", template: str = "", cast: str = ""
) -> Any:
    parts = tuple(read_expression(a, TYPES) for a in arguments)
    condition = read_expression(where, TYPES) if where else None
    made = Call(Column("x#1", cast or "?"), function, parts, distinct, condition, template, cast=bool(cast))
    return compile_aggregate(made, LAYOUT)


@pytest.mark.parametrize(
    ("aggregate", "group", "empty", "nulls"),
    [
        (call("count"), 4, 0, 3),
        (call("count", "1"), 4, 0, 3),
        (call("count", "`i`"), 3, 0, 0),
        (call("count", "`i`", "`d`"), 1, 0, 0),
        (call("count", "`i`", distinct=True), 2, 0, 0),
        (call("count", "`i`", "`s`", distinct=True), 2, 0, 0),
        (call("count", where="`i` > 1"), 2, 0, 0),
        (call("sum", "`i`"), 5, None, None),
        (call("sum", "`i`", distinct=True), 3, None, None),
        (call("sum", "`i`", where="`i` > 5"), None, None, None),
        (call("sum", "`d`"), Decimal("3.01"), None, None),
        (call("sum", "`f`"), 3.5, None, None),
        (call("avg", "`i`"), 5 / 3, None, None),
        (call("avg", "`d`"), Decimal("1.505000"), None, None),
        (call("min", "`i`"), 1, None, None),
        (call("max", "`s`"), "b", None, None),
        (call("min", "`day`"), date(2023, 1, 1), None, None),
        (call("max", "`t`"), True, None, None),
        (call("any_value", "`i`"), None, None, None),
        (call("first", "`i`", "true"), 1, None, None),
        (call("bool_and", "`t`"), False, None, None),
        (call("every", "`t`"), False, None, None),
        (call("bool_or", "`t`"), True, None, None),
        (call("some", "`t`"), True, None, None),
        (call("count_if", "`i` = 2"), 2, 0, 0),
        (call("bit_and", "`i`"), 0, None, None),
        (call("bit_or", "`i`"), 3, None, None),
        (call("bit_xor", "`i`"), 1, None, None),
        (call("var_pop", "`i`"), pytest.approx(2 / 9), None, None),
        (call("var_samp", "`i`"), pytest.approx(1 / 3), None, None),
        (call("stddev", "`i`"), pytest.approx(math.sqrt(1 / 3)), None, None),
        (call("stddev_pop", "`i`"), pytest.approx(math.sqrt(2) / 3), None, None),
        (call("collect_list", "`s`"), ("a", "a", "b"), (), ()),
        (call("collect_set", "`s`"), ("a", "b"), (), ()),
        (call("approx_count_distinct", "`s`"), 2, 0, 0),
        (call("min_by", "`s`", "`i`"), "b", None, None),
        (call("max_by", "`s`", "`i`"), "a", None, None),
        (call("max_by", "`i`", "`d`"), None, None, None),
        (call("percentile", "`i`", "0.25"), 1.5, None, None),
        (call("percentile", "`i`", "array(0, 1)"), (1.0, 2.0), None, None),
        (call("median", "`i`"), 2.0, None, None),
    ],
)
def test_an_aggregate_function(aggregate: Any, group: Any, empty: Any, nulls: Any) -> None:
    assert aggregate(GROUP) == group
    assert aggregate(EMPTY) == empty
    assert aggregate(NULLS) == nulls


def test_a_sample_of_one_has_no_variance() -> None:
    assert call("var_samp", "`i`")(GROUP[:1]) is None
    assert call("var_pop", "`i`")(GROUP[:1]) == 0.0


def test_nan_is_the_greatest() -> None:
    rows = [((None, None, value, None, None, None), 1) for value in (NAN, 1.0, math.inf)]
    assert call("max", "`f`")(rows) is NAN
    assert call("min", "`f`")(rows) == 1.0


def test_an_argument_may_be_any_expression() -> None:
    assert call("sum", "CASE WHEN `i` > 1 THEN `i` ELSE 0L END")(GROUP) == 4
    assert call("max", "`i` - 1")(GROUP) == 1
    assert call("max", "`i` - 1")(EMPTY) is None


def test_a_result_may_be_cast() -> None:
    total = call("sum", "`d` * 2L", cast="decimal(38,2)")
    assert total(GROUP) == Decimal("6.02")
    assert total(GROUP).as_tuple().exponent == -2
    assert total(EMPTY) is None


def test_a_fraction_may_stand_before_the_ordered_argument() -> None:
    within = call("percentile_cont", "`i`", "0.25", template="percentile_cont({1}) WITHIN GROUP (ORDER BY {0})")
    assert within(GROUP) == 1.5


def test_a_template_that_says_more_than_function_and_arguments_is_refused() -> None:
    with pytest.raises(CannotEvaluate, match="DESC"):
        call("percentile_cont", "`i`", "0.25", template="percentile_cont({1}) WITHIN GROUP (ORDER BY {0} DESC)")


def test_an_unknown_aggregate_is_refused() -> None:
    with pytest.raises(CannotEvaluate, match="histogram"):
        call("histogram_numeric", "`i`", "2")
