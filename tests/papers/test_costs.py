"""Table 4.2 of the thesis: the costs of evaluating a query and of maintaining it."""

from __future__ import annotations

from nabla.algebra.build import equal
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, ExceptAll, Filter, IntersectAll, Join, Node, Project, Scan, TopK, UnionAll
from nabla.papers.costs import cost_functions

A, B = Column("a#1", "int"), Column("b#2", "int")
R = Scan("r", At.NEW, (A,), ("a",))
S = Scan("s", At.NEW, (B,), ("b",))
ROWS, CHANGED = {"r": 1000, "s": 500}, {"r": 10, "s": 3}


def costs(view: Node) -> tuple[int, int]:
    found = cost_functions(view, ROWS, CHANGED)
    assert found is not None
    return found.evaluate, found.maintain


def test_every_row_of_the_table() -> None:
    assert costs(R) == (1000, 10)
    assert costs(Filter(R, (equal(A.ref, A.ref),))) == (1000, 10)
    assert costs(UnionAll((R, S), (Column("c#3", "int"),))) == (1500, 13)
    assert costs(IntersectAll(R, S)) == (1500, 13)
    assert costs(ExceptAll(R, S)) == (1500, 13)
    assert costs(Join(R, S)) == (500_000, 1500 * 13)


def test_operators_that_the_table_lacks_are_named() -> None:
    join = Join(R, S, (equal(A.ref, B.ref),), "semi")
    found = cost_functions(Project(join, (Named(A, A.ref),)), ROWS, CHANGED)
    assert found is not None
    assert found.beyond == ("⋉ as ∩", "π as σ")
    assert str(found) == "c_inc = 13, c_ev = 1,500, c_inc / c_ev = 0.0087; ⋉ as ∩, π as σ"
    assert cost_functions(TopK(R, (), 3), ROWS, CHANGED) is None


def test_maintaining_costs_nothing_against_evaluating_as_the_tables_grow() -> None:
    """Theorem 4.7."""
    view = ExceptAll(Join(R, S), Join(R, S))
    shares = []
    for size in (10, 1_000, 100_000):
        found = cost_functions(view, {"r": size, "s": size}, {"r": 1, "s": 1})
        assert found is not None
        shares.append(found.share)
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 1e-4
