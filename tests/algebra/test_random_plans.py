"""The generator makes what it promises: well-formed plans, valid changes, types that are true."""

from __future__ import annotations

import time
from collections import Counter
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from strategies import scenarios

from nabla.algebra.expressions import Column, Expr
from nabla.algebra.memo import count_uses
from nabla.algebra.nodes import Aggregate, At, Filter, Join, Node, Project, Scan
from nabla.algebra.reference.evaluator import Slot, compile_expression, parse_type
from nabla.algebra.reference.interpreter import Bag, evaluate
from nabla.dev.testing.random_data import RandomSizes, next_database
from nabla.dev.testing.random_plans import ALL, CORE, Scenario, random_scenario, reading

SEEDS = 1000
_PYTHON = {"int": int, "bigint": int, "double": float, "string": str, "boolean": bool, "date": date, "decimal": Decimal}


@pytest.fixture(scope="module")
def timed() -> tuple[list[Scenario], float]:
    """Many views, and the seconds that it took to make them."""
    start = time.process_time()
    return [random_scenario(seed, ALL) for seed in range(SEEDS)], time.process_time() - start


@pytest.fixture(scope="module")
def many(timed: tuple[list[Scenario], float]) -> list[Scenario]:
    return timed[0]


def test_a_thousand_plans_take_less_than_ten_seconds(timed: tuple[list[Scenario], float]) -> None:
    plans, seconds = timed
    assert len(plans) == SEEDS
    assert seconds < 10  # a processor that others use, too, takes twice as long


def test_a_seed_names_a_case() -> None:
    one, other = random_scenario(17, ALL), random_scenario(17, ALL)
    assert one == other


def test_a_column_has_one_type_in_the_whole_plan(many: list[Scenario]) -> None:
    for scenario in many:
        types: dict[str, set[str]] = {}
        for node in scenario.plan.walk():
            for column in node.columns:
                types.setdefault(column.name, set()).add(column.type)
        assert all(len(found) == 1 for found in types.values()), scenario.seed


def test_expressions_have_the_types_that_they_claim(many: list[Scenario]) -> None:
    for scenario in many[:600]:
        for node in scenario.plan.walk():
            for expression in _expressions(node):
                layout = {c.name: Slot(0, parse_type(c.type)) for part in node.inputs for c in part.columns}
                assert str(compile_expression(expression, layout).type) == expression.type, (
                    scenario.seed,
                    expression,
                )


def _expressions(node: Node) -> tuple[Expr, ...]:
    if isinstance(node, Project):
        return tuple(output.expr for output in node.outputs)
    if isinstance(node, Filter):
        return node.conjuncts
    return node.on if isinstance(node, Join) else ()


@given(scenarios(ALL))
def test_values_have_the_types_of_their_columns(scenario: Scenario) -> None:
    for node in scenario.plan.walk():
        for row in evaluate(node, scenario.database):
            for value, column in zip(row, node.columns, strict=True):
                _check_value(value, column)


def _check_value(value: Any, column: Column) -> None:
    kind = parse_type(column.type)
    if value is None:
        assert column.nullable
        return
    assert type(value) is _PYTHON[kind.kind], column
    if isinstance(value, Decimal):
        assert value == value.quantize(Decimal(1).scaleb(-kind.scale))
        assert abs(value) < Decimal(10) ** (kind.precision - kind.scale)


def test_every_operator_occurs(many: list[Scenario]) -> None:
    seen = Counter(_operator(node) for scenario in many for node in scenario.plan.walk())
    wanted = "Scan Constant Filter Project UnionAll Distinct Aggregate Window TopK ExceptAll IntersectAll Generate"
    joins = ("inner", "left", "right", "full", "semi", "anti")
    assert all(seen[name] > 50 for name in (*wanted.split(), *joins)), seen


def _operator(node: Node) -> str:
    return node.kind if isinstance(node, Join) else type(node).__name__


def test_only_the_chosen_features_occur() -> None:
    allowed = {"Scan", "Filter", "Project", "inner", "UnionAll", "Distinct", "Aggregate"}
    plans = [random_scenario(seed, CORE).plan for seed in range(300)]
    assert {_operator(node) for plan in plans for node in plan.walk()} == allowed
    plans = [random_scenario(seed, frozenset(("filter", "semi"))).plan for seed in range(100)]
    # A projection is also how a relation stands beside itself under other names.
    assert {_operator(node) for plan in plans for node in plan.walk()} == {"Scan", "Filter", "Project", "semi", "anti"}
    with pytest.raises(ValueError, match="pivot"):
        random_scenario(1, frozenset(("pivot",)))


def test_plans_have_self_joins_shared_parts_and_having(many: list[Scenario]) -> None:
    def tables(node: Node) -> list[str]:
        return [part.table for part in node.walk() if isinstance(part, Scan)]

    nodes = [node for scenario in many for node in scenario.plan.walk()]
    joins = [node for node in nodes if isinstance(node, Join)]
    assert sum(bool(set(tables(j.left)) & set(tables(j.right))) for j in joins) > 50
    assert sum(isinstance(node, Filter) and isinstance(node.input, Aggregate) for node in nodes) > 50
    assert sum(max(count_uses((s.plan,), lambda n: n.inputs).values()) > 1 for s in many) > 50
    assert sum(any(on.sides is None for on in j.on) for j in joins) > 50
    assert sum(any(on.null_safe for on in j.on) for j in joins) > 50
    assert sum(not j.on for j in joins) > 10


def test_changes_are_valid_and_of_all_kinds(many: list[Scenario]) -> None:
    several = both = 0
    for scenario in many:
        database = scenario.database
        for table in scenario.schema:
            assert all(n > 0 for n in database.old(table.name).values())
            assert all(n > 0 for n in database.new(table.name).values())
            assert all(database.delta(table.name).values())
            signs = {n > 0 for n in database.delta(table.name).values()}
            both += len(signs) == 2
        several += len(scenario.changed) > 1
    assert several > SEEDS / 5
    assert both > SEEDS / 5


def test_rows_repeat_and_values_are_missing(many: list[Scenario]) -> None:
    bags = [bag for scenario in many for bag in scenario.database.after.values()]
    assert sum(any(n > 1 for n in bag.values()) for bag in bags) > len(bags) / 3
    assert sum(any(None in row for row in bag) for bag in bags) > len(bags) / 3
    assert sum(not bag for bag in bags) > 20


def test_many_views_change(many: list[Scenario]) -> None:
    def result(scenario: Scenario, at: At) -> Bag:
        return evaluate(reading(scenario.plan, at), scenario.database)

    changed = sum(result(s, At.OLD) != result(s, At.NEW) for s in many[:500])
    assert changed > 500 * 0.35, changed


def test_databases_can_follow_one_another() -> None:
    scenario = random_scenario(3, ALL)
    after = next_database(Random(1), scenario.schema, scenario.database)
    assert all(after.old(t.name) == scenario.database.new(t.name) for t in scenario.schema)


def test_sizes_are_kept() -> None:
    small = RandomSizes(tables=1, columns=2, rows=3, operations=1, depth=2, scans=1)
    for seed in range(100):
        scenario = random_scenario(seed, ALL, small)
        scans = [node for node in scenario.plan.walk() if isinstance(node, Scan)]
        assert len(scenario.schema) == 1
        assert len(scans) <= 1
