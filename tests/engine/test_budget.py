"""The budget of a refresh: work that takes longer is interrupted, wherever it runs."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from nabla.engine.budget import Budget, OverBudget
from nabla.engine.driver.driver_query import run


def test_no_budget_lets_everything_end() -> None:
    with Budget() as budget, budget.interrupted_by(lambda: pytest.fail("interrupted")):
        time.sleep(0.05)
    budget.check()


def test_a_query_of_duckdb_is_interrupted_when_the_time_is_over() -> None:
    numbers = pa.table({"x": range(200_000)})
    begun = time.monotonic()
    with pytest.raises(OverBudget), Budget(0.2) as budget:
        run("SELECT sum(a.x * b.x) FROM t AS a, t AS b", {"t": numbers}, budget=budget)
    assert time.monotonic() - begun < 10
    found = run("SELECT count(*) AS n FROM t", {"t": numbers})
    assert found is not None
    assert found.to_pylist() == [{"n": 200_000}]


def test_nothing_begins_when_the_time_is_over() -> None:
    with Budget(0.0) as budget:
        time.sleep(0.01)
        with pytest.raises(OverBudget):
            budget.check()
        with pytest.raises(OverBudget), budget.interrupted_by(lambda: None):
            pytest.fail("it began")


def test_an_error_within_the_time_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), Budget(60) as budget, budget.interrupted_by(lambda: None):
        _ = 1 / 0
