"""A slice of the comparison of DuckDB with the interpreter."""

from __future__ import annotations

from collections import Counter

import pytest

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Distinct, Scan
from nabla.algebra.reference.interpreter import Database
from nabla.dev.testing import fuzz_duckdb
from nabla.dev.testing.fuzz_duckdb import Comparison, Differs, run


def test_queries_of_random_views_and_programs_have_one_answer() -> None:
    tried = run(120, seed=3)
    assert tried.failures == []
    assert tried.programs
    assert tried.comparison.signed > 10
    assert {"Join", "Aggregate", "UnionAll", "Distinct"} <= tried.comparison.operators.keys()


def test_another_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail: an engine that loses a row is told of, with the query."""
    scan = Scan("t", At.NEW, (Column("x#1", "bigint"),), ("x",))
    database = Database({"t": ("x",)}, {"t": Counter()}, {"t": Counter({(1,): 2, (None,): 1})})
    comparison = Comparison()
    assert comparison.evaluate(Distinct(scan), database) == Counter({(1,): 1, (None,): 1})
    assert comparison.answered == 1
    answer = fuzz_duckdb.answer
    monkeypatch.setattr(fuzz_duckdb, "answer", lambda *given: answer(*given).slice(1))  # type: ignore[union-attr]
    with pytest.raises(Differs, match="expected"):
        comparison.evaluate(Distinct(scan), database)
