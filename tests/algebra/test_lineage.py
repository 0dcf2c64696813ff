"""Column lineage: what is named changes things, and what is not named changes nothing."""

from __future__ import annotations

import pytest
from plans import call, columns, condition, project, scan

from nabla.algebra.calls import Call, Order, WindowCall
from nabla.algebra.expressions import Column
from nabla.algebra.lineage import Traced, trace
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Join,
    MalformedPlan,
    Negate,
    Node,
    Opaque,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Window,
)
from nabla.dev.testing.fuzz_lineage import KINDS, main, try_kind
from nabla.frontends.datalog.lineage import trace_program
from nabla.frontends.datalog.program import parse_program

R, S = scan("r", "a#1 b#2"), scan("s", "c#3 d#4")


def traced(plan: Node) -> Traced:
    return trace(plan, lambda table: None, lambda table: ("a", "b"))


def said(plan: Node, column: str) -> dict[str, set[str]]:
    """The lineage of a column as text, that of the rows included."""
    return {str(origin): set(how) for origin, how in traced(plan).all(column).items()}


def test_values_go_in_and_the_tests_of_a_case_decide() -> None:
    plan = project(R, x="`a#1` + 1", y="CASE WHEN `b#2` > 0 THEN `a#1` ELSE 0 END", z="`a#1`", one="1")
    assert said(plan, "x") == {"r.a": {"transformation"}}
    assert said(plan, "y") == {"r.a": {"transformation"}, "r.b": {"conditional"}}
    assert said(plan, "z") == {"r.a": {"identity"}}
    assert said(plan, "one") == {}


def test_filters_and_joins_decide_about_every_column() -> None:
    kept = Filter(R, (condition("`b#2` > 0"),))
    assert said(kept, "a#1") == {"r.a": {"identity"}, "r.b": {"filter"}}
    for kind in ("inner", "left", "full", "semi", "anti"):
        joined = Join(kept, S, (condition("`a#1` = `c#3`"),), kind)  # type: ignore[arg-type]
        assert said(joined, "a#1") == {"r.a": {"identity", "join"}, "r.b": {"filter"}, "s.c": {"join"}}


def test_an_aggregate_takes_values_and_its_groups_decide() -> None:
    filtered = Call(Column("f", "bigint"), "sum", (S.columns[1].ref,), filter=condition("`c#3` > 0"))
    plan = Aggregate(S, ("c#3",), (call("n", "count"), filtered))
    assert said(plan, "c#3") == {"s.c": {"identity", "group"}}
    assert said(plan, "n") == {"s.c": {"group"}}
    assert said(plan, "f") == {"s.c": {"filter", "group"}, "s.d": {"aggregation"}}


def test_an_aggregate_without_keys_has_one_row_whatever_its_input_has() -> None:
    total = Aggregate(Filter(S, (condition("`c#3` > 0"),)), (), (call("total", "sum", "d#4"),))
    assert said(total, "total") == {"s.c": {"filter"}, "s.d": {"aggregation"}}
    beside = Join(R, total)
    assert said(beside, "a#1") == {"r.a": {"identity"}}, "a scalar subquery decides about no other column"


def test_windows_orders_and_limits() -> None:
    rank = WindowCall(Call(Column("n", "int"), "row_number"), (Order(R.columns[1].ref),))
    plan = Window(R, ("a#1",), (rank,))
    assert said(plan, "n") == {"r.a": {"window"}, "r.b": {"window"}}
    assert said(plan, "b#2") == {"r.b": {"identity"}}
    top = TopK(R, (Order(R.columns[1].ref),), 3)
    assert said(top, "a#1") == {"r.a": {"identity"}, "r.b": {"sort"}}


def test_sets_compare_whole_rows() -> None:
    assert said(Distinct(R), "a#1") == {"r.a": {"identity", "group"}, "r.b": {"group"}}
    both = UnionAll((R, S), columns("x y"))
    assert said(both, "x") == {"r.a": {"identity"}, "s.c": {"identity"}}
    less = ExceptAll(R, S)
    assert said(less, "a#1") == {
        "r.a": {"identity", "compare"},
        "r.b": {"compare"},
        "s.c": {"compare"},
        "s.d": {"compare"},
    }


def test_a_recursion_is_traced_through_all_of_its_levels() -> None:
    level = Scan("level", At.NEW, columns("e#7 f#8"), ("c0", "c1"))
    # Each level moves the second column to the first: what begins as d reaches the first column after a round.
    step = project(Join(level, R, (condition("`f#8` = `a#1`"),)), p="`f#8`", q="`b#2`")
    plan = Recursion(S, step, "level", columns("x y"))
    every = said(plan, "x")
    assert every.keys() == {"s.c", "s.d", "r.a", "r.b"}
    assert "identity" in every["r.b"]
    assert every["r.a"] == {"join"}


def test_of_a_query_without_algebra_everything_may_matter() -> None:
    plan = Opaque("SELECT 1", ("r",), columns("x"), "NABLA_X", "why")
    assert said(plan, "x") == {"r.a": {"unknown"}, "r.b": {"unknown"}}
    assert said(Constant(columns("x"), ()), "x") == {}
    with pytest.raises(MalformedPlan):
        traced(Negate(R))


def test_recursive_rules_are_traced_to_their_tables() -> None:
    program = parse_program(
        """
        path(X, Y) :- edge(X, Y, _).
        path(X, Z) :- path(X, Y), edge(Y, Z, _).
        far(X, count(Y)) :- path(X, Y), not near(X).
        """,
        {"edge": [("a", "bigint"), ("b", "bigint"), ("note", "string")], "near": [("x", "bigint")]},
    )
    found = trace_program(program, lambda table: None, lambda table: ())
    path = found["path"]
    assert {str(o) for c in path.columns for o in path.all(c)} == {"edge.a", "edge.b"}, "the note is not read"
    first, second = path.columns.values()
    assert {str(o): set(h) for o, h in first.items()} == {"edge.a": {"identity"}}
    assert {str(o): set(h) for o, h in second.items()} == {"edge.b": {"identity"}}
    assert {str(o) for c in found["far"].columns for o in found["far"].all(c)} == {"edge.a", "edge.b", "near.x"}


@pytest.mark.parametrize(("kind", "cases"), [("plans", 25), ("chains", 12), ("programs", 6), ("nested", 6)])
def test_columns_that_a_lineage_does_not_name_do_not_change(kind: str, cases: int) -> None:
    tried = try_kind(kind, cases)
    assert tried.failures == []
    assert tried.pairs.seen
    assert tried.pairs.seen <= tried.pairs.named
    assert set(KINDS) == {"plans", "chains", "programs", "nested"}


def test_the_oracle_finds_a_lineage_that_misses_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nabla.algebra.lineage._read", lambda expressions, below, how: {})
    assert main(["plans", "--cases", "40"]) == 1
