"""WITH RECURSIVE as a view: bags, kept level by level, judged by Spark's own recursion."""

from __future__ import annotations

import pytest
from comparing import bag, refreshed

from nabla.errors import NablaError, NotIncremental
from nabla.lake.constraints.violations import Violated
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

PATHS = (
    "WITH RECURSIVE p(x, y) AS (SELECT a, b FROM edge UNION ALL SELECT p.x, e.b FROM p JOIN edge e ON p.y = e.a) "
    "SELECT * FROM p"
)
TREE = """
    WITH RECURSIVE t MAX RECURSION LEVEL 20 AS (
        SELECT id, name, CAST(name AS STRING) AS trail FROM part WHERE parent IS NULL
        UNION ALL
        SELECT c.id, c.name, concat_ws('/', t.trail, c.name) FROM t JOIN part c ON c.parent = t.id
    )
    SELECT trail, length(trail) AS n FROM t
"""
DIAMOND = [(1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]


@pytest.fixture
def graph(lake: Lake) -> Lake:
    lake.create_table("edge", schema="a BIGINT, b BIGINT", data=DIAMOND)
    return lake


def _change(lake: Lake, come: list[tuple[int, int]], gone: list[tuple[int, int]]) -> None:
    with lake.transaction() as tx:
        if gone:
            tx.delete("edge", rows=gone)
        if come:
            tx.insert("edge", come)


def test_a_row_is_there_as_often_as_it_is_derived(graph: Lake) -> None:
    graph.create_view("path", PATHS)
    assert bag(graph.read("path"))[(1, 5)] == 2
    for come, gone in (
        ([(5, 6), (0, 1)], []),
        ([], [(1, 2)]),
        ([(1, 2), (1, 2), (2, 5)], [(4, 5)]),
        ([(4, 5)], [(3, 4), (5, 6)]),
        ([(7, 8)], [(1, 2)]),
    ):
        _change(graph, come, gone)
        report = refreshed(graph, mode="strict")["path"]
        assert (report.mode, report.jobs) == ("incremental", 0)
        assert report.rounds


def test_views_around_a_recursion(graph: Lake) -> None:
    graph.create_table("node", schema="id BIGINT, label STRING", data=[(i, f"n{i}") for i in range(8)])
    recursion = PATHS.removesuffix("SELECT * FROM p")
    graph.create_view("reach", recursion + "SELECT x, COUNT(*) AS n, MAX(y) AS far FROM p GROUP BY x")
    graph.create_view("labels", recursion + "SELECT n.label, p.y FROM p JOIN node n ON p.x = n.id WHERE p.y > 3")
    graph.create_view("both", recursion + "SELECT q.x, p.y FROM p JOIN p q ON p.x = q.y")
    for come, gone in (([(5, 6)], [(2, 4)]), ([(2, 4), (0, 1)], []), ([], [(1, 3), (4, 5)])):
        _change(graph, come, gone)
        with graph.transaction() as tx:
            tx.update("node", set={"label": "concat(label, '!')"}, where="id = 1")
        report = refreshed(graph, mode="strict")
        assert {view.mode for view in report.values()} == {"incremental"}


def test_what_only_spark_can_compute_is_kept_level_by_level(lake: Lake) -> None:
    rows = [(1, None, "car"), (2, 1, "engine"), (3, 1, "wheel"), (4, 2, "valve"), (5, 3, "bolt")]
    lake.create_table("part", schema="id INT, parent INT, name STRING", data=rows)
    lake.create_view("tree", TREE)
    assert ("car/engine/valve", 16) in bag(lake.read("tree"))
    with lake.transaction() as tx:
        tx.update("part", set={"parent": "3"}, where="id = 4")
        tx.insert("part", [(6, 4, "spring"), (7, None, "boat")])
        tx.delete("part", where="id = 5")
    report = refreshed(lake, mode="strict")["tree"]
    assert report.jobs > 0
    with lake.transaction() as tx:
        tx.update("part", set={"name": "'motor'"}, where="id = 3")
    assert refreshed(lake, mode="strict")["tree"].inserted == 3


def test_the_step_may_exclude_by_a_table_that_changes(graph: Lake) -> None:
    graph.create_table("blocked", schema="id BIGINT", data=[(3,)])
    graph.create_view(
        "free",
        "WITH RECURSIVE p(x, y) AS (SELECT a, b FROM edge WHERE a = 1 UNION ALL SELECT p.x, e.b FROM p JOIN edge e "
        "ON p.y = e.a WHERE e.b NOT IN (SELECT id FROM blocked) AND EXISTS (SELECT 1 FROM edge z WHERE z.b = e.b)) "
        "SELECT y FROM p",
    )
    for come, gone in (([(4,)], [(3,)]), ([(None,)], [(4,)]), ([], [(None,)])):
        with graph.transaction() as tx:
            tx.insert("blocked", come) if come else None
            tx.delete("blocked", rows=gone)
        refreshed(graph, mode="strict")


def test_a_cycle_is_refused_as_spark_refuses_it(graph: Lake) -> None:
    graph.create_view("path", PATHS)
    before = bag(graph.read("path"))
    _change(graph, [(5, 1)], [])
    for mode in ("incremental", "full"):
        with pytest.raises(NablaError, match="RECURSION"):
            graph.refresh(mode=mode)  # type: ignore[arg-type]
    assert bag(graph.read("path")) == before
    _change(graph, [(5, 6)], [(5, 1)])
    refreshed(graph, mode="strict")


def test_grouping_inside_of_a_recursion_is_recomputed(graph: Lake) -> None:
    sql = PATHS.replace("UNION ALL SELECT p.x", "UNION ALL SELECT DISTINCT p.x")
    graph.create_view("path", sql)
    _change(graph, [(5, 6)], [(1, 2)])
    with pytest.raises(NotIncremental, match="every level"):
        graph.refresh(mode="strict")
    report = refreshed(graph)["path"]
    assert report.mode == "full"
    assert report.reason.startswith("NABLA_UNSUPPORTED_OPERATOR")


def test_it_is_explained(graph: Lake) -> None:
    graph.create_view("path", PATHS)
    _change(graph, [(5, 6)], [])
    said = graph.explain("path", mode="incremental")
    assert "levels" in str(said)
    assert "recursion" in said.tree
    assert said.to_html()
    assert "d level·1" in said.algebra()
    assert "change of level·1" in said.sql()


def test_columns_that_the_recursion_does_not_read_may_be_nested(lake: Lake) -> None:
    lake.create_table("t", schema="id INT, m MAP<STRING, INT>, a ARRAY<INT>", data=[(1, {"a": 1}, [1]), (1, None, [2])])
    lake.create_view(
        "r", "WITH RECURSIVE r(n) AS (SELECT id FROM t UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n FROM r"
    )
    with lake.transaction() as tx:
        tx.insert("t", [(2, {"b": 2}, []), (2, None, None)])
        tx.delete("t", where="get(a, 0) = 2")
    report = refreshed(lake, mode="strict")["r"]
    assert (report.mode, report.inserted, report.deleted) == ("incremental", 2 * 3 - 3, 1)


CONSTRAINED = PATHS.removesuffix("SELECT * FROM p")


def test_a_constraint_over_a_cycle_is_violated_by_rows_and_not_by_a_limit(graph: Lake) -> None:
    graph.create_constraint("acyclic", CONSTRAINED + "SELECT x FROM p WHERE x = y")
    with pytest.raises(Violated) as refused:
        _change(graph, [(5, 3)], [])
    assert sorted(refused.value.violations[0].listed) == [(3,), (4,), (5,)]
    assert graph.read("edge").count() == len(DIAMOND)
    _change(graph, [(5, 6)], [(1, 2)])
    with pytest.raises(Violated) as refused:
        _change(graph, [(7, 7)], [])
    assert refused.value.violations[0].listed == [(7,)]
    graph.verify()
    assert not graph.check().violated


def test_a_constraint_bears_cycles_that_do_not_violate_it(graph: Lake) -> None:
    graph.create_constraint("apart", CONSTRAINED + "SELECT * FROM p WHERE x = 5 AND y = 9")
    graph.create_constraint("ends", CONSTRAINED + "SELECT x FROM p GROUP BY x HAVING MAX(y) > 8")
    for come, gone in (
        ([(5, 1)], []),
        ([(9, 1), (9, 9)], [(1, 2)]),
        ([(1, 2), (6, 7)], [(5, 1)]),
        ([(5, 5)], [(4, 5)]),
    ):
        if (9, 9) in come:
            with pytest.raises(Violated, match="ends"):
                _change(graph, come, gone)
            graph.drop_constraint("ends")
        _change(graph, come, gone)
    graph.verify()
    with pytest.raises(Violated) as refused:
        _change(graph, [(5, 1), (7, 9), (2, 6)], [])
    assert refused.value.violations[0].listed == [(5, 9)]


def test_violations_of_a_cycle_that_are_only_warned_of_come_and_go(graph: Lake) -> None:
    graph.create_constraint("acyclic", CONSTRAINED + "SELECT x FROM p WHERE x = y", on_violation="warn")
    for come, gone, left in (
        ([(5, 3)], [], {3, 4, 5}),
        ([(5, 1)], [(5, 3)], {1, 2, 3, 4, 5}),
        ([(4, 4)], [(5, 1)], {4}),
        ([], [(4, 4)], set()),
    ):
        _change(graph, come, gone)
        assert {row.x for row in graph.read("acyclic").collect()} == left
        graph.verify("acyclic")


def test_a_chain_longer_than_sparks_limit_is_no_violation(graph: Lake) -> None:
    graph.create_constraint("acyclic", CONSTRAINED + "SELECT x FROM p WHERE x = y AND x < 3")
    _change(graph, [(n, n + 1) for n in range(5, 160)], [])
    with pytest.raises(Violated) as refused:
        _change(graph, [(160, 2)], [])
    assert refused.value.violations[0].listed == [(2,)]


def test_a_recursion_without_an_end_is_refused_with_rows_of_its_last_level(graph: Lake) -> None:
    graph.create_constraint(
        "shallow",
        "WITH RECURSIVE p(x, y, n) AS (SELECT a, b, 1 FROM edge UNION ALL "
        "SELECT p.x, e.b, p.n + 1 FROM p JOIN edge e ON p.y = e.a) SELECT x FROM p WHERE n > 200",
    )
    graph.create_constraint("few", CONSTRAINED + "SELECT x, COUNT(*) AS n FROM p GROUP BY x HAVING COUNT(*) > 1000")
    with pytest.raises(NablaError, match=r"begins with \(") as refused:
        _change(graph, [(5, 4)], [])
    assert refused.value.code == "NABLA_RECURSION_LIMIT"
    assert graph.read("edge").count() == len(DIAMOND)
    _change(graph, [(5, 6)], [])
    graph.verify()


def test_a_constraint_over_a_cycle_is_checked_by_spark_as_by_the_driver(graph: Lake) -> None:
    graph.create_table("part", schema="a STRING, b STRING", data=[("u", "v"), ("v", "w")])
    graph.create_constraint(
        "acyclic",
        "WITH RECURSIVE p(x, y) AS (SELECT a, b FROM part UNION ALL SELECT p.x, e.b FROM p JOIN part e "
        "ON soundex(p.y) = soundex(e.a)) SELECT x FROM p WHERE soundex(x) = soundex(y)",
    )
    with pytest.raises(Violated) as refused, graph.transaction() as tx:
        tx.insert("part", [("w", "u")])
    assert sorted(refused.value.violations[0].listed) == [("u",), ("v",), ("w",)]
    with graph.transaction() as tx:
        tx.insert("part", [("w", "z")])
    graph.verify()
