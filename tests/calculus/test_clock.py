"""Filters that read the clock: the rows between the old and the new boundary come and go, and no others."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from nabla.algebra.build import compare
from nabla.algebra.clock import CLOCK, Instant, Moments, before, functions, reads_clock
from nabla.algebra.expressions import Clock
from nabla.algebra.nodes import At, Filter, Node
from nabla.algebra.reference.interpreter import added, evaluate, negated
from nabla.calculus.delta import Derivation
from nabla.calculus.obstacles import obstacles
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.maintained import check
from nabla.dev.testing.random_plans import ALL, Scenario, random_scenario, reading


def _instant(day: int) -> Instant:
    moment = datetime.datetime(2024, 1, day, 12, tzinfo=datetime.UTC)
    return Instant(int(moment.timestamp()) * 1_000_000, "UTC")


def _timed(node: Node, rng: Random) -> Node:
    """The view with some filters on date columns, anywhere in it."""
    node = node.with_inputs(*(_timed(part, rng) for part in node.inputs)) if node.inputs else node
    dates = [c for c in node.columns if c.type == "date"]
    if not dates or rng.random() < 0.5:
        return node
    sign = rng.choice(("<", ">=", "=", "<>"))
    return Filter(node, (compare(rng.choice(dates).ref, sign, Clock("current_date()", "date")),))


def _scenarios(first: int) -> Iterator[Scenario]:
    """Random views with such filters, over a clock that moves by some days, or not at all."""
    for seed in range(first, first + 150):
        scenario, rng = random_scenario(seed, ALL), Random(seed)
        plan = _timed(scenario.plan, rng)
        if any(map(reads_clock, plan.walk())) and not obstacles(plan):
            moments = Moments(_instant(rng.randint(1, 3)), _instant(rng.choice((2, 3, 4, 31))))
            yield replace(scenario, plan=plan, database=replace(scenario.database, moments=moments))


def _moved(scenario: Scenario) -> frozenset[str]:
    return frozenset({CLOCK} if scenario.database.moments.moved(["current_date()"]) else ())


def test_the_rule_is_its_law() -> None:
    cases = 0
    for scenario in _scenarios(50_000):
        change = Derivation(scenario.changed | _moved(scenario)).d(scenario.plan)
        found = evaluate(change, scenario.database) if change is not None else Counter()
        new = evaluate(scenario.plan, scenario.database)
        old = evaluate(reading(scenario.plan, At.OLD), scenario.database)
        assert found == added(new, negated(old)), f"seed {scenario.seed}"
        cases += 1
    assert cases > 30


def test_stages_over_and_under_such_filters_stay_exact() -> None:
    for scenario in _scenarios(60_000):
        check(scenario.plan, scenario.database, scenario.changed | _moved(scenario))


def test_a_token_in_a_literal_or_a_name_is_not_the_clock() -> None:
    assert functions(read_text("'«current_date()»' = `«current_date()»`", "boolean")) == frozenset()
    e = read_text("(`d#1` < «current_date()» OR `x` = '«current_date()»')", "boolean")
    assert functions(e) == {"current_date()"}
    assert before(e).sql == "((`d#1` < «current_date() before») OR (`x` = '«current_date()»'))"
    bound = Moments(_instant(1), _instant(2)).bound(before(e).sql)
    assert bound == "((`d#1` < DATE '2024-01-01') OR (`x` = '«current_date()»'))"
    assert Moments(_instant(1), _instant(2)).bind(before(e)).sql == bound


@pytest.mark.parametrize(
    ("zone", "day"), [("UTC", "2024-01-01"), ("Asia/Tokyo", "2024-01-02"), ("America/New_York", "2024-01-01")]
)
def test_the_date_is_that_of_the_time_zone(zone: str, day: str) -> None:
    moment = datetime.datetime(2024, 1, 1, 20, tzinfo=datetime.UTC)
    assert Instant(int(moment.timestamp() * 1e6), zone).value("current_date()").sql == f"DATE '{day}'"
