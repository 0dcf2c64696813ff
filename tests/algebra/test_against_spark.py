"""The interpreter and Spark agree: on the values and types of expressions, and on random plans printed as SQL.

This checks the evaluator, the generator's promise that its plans mean the same everywhere, and the SQL printer at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from expression_cases import CASES, FAILURES, ROW, TYPES

from nabla.algebra.build import equal
from nabla.algebra.nodes import At, Filter, Join, Node, Scan
from nabla.algebra.reference.evaluator import compile_expression, named_layout, read_expression
from nabla.algebra.reference.interpreter import Bag, evaluate
from nabla.algebra.sql import to_sql
from nabla.dev.testing.random_plans import ALL, CORE, Scenario, random_scenario, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """Queries over a dozen rows: compiling them to Java would take most of the time."""
    quick = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {key: spark.conf.get(key, None) for key in quick}
    for key, value in quick.items():
        spark.conf.set(key, value)
    yield spark
    for key, old in before.items():
        if old is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, old)


def plain(value: Any) -> Any:
    """A value that can be compared: doubles to nine digits, arrays and structs as tuples, NaN as a word."""
    if isinstance(value, float):
        return round(value, 9) + 0.0 if value == value else "NaN"
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    return value


def plain_bag(bag: Bag) -> Bag:
    result: Bag = Counter()
    for row, n in bag.items():
        result[plain(row)] += n
    return result


def types(frame: DataFrame) -> list[str]:
    return [field.dataType.simpleString() for field in frame.schema.fields]


# Expressions


@pytest.fixture(scope="module")
def one_row(interpreted: SparkSession) -> str:
    from pyspark.sql.types import StructField, StructType, _parse_datatype_string

    schema = StructType([StructField(name, _parse_datatype_string(type_)) for name, type_ in TYPES.items()])
    frame = interpreted.createDataFrame([tuple(ROW.values())], schema)
    frame.createOrReplaceTempView("expression_cases")
    return "expression_cases"


def test_the_expected_values_are_those_of_spark(interpreted: SparkSession, one_row: str) -> None:
    frame = interpreted.sql(f"SELECT {', '.join(text for text, _ in CASES)} FROM {one_row}")
    (row,) = frame.collect()
    wrong = {
        text: (expected, value)
        for (text, expected), value in zip(CASES, row, strict=True)
        if (plain(value), _scale(value)) != (plain(expected), _scale(expected))
    }
    assert wrong == {}


def _scale(value: Any) -> Any:
    return value.as_tuple().exponent if isinstance(value, Decimal) else None


def test_types_where_they_are_known_are_those_of_spark(interpreted: SparkSession, one_row: str) -> None:
    frame = interpreted.sql(f"SELECT {', '.join(text for text, _ in CASES)} FROM {one_row}")
    layout = named_layout(ROW, TYPES)
    ours = [compile_expression(read_expression(text, TYPES), layout).type for text, _ in CASES]
    wrong = {
        text: (str(own), theirs)
        for (text, _), own, theirs in zip(CASES, ours, types(frame), strict=True)
        if own.kind not in ("unknown", "array", "struct") and str(own) != theirs
    }
    assert wrong == {}


@pytest.mark.parametrize("text", FAILURES)
def test_what_we_say_fails_does_fail(interpreted: SparkSession, one_row: str, text: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException):
        interpreted.sql(f"SELECT {text} FROM {one_row}").collect()


# Plans


def register(spark: SparkSession, scenario: Scenario) -> None:
    """Each state of each table as a view `table_state`; a change carries its weights in `_n`."""
    for table in scenario.schema:
        for at in (At.OLD, At.NEW):
            bag = scenario.database.read(table.name, at)
            rows = [row for row, n in bag.items() for _ in range(n)]
            spark.createDataFrame(rows, table.ddl).createOrReplaceTempView(f"{table.name}_{at.value}")
        signed = [(*row, n) for row, n in scenario.database.delta(table.name).items()]
        spark.createDataFrame(signed, f"{table.ddl}, _n bigint").createOrReplaceTempView(f"{table.name}_delta")


def view_name(scan: Scan) -> str:
    return f"{scan.table}_{scan.at.value}"


def assert_agree(spark: SparkSession, scenario: Scenario, plan: Node) -> None:
    text = to_sql(plan, view_name)
    frame = spark.sql(text)
    found: Bag = Counter()
    for row in frame.collect():
        *values, n = (*row, 1) if not plan.signed else row
        found[tuple(values)] += n
    found = Counter({row: n for row, n in found.items() if n})
    assert plain_bag(found) == plain_bag(evaluate(plan, scenario.database)), f"seed {scenario.seed}\n{text}"
    assert types(frame)[: len(plan.columns)] == [c.type for c in plan.columns], f"seed {scenario.seed}\n{text}"


@pytest.mark.parametrize("seed", range(20))
def test_core_plans(interpreted: SparkSession, seed: int) -> None:
    scenario = random_scenario(seed, CORE)
    register(interpreted, scenario)
    assert_agree(interpreted, scenario, scenario.plan)


@pytest.mark.parametrize("seed", range(100, 140))
def test_plans_of_all_features(interpreted: SparkSession, seed: int) -> None:
    scenario = random_scenario(seed, ALL)
    register(interpreted, scenario)
    assert_agree(interpreted, scenario, scenario.plan)


LINEAR = frozenset(("filter", "project", "join", "union", "generate"))


@pytest.mark.parametrize("seed", range(200, 210))
def test_linear_plans_of_changes(interpreted: SparkSession, seed: int) -> None:
    """Weights pass, multiply and add up on Spark as they do in the interpreter."""
    scenario = random_scenario(seed, LINEAR)
    register(interpreted, scenario)
    assert_agree(interpreted, scenario, reading(scenario.plan, At.DELTA))


def test_a_semijoin_with_a_change_has_the_weights_of_its_left_side(interpreted: SparkSession) -> None:
    scenario = next(s for seed in range(1000) if len((s := random_scenario(seed, CORE)).changed) == len(s.schema))
    register(interpreted, scenario)
    table = scenario.schema[0]
    left, right = (
        Scan(table.name, at, tuple(replace(c, name=f"{c.name}#{i}") for c in table.columns), table.fields)
        for i, at in enumerate((At.NEW, At.DELTA))
    )
    on = equal(left.columns[0].ref, right.columns[0].ref, null_safe=True)
    assert_agree(interpreted, scenario, Filter(Join(left, right, (on,), "semi"), ()))
