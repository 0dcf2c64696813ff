"""Rules in a lake, on Spark: recursion and negation kept up to date, asked, verified, read again by others."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparing import bag, feed, refreshed
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

PATHS = """
    path(X, Y) :- edge(X, Y).
    path(X, Y) :- edge(X, Z), path(Z, Y).
"""
GRAPH = f"""
    link(X, Y) :- edge(X, Y).
    link(X, Y) :- edge(X, Z), edge(Z, Y).
    {PATHS}
    isolated(X) :- node(X), not path(X, _).
    reach(X, count(Y)) :- path(X, Y).
"""


@pytest.fixture
def tables(lake: Lake) -> Lake:
    lake.create_table("edge", schema="a BIGINT, b BIGINT", data=[(1, 2), (2, 3), (3, 4)])
    lake.create_table("node", schema="id BIGINT", data=[(i,) for i in range(1, 6)])
    return lake


@pytest.fixture
def graph(tables: Lake) -> Lake:
    tables.create_rules("graph", GRAPH)
    return tables


@pytest.fixture
def paths(tables: Lake) -> Lake:
    tables.create_rules("paths", PATHS)
    return tables


def _closure(edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    paths = set(edges)
    while more := {(a, d) for a, b in edges for c, d in paths if b == c} - paths:
        paths |= more
    return paths


def test_every_predicate_is_a_view(graph: Lake) -> None:
    assert set(bag(graph.read("path"))) == _closure({(1, 2), (2, 3), (3, 4)})
    assert bag(graph.read("isolated")) == {(4,): 1, (5,): 1}
    assert bag(graph.read("reach")) == {(1, 3): 1, (2, 2): 1, (3, 1): 1}
    graph.verify()


def test_the_vicious_path_update(graph: Lake) -> None:
    """Delete 3→4 and insert 4→3 at once: naive propagation of delta rules would invent path(4, 4)."""
    version = graph.status()["path"].version
    with graph.transaction() as tx:
        tx.delete("edge", rows=[(3, 4)])
        tx.insert("edge", [(4, 3)])
    report = refreshed(graph, mode="strict")
    assert {report[v].mode for v in ("link", "path", "isolated", "reach")} == {"incremental"}
    assert feed(graph, "path", version) == ({(4, 3): 1}, {(1, 4): 1, (2, 4): 1, (3, 4): 1})
    assert bag(graph.read("isolated")) == {(3,): 1, (5,): 1}


@pytest.mark.parametrize("only_spark", [False, True])
def test_cycles_open_and_close(paths: Lake, only_spark: bool) -> None:
    paths.context.only_spark = only_spark
    edges = {(1, 2), (2, 3), (3, 4)}
    for gone, come in (((3, 4), (3, 1)), ((1, 2), (5, 2)), ((2, 3), (3, 5)), ((3, 1), (2, 2))):
        before, edges = _closure(edges), edges - {gone} | {come}
        with paths.transaction() as tx:
            tx.delete("edge", rows=[gone])
            tx.insert("edge", [come, come])  # twice: rules are about sets
        report = paths.refresh(mode="strict")["path"]
        after = _closure(edges)
        assert set(bag(paths.read("path"))) == after
        assert (report.inserted, report.deleted) == (len(after - before), len(before - after))
        assert only_spark or report.jobs == 0
        with paths.transaction() as tx:
            tx.delete("edge", rows=[come])
        report = paths.refresh(mode="strict")["path"]
        assert (report.inserted, report.deleted) == (0, 0)
    paths.verify()


def test_a_view_may_read_a_predicate_and_a_rule_a_view(paths: Lake) -> None:
    paths.create_view("far", "SELECT y, COUNT(*) AS n FROM path GROUP BY y")
    paths.create_rules("more", "popular(X) :- far(X, N), N > 1.")
    with paths.transaction() as tx:
        tx.insert("edge", [(5, 3)])
    refreshed(paths, mode="strict")
    assert bag(paths.read("popular")) == {(3,): 1, (4,): 1}


def test_questions_compute_what_they_need(graph: Lake) -> None:
    assert bag(graph.ask("path(2, X)")) == {(2, 3): 1, (2, 4): 1}
    assert bag(graph.ask("path(X, 2)")) == {(1, 2): 1}
    assert bag(graph.ask("isolated(X)")) == {(4,): 1, (5,): 1}
    assert bag(graph.ask("reach(2, N)")) == {(2, 2): 1}
    assert graph.ask("path(9, X)").count() == 0


def test_another_process_refreshes_them(paths: Lake, spark: SparkSession) -> None:
    other = nabla.open(Path(paths.path), spark=spark)
    with other.transaction() as tx:
        tx.insert("edge", [(4, 5)])
    assert refreshed(other, mode="strict")["path"].inserted == 4


def test_recomputing_gives_the_same(paths: Lake) -> None:
    with paths.transaction() as tx:
        tx.insert("edge", [(4, 1)])
    report = refreshed(paths, mode="full")
    assert report["path"].mode == "full"
    assert report["path"].inserted == 10


def test_bad_rules_leave_the_lake_as_it_was(paths: Lake) -> None:
    before = set(paths.status())
    for text, code in (
        ("p(X) :- nothing(X).", "NABLA_RULES_UNKNOWN"),
        ("p(X, Y) :- edge(X, _).", "NABLA_RULES_UNSAFE"),
        ("p(X) :- node(X), not p(X).", "NABLA_RULES_CYCLE"),
        ("edge(X, Y) :- edge(Y, X).", "NABLA_RULES_HEAD"),
        ("p(X, rand()) :- node(X).", "NABLA_RULES_CHANGEABLE"),
        ("p(X) :- node(X), X < year(current_date()).", "NABLA_RULES_CHANGEABLE"),
        ("path(X) :- node(X).", None),
    ):
        with pytest.raises(NablaError) as error:
            paths.create_rules("bad", text)
        assert code is None or error.value.code == code
    assert set(paths.status()) == before


def test_rules_are_dropped_together(paths: Lake) -> None:
    with pytest.raises(NablaError, match="drop_rules"):
        paths.drop_view("path")
    paths.create_view("far", "SELECT y FROM path")
    with pytest.raises(NablaError, match="far"):
        paths.drop_rules("paths")
    paths.drop_view("far")
    paths.drop_rules("paths")
    assert set(paths.status()) == {"edge", "node"}


def test_rules_are_replaced_together_with_what_follows_from_them(graph: Lake) -> None:
    graph.create_view("far", "SELECT x, COUNT(*) AS n FROM path GROUP BY x")
    with pytest.raises(NablaError, match="NABLA_EXISTS"):
        graph.create_rules("graph", GRAPH + "% the same")
    shorter = "path(X, Y) :- edge(X, Y). twice(X) :- path(X, Y), path(Y, _)."
    with pytest.raises(NablaError, match="NABLA_DEFINITION_CHANGED"):
        graph.create_rules("graph", shorter)
    with pytest.raises(NablaError, match="NABLA_CYCLE"):
        graph.create_rules("graph", "path(X, Y) :- edge(X, Y), far(X, _).", rebuild=True)
    with pytest.raises(NablaError, match="far"):
        graph.create_rules("graph", "link(X, Y) :- edge(X, Y).", rebuild=True)
    graph.create_rules("graph", shorter, rebuild=True)
    assert set(graph.status()) == {"edge", "node", "path", "twice", "far"}
    assert graph.status()["far"].stale
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        graph.verify("far")
    report = refreshed(graph, "far")
    assert report["far"].reason == "path was built again"
    assert bag(graph.read("far")) == {(1, 1): 1, (2, 1): 1, (3, 1): 1}


def test_rules_that_cannot_be_built_leave_the_old_ones(paths: Lake) -> None:
    before = paths.status()
    with pytest.raises(NablaError):
        paths.create_rules("paths", "p(X) :- node(X). q(Y) :- p(X), Y = 1 div (X - 3).", rebuild=True)
    assert list(paths.status()) == list(before)
    paths.verify()


def test_what_python_might_compute_differently_recurs_on_spark(lake: Lake) -> None:
    data = [(1.5, 2.25), (2.25, 3.0), (3.0, 4.0), (2.25, 4.0)]
    lake.create_table("edge", schema="a FLOAT, b FLOAT", data=data)
    lake.create_rules("paths", PATHS)
    with lake.transaction() as tx:
        tx.delete("edge", rows=data[1:2])
        tx.insert("edge", [(4.0, 1.5)])
    report = refreshed(lake, mode="strict")["path"]
    assert (report.inserted, report.deleted) == (8, 2)
    assert report.jobs > 0
    assert {r.phase for r in report.rounds} == {"over-delete", "rederive and insert"}


def test_endless_rules_are_given_up(tables: Lake) -> None:
    with pytest.raises(NablaError, match="NABLA_RULES_ROUNDS"):
        tables.create_rules("endless", "n(X) :- node(X). n(Y) :- n(X), Y = X + 1.")
