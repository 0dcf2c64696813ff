"""Every pair rule, alone and nested in random views, against recomputation: the pairs are exact and minimal, before and
after the update, with all operands changing at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from random import Random

import pytest
from states import (
    as_sets,
    assert_minimal_pair,
    changed_tables,
    column,
    graph,
    inverted,
    random_state,
    rows,
    table,
)

from nabla.algebra.build import compare, equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Distinct, ExceptAll, Filter, IntersectAll, Join, Node, Project, Scan
from nabla.algebra.reference.interpreter import added, evaluate, negated
from nabla.calculus.delta import Derivation
from nabla.dev.testing.expressions import read_text
from nabla.dev.testing.random_plans import CORE, Scenario, random_scenario
from nabla.papers.pair_laws import PAIR_RULES, pair_rule_of
from nabla.papers.pairs import Pairs
from nabla.papers.set_form import NotSetAlgebra, set_form
from nabla.papers.sets import project, union

S = Scan("s", At.NEW, (Column("k", "int", False), Column("a", "int")), ("k", "a"))
T = Scan("t", At.NEW, (Column("l", "int"), Column("b", "int", False)), ("l", "b"))
BOTH = frozenset(("s", "t"))
SAME_KEY = (equal(column(S, "k"), column(T, "l")),)
BEYOND = (read_text("(`a` < `b`)", "boolean"),)

VIEWS: dict[str, list[Node]] = {
    "selection": [Filter(S, (read_text("(`a` > 0)", "boolean"),))],
    "renaming": [Project(S, (Named(Column("x", "int"), column(S, "a")), Named(Column("y", "int"), column(S, "k"))))],
    "projection": [project(S, ("a",)), project(S, ())],
    "join": [Join(S, T), Join(S, T, SAME_KEY), Join(S, T, BEYOND)],
    "union": [union(S, T)],
    "intersection": [IntersectAll(S, T)],
    "difference": [ExceptAll(S, T)],
    "semijoin": [Join(S, T, SAME_KEY, "semi"), Join(S, T, BEYOND, "semi"), Join(S, T, (), "semi")],
    "antijoin": [Join(S, T, SAME_KEY, "anti"), Join(S, T, BEYOND, "anti"), Join(S, T, (), "anti")],
    "left_outer_join": [Join(S, T, SAME_KEY, "left"), Join(S, T, BEYOND, "left")],
    "right_outer_join": [Join(S, T, SAME_KEY, "right"), Join(S, T, BEYOND, "right")],
    "full_outer_join": [Join(S, T, SAME_KEY, "full"), Join(S, T, BEYOND, "full")],
    "aggregation": [
        Aggregate(
            S, ("k",), (Call(Column("n", "bigint"), "count"), Call(Column("m", "int"), "min", (column(S, "a"),)))
        ),
        Aggregate(S, ("a",), (Call(Column("n", "bigint"), "sum", (column(S, "k"),)),)),
        Aggregate(S, (), (Call(Column("n", "bigint"), "max", (column(S, "a"),)),)),
    ],
}

SET_FEATURES = CORE | {"outer", "semi", "except", "intersect", "constant"}


@pytest.mark.parametrize("rule", PAIR_RULES)
@pytest.mark.parametrize("at", [At.OLD, At.NEW], ids=["pre-update", "post-update"])
def test_a_rule_gives_the_minimal_delta(rule: str, at: At) -> None:
    rng = Random(rule)
    for view in VIEWS[rule]:
        assert pair_rule_of(set_form(view)).name == rule
        pair = Pairs(BOTH, at).of(view)
        for i in range(30):
            assert_minimal_pair(pair, view, random_state(rng, S, T), (rule, i))


def test_an_operand_that_does_not_change_gives_no_term() -> None:
    pair = Pairs(frozenset(("s",))).of(Join(S, T, SAME_KEY))
    read = {node.table for node in graph(pair.delete, pair.insert) if isinstance(node, Scan)}
    assert read == {"∇s", "Δs", "t"}


def _views(first: int, count: int) -> list[tuple[Scenario, Node]]:
    """Random views over random tables that can be read as sets."""
    found = []
    for seed in range(first, first + count):
        scenario = random_scenario(seed, SET_FEATURES)
        try:
            found.append((scenario, set_form(scenario.plan, {t.name: t.columns for t in scenario.schema})))
        except NotSetAlgebra:
            continue
    assert len(found) > count / 2
    return found


@pytest.mark.parametrize("at", [At.OLD, At.NEW], ids=["pre-update", "post-update"])
def test_nested_random_views_give_the_minimal_delta(at: At) -> None:
    fired: Counter[str] = Counter()
    for scenario, view in _views(0, 100):
        database = as_sets(scenario)
        changed = changed_tables(database)
        assert_minimal_pair(Pairs(changed, at).of(view), view, database, scenario.seed)
        fired.update(pair_rule_of(node).name for node in view.walk() if _has_rule(node))
    assert set(fired) == set(PAIR_RULES), "a rule that no random view used"


def _has_rule(node: Node) -> bool:
    return any(rule.applies(node) for rule in PAIR_RULES.values())


def test_the_set_form_of_a_view_is_the_set_of_its_rows() -> None:
    for scenario, view in _views(1000, 80):
        database = as_sets(scenario)
        assert rows(view, database) == set(evaluate(scenario.plan, database)), scenario.seed


def test_pairs_and_signed_bags_agree() -> None:
    """Two derivations of one change: ΔQ − ∇Q = dQ."""
    for scenario, view in _views(2000, 60):
        database = as_sets(scenario)
        changed = changed_tables(database)
        pair, change = Pairs(changed).of(view), Derivation(changed).d(view)
        inserted, deleted = (Counter(rows(plan, database)) for plan in (pair.insert, pair.delete))
        found = evaluate(change, database) if change is not None else Counter()
        assert found == added(inserted, negated(deleted)), scenario.seed


def test_barbier_theorem_4_2_by_inversion() -> None:
    """The alternative proof: the pre-update pair of the change that takes the new state back, swapped."""
    for scenario, view in _views(3000, 40):
        database = as_sets(scenario)
        back = inverted(database)
        changed = changed_tables(database)
        post, inverse = Pairs(changed, At.NEW).of(view), Pairs(changed).of(view)
        assert rows(post.delete, database) == rows(inverse.insert, back), scenario.seed
        assert rows(post.insert, database) == rows(inverse.delete, back), scenario.seed


def _deep(depth: int) -> Node:
    """Projections, differences, outer joins and aggregates over each other."""
    view: Node = Aggregate(S, ("k",), (Call(Column("n", "bigint", False), "count"),))
    for i in range(depth):
        other = table("t", "l b", "int", mark=f"#{i}")
        joined = Join(view, other, (equal(view.columns[0].ref, other.columns[0].ref),), "left")
        narrow = project(joined, (view.columns[0].name, other.columns[1].name))
        view = ExceptAll(union(narrow, S), other)
    return view


def test_barbier_section_4_3_1_graphs_are_linear_and_trees_exponential() -> None:
    def size(depth: int, at: At) -> int:
        pair = Pairs(BOTH, at).of(_deep(depth))
        return len(graph(pair.delete, pair.insert))

    for at in (At.OLD, At.NEW):
        assert size(30, at) - size(20, at) == size(20, at) - size(10, at) < 10 * 100
    pair = Pairs(BOTH).of(_deep(30))
    assert _tree_size(pair.delete, {}) > 2**30


def _tree_size(node: Node | None, known: dict[int, int]) -> int:
    if node is None:
        return 0
    if id(node) not in known:
        known[id(node)] = 1 + sum(_tree_size(part, known) for part in node.inputs)
    return known[id(node)]


def test_what_is_not_set_algebra_is_refused_with_a_reason() -> None:
    bag = Project(S, (Named(Column("a", "int"), column(S, "a")),))
    with pytest.raises(NotSetAlgebra, match="EXCEPT ALL counts duplicates"):
        set_form(ExceptAll(bag, Project(T, (Named(Column("b", "int"), column(T, "b")),))))
    with pytest.raises(LookupError, match="Distinct has no pair rule"):
        Pairs(BOTH).of(Distinct(Filter(S, ())))


def test_an_aggregate_sees_the_copies_that_a_projection_makes() -> None:
    """SELECT count(*) FROM (SELECT a FROM s) counts rows, not values."""
    bag = Project(S, (Named(Column("x", "int"), column(S, "a")),))
    view = Aggregate(bag, ("x",), (Call(Column("n", "bigint"), "count"),))
    database = random_state(Random(5), S, T, rows=9)
    assert rows(set_form(view), database) == set(evaluate(view, database))
    assert max(n for _, n in rows(set_form(view), database)) > 1


def _nested_outer_joins(rng: Random, leaves: int, numbers: Iterator[int]) -> Node:
    """A random tree of outer joins over tables whose rows may be nothing but NULLs: such a join is written out as a union."""
    if leaves == 1:
        return table(rng.choice("rst"), "a b", "int", nullable=True, mark=f"#{next(numbers)}")
    left = rng.randint(1, leaves - 1)
    sides = [_nested_outer_joins(rng, size, numbers) for size in (left, leaves - left)]
    one, other = (rng.choice(side.columns).ref for side in sides)
    condition = rng.choice((equal(one, other), equal(one, other, null_safe=True), compare(one, "<", other)))
    return Join(*sides, (condition,), rng.choice(("left", "right", "full")))


def test_nested_outer_joins_give_the_minimal_delta() -> None:
    scans = [table(name, "a b", "int", nullable=True) for name in "rst"]
    for seed in range(120):
        rng = Random(seed)
        plan = _nested_outer_joins(rng, rng.choice((2, 3, 3, 4)), count())
        database = random_state(rng, *scans, rows=3)
        view = set_form(plan)
        assert rows(view, database) == set(evaluate(plan, database)), seed
        assert_minimal_pair(Pairs(changed_tables(database)).of(view), view, database, seed)
