"""The shapes of plans on which the rest of Nabla relies."""

from __future__ import annotations

import pytest
import tpch
from roundtrip import fails, relowered

from nabla.algebra.nodes import Aggregate, Filter, Join, Opaque, Project, Scan, TopK, UnionAll, Window
from nabla.frontends.spark_sql.define import define

pytestmark = pytest.mark.spark


def plan(spark, lake, sql):
    return define(spark, sql, lake, "v").plan


def only(node, kind):
    (found,) = [n for n in node.walk() if isinstance(n, kind)]
    return found


def test_scans_keep_only_the_columns_that_are_needed(spark, lake):
    node = plan(spark, lake, "SELECT t.b FROM t JOIN u ON t.a = u.a WHERE t.c > 1")
    assert {s.table: s.fields for s in node.walk() if isinstance(s, Scan)} == {"t": ("a", "b", "c"), "u": ("a",)}


def test_counting_rows_needs_no_column(spark, lake):
    assert only(plan(spark, lake, "SELECT count(*) AS n FROM t"), Scan).fields == ()


def test_names_are_numbered_in_the_order_of_appearance(spark, lake):
    assert [c.name for c in plan(spark, lake, "SELECT a, b, a + 1 AS x FROM t").columns] == ["a#1", "b#2", "x#3"]


def test_an_equality_of_a_join_has_its_sides(spark, lake):
    join = only(plan(spark, lake, "SELECT t.b FROM t JOIN u ON t.a + 1 = u.a AND t.b <=> u.e AND t.a < u.a"), Join)
    assert [(c.sides is not None, c.null_safe) for c in join.on] == [(True, False), (True, True), (False, False)]


def test_a_comma_join_is_a_join(spark, lake):
    joins = [n for n in plan(spark, lake, tpch.QUERIES["q5"]).walk() if isinstance(n, Join)]
    assert len(joins) == 5
    assert all(join.on for join in joins)


def test_a_common_factor_of_alternatives_is_a_join_condition(spark, lake):
    join = only(plan(spark, lake, tpch.QUERIES["q19"]), Join)
    assert any(c.sides for c in join.on)


def test_keys_are_columns_and_results_are_computed_above(spark, lake):
    node = plan(spark, lake, "SELECT nvl(a, 0) AS g, sum(c) + 1 AS s FROM t GROUP BY nvl(a, 0)")
    assert isinstance(node, Project)
    assert isinstance(node.input, Aggregate)
    assert [c.function for c in node.input.calls] == ["sum"]
    assert len(node.input.keys) == 1


def test_one_function_has_one_name_and_is_called_once(spark, lake):
    node = only(plan(spark, lake, "SELECT mean(c) AS a, avg(c) AS b, some(d) AS e, count(1) AS n FROM t"), Aggregate)
    assert [(c.function, len(c.arguments)) for c in node.calls] == [("avg", 1), ("bool_or", 1), ("count", 0)]


def test_distinct_is_an_aggregate_without_calls(spark, lake):
    node = plan(spark, lake, "SELECT DISTINCT a, b FROM t")
    assert isinstance(node, Aggregate)
    assert (len(node.keys), node.calls) == (2, ())


def test_window_functions_of_one_partition_share_a_node(spark, lake):
    sql = "SELECT a, rank() OVER (PARTITION BY b ORDER BY c) AS r, sum(a) OVER (PARTITION BY b) AS s FROM t"
    assert len(only(plan(spark, lake, sql), Window).calls) == 2


def test_a_scalar_aggregate_is_joined_without_condition(spark, lake):
    join = only(plan(spark, lake, "SELECT a FROM t WHERE c > (SELECT avg(c) FROM t)"), Join)
    assert (join.kind, join.on) == ("inner", ())


def test_a_correlated_scalar_is_a_left_join(spark, lake):
    assert only(plan(spark, lake, "SELECT a, (SELECT max(e) FROM u WHERE u.a = t.a) AS m FROM t"), Join).kind == "left"


def test_not_in_keeps_its_way_with_nulls(spark, lake):
    join = only(plan(spark, lake, "SELECT * FROM t WHERE a NOT IN (SELECT a FROM u)"), Join)
    assert join.kind == "anti"
    assert "IS NULL" in join.on[0].sql


@pytest.mark.parametrize(
    "sql",
    ["SELECT a, (SELECT e FROM u) AS e FROM t", "SELECT a, (SELECT e FROM u WHERE u.a = t.a) AS e FROM t"],
)
def test_a_subquery_of_two_rows_fails_as_it_does_in_spark(spark, lake, sql):
    definition = define(spark, sql, lake, "v")
    assert not isinstance(definition.plan, Opaque)
    assert fails(spark.sql(sql))
    assert fails(relowered(spark, definition))


def test_limit_and_offset_are_one_node(spark, lake):
    node = only(plan(spark, lake, "SELECT b FROM t ORDER BY c DESC LIMIT 2 OFFSET 1"), TopK)
    assert (node.limit, node.offset, [o.ascending for o in node.order]) == (2, 1, [False])


def test_a_limit_without_an_order_has_none(spark, lake):
    assert only(plan(spark, lake, "SELECT a FROM t LIMIT 2"), TopK).order == ()


def test_grouping_sets_read_their_input_once(spark, lake):
    union = only(plan(spark, lake, "SELECT region, count(*) AS n FROM sales GROUP BY ROLLUP (region)"), UnionAll)
    assert len({id(member.inputs[0]) for member in union.members}) == 1


def test_an_order_without_limit_is_dropped_with_a_note(spark, lake):
    definition = define(spark, "SELECT a\nFROM t\nORDER BY a", lake, "v")
    assert [note.code for note in definition.notes] == ["ORDER_DROPPED"]
    assert str(definition.notes[0]).startswith("ORDER_DROPPED: ORDER BY without LIMIT means nothing in a stored view")
    assert "line 3" in definition.notes[0].place
    assert not any(isinstance(node, TopK) for node in definition.plan.walk())


def test_conjuncts_are_split(spark, lake):
    assert len(only(plan(spark, lake, "SELECT a FROM t WHERE a > 1 AND b = 'x' AND c < 2"), Filter).conjuncts) == 3


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT a FROM t TABLESAMPLE (50 PERCENT)", "Sample"),
        ("SELECT t.a, s.e FROM t, LATERAL (SELECT e FROM u WHERE u.a = t.a LIMIT 1) s", "LIMIT without ORDER BY"),
    ],
)
def test_what_the_algebra_cannot_say_is_kept_as_sql_with_the_reason(spark, lake, sql, what):
    node = plan(spark, lake, sql)
    assert isinstance(node, Opaque)
    assert node.code == "NABLA_UNSUPPORTED_OPERATOR"
    assert what in node.why
    assert "line 1" in node.place
