"""Expressions: three-valued logic, Spark's typing, casts, functions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from expression_cases import CASES, FAILURES, ROW, TYPES, UNKNOWN

from nabla.algebra.build import arithmetic, number
from nabla.algebra.expressions import Apply, Clock, Foreign, Literal, Ref
from nabla.algebra.reference.evaluator import (
    NAN,
    CannotEvaluate,
    Slot,
    SparkWouldFail,
    Struct,
    compile_expression,
    evaluate_expression,
    named_layout,
    parse_type,
    read_expression,
)


def _digits(value: Any) -> Any:
    """Decimal('1.5') and Decimal('1.50') are equal in Python and differ in type."""
    return value.as_tuple() if isinstance(value, Decimal) else value


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_the_value_is_that_of_spark(text: str, expected: Any) -> None:
    value = evaluate_expression(text, ROW, TYPES)
    assert type(value) is type(expected) or isinstance(value, Struct)
    assert _digits(value) == _digits(expected)


@pytest.mark.parametrize("text", FAILURES)
def test_what_fails_in_spark_fails(text: str) -> None:
    with pytest.raises(SparkWouldFail):
        evaluate_expression(text, ROW, TYPES)


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(CannotEvaluate):
        evaluate_expression(text, ROW, TYPES)


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_without_types_only_the_digits_of_quotients_differ(text: str, expected: Any) -> None:
    value = evaluate_expression(text, ROW)
    if isinstance(value, Decimal):
        assert abs(value - expected) < Decimal("0.000001")
    else:
        assert value == expected


def test_a_missing_column_is_named() -> None:
    with pytest.raises(CannotEvaluate, match="z#9"):
        evaluate_expression("`z#9` + 1", ROW)


def test_a_backtick_inside_text_is_no_column() -> None:
    assert evaluate_expression("CONCAT('`i#1`', `s#4`)", ROW) == "`i#1`abc"


def test_names_may_contain_backticks_and_dots() -> None:
    assert evaluate_expression("`odd``name.x#1` + 1", {"odd`name.x#1": 1}) == 2


def test_a_field_of_a_struct_is_found_without_regard_to_case() -> None:
    row = {"s#1": Struct.of(("Name", "n"), ("x", 2))}
    assert evaluate_expression("`s#1`.`name`", row) == "x"
    assert evaluate_expression("`s#1`.n + 1", row) == 3


def test_rows_may_be_tuples() -> None:
    layout = {"a#1": Slot(1, parse_type("int")), "b#2": Slot(0, parse_type("int"))}
    assert compile_expression(read_expression("`a#1` - `b#2`"), layout).get((1, 10)) == 9


def test_an_expression_is_compiled_once_for_all_names_of_its_columns() -> None:
    one = compile_expression(read_expression("(`a#1` + 1)"), {"a#1": Slot(0)})
    assert compile_expression(read_expression("(`b#2` + 1)"), {"b#2": Slot(0)}) is one


def test_results_have_the_types_of_spark() -> None:
    def kind(text: str) -> str:
        return str(compile_expression(read_expression(text, TYPES), named_layout(ROW, TYPES)).type)

    assert kind("`d#5` / `i#1`") == "decimal(21,13)"
    assert kind("`i#1` + `b#3`") == "bigint"
    assert kind("COALESCE(`n#2`, `e#11`)") == "decimal(20,4)"


def test_the_type_of_the_tree_holds_where_the_operands_do_not_tell_it() -> None:
    field = Apply("GetStructField", (Ref("s#1", "struct<n:decimal(4,2)>"), Literal("n", "string")), "decimal(4,2)")
    third = compile_expression(
        Apply("Divide", (field, Literal("3", "int")), "decimal(8,6)"), {"s#1": Slot(0, parse_type("struct<>"))}
    )
    assert str(third.type) == "decimal(8,6)"
    assert str(third.get((Struct.of(("n",), (Decimal("1.00"),)),))) == "0.333333"


def test_what_the_tree_does_not_know_and_readings_of_the_clock_are_refused() -> None:
    for unknown in (Foreign("soundex(`{0}`)", (Ref("s#4", "string"),), "string"), Clock("current_date()", "date")):
        with pytest.raises(CannotEvaluate):
            compile_expression(unknown, named_layout(ROW, TYPES))


def test_nan_is_one_value() -> None:
    assert evaluate_expression("CAST('NaN' AS DOUBLE) + 1", {}) is NAN
    assert {(evaluate_expression("CAST('NaN' AS DOUBLE)", {}),): 1} == {(NAN,): 1}


def test_sums_that_rules_build_are_sums_of_numbers() -> None:
    total = arithmetic(Ref("a#1", "int"), "+", number(1, "int"), "int")
    assert compile_expression(total, {"a#1": Slot(0, parse_type("int"))}).get((2,)) == 3
