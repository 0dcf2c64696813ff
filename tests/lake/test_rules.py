"""Rules in a lake, on Spark: recursion and negation kept up to date, asked, verified, read again by others."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparing import bag, feed, refreshed
from pyspark.sql import SparkSession

import nabla
from nabla.errors import NablaError
from nabla.lake import Lake

pytestmark = pytest.mark.spark

GRAPH = """
    link(X, Y) :- edge(X, Y).
    link(X, Y) :- edge(X, Z), edge(Z, Y).
    path(X, Y) :- edge(X, Y).
    path(X, Y) :- edge(X, Z), path(Z, Y).
    isolated(X) :- node(X), not path(X, _).
    reach(X, count(Y)) :- path(X, Y).
"""


@pytest.fixture
def graph(lake: Lake) -> Lake:
    lake.create_table("edge", schema="a BIGINT, b BIGINT", data=[(1, 2), (2, 3), (3, 4)])
    lake.create_table("node", schema="id BIGINT", data=[(i,) for i in range(1, 6)])
    lake.create_rules("graph", GRAPH)
    return lake


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


def test_cycles_open_and_close(graph: Lake) -> None:
    edges = {(1, 2), (2, 3), (3, 4)}
    for gone, come in (((3, 4), (3, 1)), ((1, 2), (5, 2)), ((2, 3), (3, 5)), ((3, 1), (2, 2))):
        edges = edges - {gone} | {come}
        with graph.transaction() as tx:
            tx.delete("edge", rows=[gone])
            tx.insert("edge", [come, come])  # twice: rules are about sets
        refreshed(graph, mode="strict")
        assert set(bag(graph.read("path"))) == _closure(edges)
        with graph.transaction() as tx:
            tx.delete("edge", rows=[come])
        report = refreshed(graph, mode="strict")
        assert (report["path"].inserted, report["path"].deleted) == (0, 0)


def test_a_view_may_read_a_predicate_and_a_rule_a_view(graph: Lake) -> None:
    graph.create_view("far", "SELECT y, COUNT(*) AS n FROM path GROUP BY y")
    graph.create_rules("more", "popular(X) :- far(X, N), N > 1.")
    with graph.transaction() as tx:
        tx.insert("edge", [(5, 3)])
    refreshed(graph, mode="strict")
    assert bag(graph.read("popular")) == {(3,): 1, (4,): 1}


def test_questions_compute_what_they_need(graph: Lake) -> None:
    assert bag(graph.ask("path(2, X)")) == {(2, 3): 1, (2, 4): 1}
    assert bag(graph.ask("path(X, 2)")) == {(1, 2): 1}
    assert bag(graph.ask("isolated(X)")) == {(4,): 1, (5,): 1}
    assert graph.ask("path(9, X)").count() == 0


def test_another_process_refreshes_them(graph: Lake, spark: SparkSession) -> None:
    other = nabla.open(Path(graph.path), spark=spark)
    with other.transaction() as tx:
        tx.insert("edge", [(4, 5)])
    assert refreshed(other, mode="strict")["path"].inserted == 4


def test_recomputing_gives_the_same(graph: Lake) -> None:
    with graph.transaction() as tx:
        tx.insert("edge", [(4, 1)])
    report = refreshed(graph, mode="full")
    assert report["path"].mode == "full"
    assert report["path"].inserted == 10


def test_bad_rules_leave_the_lake_as_it_was(graph: Lake) -> None:
    before = set(graph.status())
    for text, code in (
        ("p(X) :- nothing(X).", "NABLA_RULES_UNKNOWN"),
        ("p(X, Y) :- edge(X, _).", "NABLA_RULES_UNSAFE"),
        ("p(X) :- node(X), not p(X).", "NABLA_RULES_CYCLE"),
        ("edge(X, Y) :- edge(Y, X).", "NABLA_RULES_HEAD"),
        ("path(X) :- node(X).", None),
    ):
        with pytest.raises(NablaError) as error:
            graph.create_rules("bad", text)
        assert code is None or error.value.code == code
    assert set(graph.status()) == before


def test_rules_are_dropped_together(graph: Lake) -> None:
    with pytest.raises(NablaError, match="drop_rules"):
        graph.drop_view("path")
    graph.create_view("far", "SELECT y FROM path")
    with pytest.raises(NablaError, match="far"):
        graph.drop_rules("graph")
    graph.drop_view("far")
    graph.drop_rules("graph")
    assert set(graph.status()) == {"edge", "node"}


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


def test_rules_that_cannot_be_built_leave_the_old_ones(graph: Lake) -> None:
    before = graph.status()
    with pytest.raises(NablaError):
        graph.create_rules("graph", "p(X) :- node(X). q(Y) :- p(X), Y = 1 div (X - 3).", rebuild=True)
    assert list(graph.status()) == list(before)
    graph.verify()
