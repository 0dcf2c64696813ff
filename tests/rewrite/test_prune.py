"""Columns that nothing needs are dropped, and no rows with them."""

from __future__ import annotations

from collections import Counter

from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Join, Project, Scan
from nabla.algebra.reference.interpreter import Database, evaluate
from nabla.rewrite.prune import prune


def test_an_aggregate_over_no_rows_still_gives_its_row_if_no_column_of_it_is_needed() -> None:
    t = Scan("t", At.NEW, (Column("x#1", "int"),), ("x",))
    u = Scan("u", At.NEW, (Column("y#2", "int"),), ("y",))
    total = Aggregate(u, (), (Call(Column("n#3", "bigint"), "sum", (u.columns[0].ref,)),))
    query = Project(Join(t, total, ()), (Named(t.columns[0], t.columns[0].ref),))
    rows = {"t": Counter({(7,): 1}), "u": Counter[tuple[object, ...]]()}
    database = Database({"t": ("x",), "u": ("y",)}, rows, rows)
    assert evaluate(prune(query), database) == evaluate(query, database) == Counter({(7,): 1})
