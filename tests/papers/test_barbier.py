"""Barbier's thesis: the count algorithm, aggregation by deltas (Quass), change tables, self-maintenance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from states import assert_minimal_pair, before_and_after, column, random_state, rows, state, table, tables_read

from nabla.algebra.build import equal
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Filter, Join, Node, Project, Scan
from nabla.algebra.notation.formula import Writer
from nabla.algebra.notation.tree import head
from nabla.algebra.reference.interpreter import evaluate
from nabla.dev.testing.expressions import read_text
from nabla.papers import count_algorithm
from nabla.papers.change_routes import leaf_by_leaf, refresh, route
from nabla.papers.change_steps import Conversion, Way, describe
from nabla.papers.change_tables import ChangeTableForm, apply_change, back_to_delta
from nabla.papers.pairs import Pairs
from nabla.papers.sets import project, union

R = table("r", "g h x y", "int")
S = table("s", "k z", "int")
OLD, NEW = Pairs(frozenset()), Pairs(frozenset(), At.NEW)
BOTH = frozenset(("r", "s"))


def total(name: str, node: Node, argument: str) -> Call:
    return Call(Column(name, "bigint", False), "sum", (column(node, argument),))


def number(name: str) -> Call:
    return Call(Column(name, "bigint", False), "count")


# The count algorithm


SPJ = project(
    Filter(Join(R, S, (equal(column(R, "g"), column(S, "k")),)), (read_text("(`x` > 0)", "boolean"),)), ("h",)
)


def test_definition_3_6_the_count_table_refreshes_the_extent() -> None:
    table_ = count_algorithm.count_table(SPJ, Pairs(BOTH))
    before, after = count_algorithm.extent(SPJ, OLD), count_algorithm.extent(SPJ, NEW)
    changed = 0
    for i in range(100):
        database = random_state(Random(i), R, S)
        assert evaluate(count_algorithm.refresh(before, table_), database) == evaluate(after, database), i
        changed += bool(evaluate(table_, database))
    assert changed > 50


def test_remark_3_3_the_extent_holds_the_view() -> None:
    for i in range(30):
        database = random_state(Random(i), R, S)
        assert {row[:-1] for row in rows(count_algorithm.extent(SPJ, NEW), database)} == rows(SPJ, database)


def test_a_row_goes_with_its_last_cause() -> None:
    """Two causes for h = 7; a count table of −1 leaves it, the next takes it away."""
    view = project(R, ("h",))
    table_ = count_algorithm.count_table(view, Pairs(frozenset(("r",))))
    rest = count_algorithm.refresh(count_algorithm.extent(view, OLD), table_)
    one, other = (0, 7, 0, 0), (1, 7, 0, 0)
    database = state((R,), r=([one, other], [one], []))
    assert evaluate(table_, database) == Counter([(7, -1)])
    assert evaluate(rest, database) == Counter([(7, 1)])
    assert evaluate(rest, state((R,), r=([other], [other], []))) == Counter()


H, K = project(R, ("h",)), project(Filter(S, (read_text("(`z` < 2)", "boolean"),)), ("k",))
S_AGAIN = table("s", "k z", "int", mark="#2")
UNIONS: dict[str, Node] = {
    # Unions on top, below a projection, below a join on both sides, and of a view with itself.
    "on top": union(H, K),
    "below a projection": project(union(project(R, ("h", "x")), S), ("h",)),
    "below a join": Join(union(H, K), S_AGAIN, (equal(column(H, "h"), column(S_AGAIN, "k#2")),)),
    "below both sides": Join(
        union(H, K), union(S_AGAIN, project(table("r", "g h x y", "int", mark="#3"), ("g#3", "x#3")))
    ),
    "below a union": union(union(H, K), H),
}


def refreshed(view: Node) -> tuple[Node, Node]:
    """The extent by its count table, and computed anew."""
    before, after = count_algorithm.extent(view, OLD), count_algorithm.extent(view, NEW)
    table_ = count_algorithm.count_table(view, Pairs(BOTH))
    return count_algorithm.refresh(before, table_, count_algorithm.group_of(view)), after


@pytest.mark.parametrize("name", UNIONS)
def test_section_3_3_1_unions_anywhere_add_their_causes(name: str) -> None:
    view = UNIONS[name]
    found, expected = refreshed(view)
    for i in range(25):
        database = random_state(Random(i), R, S)
        assert evaluate(found, database) == evaluate(expected, database), i
        assert {row[:-1] for row in rows(expected, database)} == rows(view, database), i


AGGREGATES: dict[str, Node] = {
    "a relation": Aggregate(R, ("g",), (total("t", R, "x"), number("n"))),
    "a join": Aggregate(
        Join(R, S, (equal(column(R, "g"), column(S, "k")),)), ("h",), (total("t", S, "z"), number("n"))
    ),
    "a projection": Aggregate(project(R, ("h", "x")), ("h",), (total("t", R, "x"),)),
    "a union": Aggregate(union(project(R, ("h", "x")), S), ("h",), (total("t", R, "x"), number("n"))),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_section_3_3_2_one_aggregation_on_top(name: str) -> None:
    """Rows that a projection or a union makes equal count once, however many causes they have."""
    view = AGGREGATES[name]
    found, expected = refreshed(view)
    for i in range(25):
        database = random_state(Random(i), R, S, rows=9)
        assert evaluate(found, database) == evaluate(expected, database), i
        assert {row[:-1] for row in rows(expected, database)} == rows(view, database), i


def test_a_renamed_aggregation_on_top_keeps_its_group() -> None:
    inner = AGGREGATES["a relation"]
    outputs = tuple(Named(c.rename(f"{c.name}#9"), c.ref) for c in reversed(inner.columns))
    view = Project(inner, outputs)
    assert count_algorithm.group_of(view) == ("g#9",)
    found, expected = refreshed(view)
    database = random_state(Random(3), R, S, rows=9)
    assert evaluate(found, database) == evaluate(expected, database) != Counter()


def test_the_count_algorithm_says_what_it_is_not_defined_for() -> None:
    twice = Aggregate(Aggregate(R, ("g", "h"), (number("n"),)), ("g",), (number("m"),))
    lowest = Aggregate(R, ("g",), (Call(Column("m", "int"), "min", (column(R, "x"),)),))
    with pytest.raises(LookupError, match=r"not for Aggregate"):
        count_algorithm.extent(twice, OLD)
    with pytest.raises(LookupError, match="functions that add up"):
        count_algorithm.extent(lowest, OLD)
    with pytest.raises(LookupError, match=r"not for Join \(left\)"):
        count_algorithm.extent(Join(R, S, (), "left"), OLD)
    many: Node = union(H, K)
    for i in range(10):
        other = union(project(table("s", "k z", "int", mark=f"#{i}"), (f"k#{i}",)), project(S, ("k",)))
        many = Join(many, other)
    with pytest.raises(LookupError, match="more than 1,000 relations"):
        count_algorithm.extent(many, OLD)


# Aggregation by deltas


def test_section_4_4_a_neutral_value_changes_nothing() -> None:
    """Inserting 0 into a sum: Δʷ and ∇ʷ hold the same row, which a minimal delta does not."""
    view = Aggregate(R, ("g",), (total("t", R, "x"),))
    database = state((R,), r=([(1, 1, 5, 1)], [], [(1, 2, 0, 1)]))
    pair = Pairs(frozenset(("r",))).of(view)
    assert rows(pair.delete, database) == rows(pair.insert, database) == set()


def test_deleting_the_extreme_recomputes_its_group() -> None:
    """min has combine but no cancel: the next value comes from the rows that are left."""
    view = Aggregate(R, ("g",), (Call(Column("m", "int"), "min", (column(R, "x"),)),))
    database = state((R,), r=([(1, 1, 3, 1), (1, 2, 8, 1), (2, 1, 4, 1)], [(1, 1, 3, 1)], []))
    pair = Pairs(frozenset(("r",))).of(view)
    assert rows(pair.delete, database) == {(1, 3)}
    assert rows(pair.insert, database) == {(1, 8)}
    way = route(view, frozenset(("r",)))
    assert isinstance(way, Conversion)
    assert way.node is not view, "a min is not a conversion point"


# Change tables


def grouped(node: Node, *keys: str, **sums: str) -> Aggregate:
    return Aggregate(node, keys, tuple(total(name, node, argument) for name, argument in sums.items()))


BY_GROUP = Aggregate(R, ("g", "h"), (total("tx", R, "x"), total("ty", R, "y"), number("n")))
BY_KEY = Aggregate(S, ("k",), (total("tz", S, "z"),))
PRODUCT = Join(BY_GROUP, BY_KEY)
R_AGAIN = table("r", "g h x y", "int", mark="#2")
ON_GROUPS = Join(BY_GROUP, BY_KEY, (equal(column(BY_GROUP, "g"), column(BY_KEY, "k")),))


def _filtered(node: Node, sql: str) -> Node:
    return Filter(node, (read_text(sql, "boolean"),))


ROUTES: dict[str, tuple[Node, frozenset[str], int]] = {
    # name: view, tables that change, conversion points
    "aggregate": (BY_GROUP, BOTH, 1),
    "selection on group-by attributes": (_filtered(BY_GROUP, "(`g` > 0)"), BOTH, 1),
    "selection on a sum": (_filtered(BY_GROUP, "(`tx` > 2)"), BOTH, 1),
    "roll-up": (grouped(BY_GROUP, "g", total="tx", count="n"), BOTH, 1),
    "roll-up without functions": (project(BY_GROUP, ("h",)), BOTH, 1),
    "two roll-ups": (grouped(grouped(BY_GROUP, "g", a="tx"), "g", b="a"), BOTH, 1),
    "not a roll-up": (grouped(BY_GROUP, "tx", total="n"), BOTH, 1),
    "product": (PRODUCT, BOTH, 2),
    "join on groups": (ON_GROUPS, BOTH, 2),
    "product with a table": (Join(BY_GROUP, S), BOTH, 2),
    "roll-up of a product, one side changes": (grouped(PRODUCT, "g", a="tx"), frozenset(("r",)), 2),
    "roll-up of a product, both change": (grouped(PRODUCT, "g", a="tx"), BOTH, 1),
    "roll-up of a product without functions": (project(PRODUCT, ("g", "k")), BOTH, 2),
    "a table twice": (Join(BY_GROUP, grouped(R_AGAIN, "h#2", again="x#2")), BOTH, 2),
    "selection of a product": (_filtered(PRODUCT, "((`g` + `k`) > 1)"), BOTH, 2),
    "union above": (union(project(BY_GROUP, ("g", "tx")), BY_KEY), BOTH, 1),
    "aggregate above a union": (grouped(union(project(BY_GROUP, ("g", "tx")), BY_KEY), "g", t="g"), BOTH, 1),
    "no aggregate": (Join(R, S), BOTH, 1),
}


@pytest.mark.parametrize("name", ROUTES)
def test_theorem_5_8_change_tables_give_what_recomputing_gives(name: str) -> None:
    view, changed, _ = ROUTES[name]
    way = route(view, changed)
    before, after = way.extent(OLD), way.extent(NEW)
    refreshing = refresh(way, changed, before)
    for i in range(25):
        database = random_state(Random(i), *(scan for scan in (R, S) if scan.table in changed), rows=8)
        if "s" not in changed:
            fixed = random_state(Random(i), S)
            steady = {key: {**getattr(database, key), "s": fixed.before["s"]} for key in ("before", "after")}
            database = replace(database, fields={**database.fields, "s": S.fields}, **steady)
        found = evaluate(refreshing, database)
        assert found == evaluate(after, database), (name, i)
        assert {row[: len(view.columns)] for row in found} == rows(view, database), (name, i)


@pytest.mark.parametrize("name", ROUTES)
def test_definition_5_1_one_conversion_point_on_every_path(name: str) -> None:
    view, changed, expected = ROUTES[name]
    way = route(view, changed)
    points = {id(point.node) for point in _conversions(way)}
    assert len(points) == expected
    assert all(crossed == 1 for crossed in _crossed(way.node, points)), describe(way)


def _conversions(way: Way) -> list[Conversion]:
    return [way] if isinstance(way, Conversion) else [point for below in way.below for point in _conversions(below)]


def _crossed(node: Node, points: set[int]) -> list[int]:
    """The number of conversion points on each path from here to a leaf."""
    here = id(node) in points
    if not node.inputs:
        return [int(here)]
    return [here + below for part in node.inputs for below in _crossed(part, points)]


def test_definition_5_1_projections_are_added_where_a_path_has_none() -> None:
    view = Join(BY_GROUP, S)
    text = describe(route(view, BOTH)).splitlines()
    assert text[0] == f"{head(Writer(view), view)}   □ passes: × with an operand that does not change"
    assert [line.split("□ ")[1] for line in text if "□ conversion" in line] == [
        "conversion point",
        "conversion point, a projection that was added for it",
    ]


def test_where_a_change_table_cannot_pass_the_aggregate_recomputes_its_groups() -> None:
    text = describe(route(_filtered(BY_GROUP, "(`tx` > 2)"), BOTH)).splitlines()
    assert text[0].endswith("□ conversion point, a projection that was added for it")
    assert text[1].endswith("∇Δ")
    assert text[2].endswith("∇Δ affected groups")


def _changes(view: Node, changed: str) -> tuple[Node, ChangeTableForm]:
    way = route(view, frozenset((changed,)))
    (step,) = leaf_by_leaf(way, frozenset((changed,)))
    change = way.change(step)
    assert change is not None
    return way.extent(OLD), change


def test_definition_5_7_erratum_every_function_has_its_own_index() -> None:
    """As printed, 𝓘ᵢ does not depend on i, and all functions would update from the first. And 𝒟, 𝒰, 𝒩 are ⋉, ⋈, ▷ on the
    group: a group is updated, one loses its last row, one is new."""
    stays, gone, new = (1, 1, 10, 100), (2, 2, 20, 200), (3, 3, 30, 300)
    added = (1, 1, 1, 5)
    database = state((R,), r=([stays, gone], [gone], [new, added]))
    extent, change = _changes(BY_GROUP, "r")
    assert rows(change.rows, database) == {(1, 1, 1, 5, 1, 1), (2, 2, -20, -200, -1, -1), (3, 3, 30, 300, 1, 1)}
    assert rows(apply_change(extent, change), database) == {(1, 1, 11, 105, 2, 2), (3, 3, 30, 300, 1, 1)}


def test_table_5_2_erratum_aggregates_beside_a_change_table_are_kept() -> None:
    """As printed, tz of the operand that does not change would be combined with itself: 4 + 4."""
    database = state((R, S), r=([(1, 1, 10, 0)], [], [(1, 1, 5, 0)]), s=([(9, 4)], [], []))
    extent, change = _changes(PRODUCT, "r")
    as_printed = replace(change, added=change.added | {"tz"})
    assert rows(apply_change(extent, change), database) == {(1, 1, 15, 0, 2, 9, 4, 2)}
    assert rows(apply_change(extent, as_printed), database) == {(1, 1, 15, 0, 2, 9, 8, 2)}


def test_table_5_2_erratum_a_sum_beside_a_change_table_does_not_roll_up() -> None:
    """Deleting a row of S takes the sums of R with it. The change table of the product has them with their old sign:
    summing them, as the printed conditions of π allow, would add them."""
    database = state((R, S), r=([(1, 1, 10, 0)], [], []), s=([(8, 4), (9, 4)], [(9, 4)], []))
    view = grouped(PRODUCT, "g", a="tx")
    _, change = _changes(PRODUCT, "s")
    assert "tx" not in change.added
    assert rows(grouped(change.rows, "g", a="tx"), database) == {(1, 10)}, "and the sum falls from 20 to 10"
    assert before_and_after(view, database) == ({(1, 20)}, {(1, 10)})
    way = route(view, BOTH)
    assert isinstance(way, Conversion)
    assert way.node is view, "so the delta of the product is converted there"


def test_a_change_table_converts_back_to_a_minimal_delta() -> None:
    for view in (BY_GROUP, grouped(BY_GROUP, "g", total="tx"), PRODUCT):
        extent, change = _changes(view, "r")
        pair = back_to_delta(extent, change)
        for i in range(40):
            database = random_state(Random(i), R, S)
            steady = {"before": dict(database.before), "after": {**database.after, "s": database.before["s"]}}
            assert_minimal_pair(pair, view, replace(database, **steady), i)


def test_count_and_sum_of_a_nullable_column() -> None:
    """count(x) counts what is not NULL; a sum of a nullable column has no cancel, since no row may be left to sum."""
    scan = Scan("r", At.NEW, (Column("g", "int", False), Column("x", "int")), ("g", "x"))
    counted = Aggregate(scan, ("g",), (Call(Column("n", "bigint", False), "count", (column(scan, "x"),)),))
    way = route(counted, frozenset(("r",)))
    assert way.node is counted
    refreshing = refresh(way, frozenset(("r",)), way.extent(OLD))
    for i in range(40):
        database = random_state(Random(i), scan)
        assert evaluate(refreshing, database) == evaluate(way.extent(NEW), database), i
    summed = Aggregate(scan, ("g",), (Call(Column("n", "bigint"), "sum", (column(scan, "x"),)),))
    assert route(summed, frozenset(("r",))).node is not summed


# Self-maintenance


UNARY = table("u", "x")


def test_remark_6_2_whether_there_is_a_row_is_not_self_maintainable() -> None:
    """π_∅(R) with R = {a} and R = {a, b}: the same view, the same transaction, another result."""
    view = project(UNARY, ())
    one = state((UNARY,), u=([("a",)], [("a",)], []))
    two = state((UNARY,), u=([("a",), ("b",)], [("a",)], []))
    assert before_and_after(view, one)[0] == before_and_after(view, two)[0] == {()}
    pair = Pairs(frozenset(("u",))).of(view)
    assert rows(pair.delete, one) == {()}
    assert rows(pair.delete, two) == set()
    assert "u" in tables_read(pair), "the base relation has to be read"


def test_remark_6_3_a_base_relation_is_self_maintainable() -> None:
    assert tables_read(Pairs(frozenset(("u",))).of(UNARY)) == {"∇u", "Δu"}


def test_theorem_6_5_with_their_base_relations_views_are_self_maintainable() -> None:
    """The expressions read base relations, their deltas and nothing else: with the base relations as views beside it, the
    transaction and the old values determine every new value."""
    view = union(project(BY_GROUP, ("g", "tx")), project(Join(R, S), ("k", "z")))
    assert tables_read(Pairs(BOTH).of(view)) <= {sign + name for sign in ("", "∇", "Δ") for name in BOTH}
