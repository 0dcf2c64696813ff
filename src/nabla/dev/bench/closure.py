"""Transitive closure over a random graph: a few edges come and go, the paths are refreshed, and recomputed from scratch.

The graph has slightly fewer edges than nodes, between nodes drawn at random. That is as hard as it gets with so many edges
while the closure still fits: below one edge a node the paths are few and short, and from one on most nodes reach most
others, which is billions of paths. Just below, there are chains of a hundred edges, cycles, and nodes that reach thousands.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import nabla
from nabla.calculus.recursion.fixpoint import Round, summary
from nabla.errors import NablaError
from nabla.lake.facade import Lake

RULES = """
    {path}(X, Y) :- edge(X, Y).
    {path}(X, Y) :- edge(X, Z), {path}(Z, Y).
"""


@dataclass(frozen=True)
class Graph:
    nodes: int = 105_000
    edges: int = 100_000
    changed: int = 100
    """Edges that come and as many that go, in one refresh."""
    seed: int = 1


@dataclass(frozen=True)
class Turn:
    """One change of the edges: refreshed, and recomputed and written from scratch."""

    refresh_seconds: float
    recompute_seconds: float
    mode: str
    jobs: int
    paths: int
    inserted: int
    deleted: int
    refresh_rounds: tuple[Round, ...]
    recompute_rounds: tuple[Round, ...]

    @property
    def ratio(self) -> float:
        return self.recompute_seconds / self.refresh_seconds

    def __str__(self) -> str:
        return (
            f"{self.paths:,} paths, +{self.inserted:,} -{self.deleted:,}; refresh ({self.mode}, {self.jobs} Spark jobs) "
            f"{self.refresh_seconds:.2f} s, from scratch {self.recompute_seconds:.2f} s: {self.ratio:.1f} times\n"
            f"  refresh       {summary(self.refresh_rounds)}\n"
            f"  from scratch  {summary(self.recompute_rounds)}"
        )


@dataclass(frozen=True)
class Closure:
    graph: Graph
    turns: tuple[Turn, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(turn.ratio for turn in self.turns)

    def __str__(self) -> str:
        of = f"{self.graph.edges:,} edges between {self.graph.nodes:,} nodes, {self.graph.changed} come and go"
        return f"{of}: a refresh is {self.ratio:.1f} times faster than from scratch"

    def to_json(self) -> dict[str, Any]:
        turns = [{**asdict(turn), "ratio": turn.ratio} for turn in self.turns]
        return {"graph": asdict(self.graph), "turns": turns, "ratio": self.ratio}


def transitive_closure(folder: Path, graph: Graph, turns: int, say: Callable[[str], None]) -> Closure:
    rng = Random(graph.seed)
    edges = {(-1, -1)}
    while len(edges) <= graph.edges:
        edges.add(_edge(graph, rng))
    edges.remove((-1, -1))
    lake = nabla.open(folder / "closure")
    lake.create_table("edge", schema="a BIGINT, b BIGINT", data=sorted(edges))
    begun = time.perf_counter()
    lake.create_rules("closure", RULES.format(path="path"))
    say(f"{graph.edges:,} edges, {lake.status()['path'].rows:,} paths, built in {time.perf_counter() - begun:.1f} s")
    found = []
    for number in range(turns):
        _change(lake, edges, graph, rng)
        found.append(_turn(lake, f"again{number}"))
        say(str(found[-1]))
    return Closure(graph, tuple(found))


def _edge(graph: Graph, rng: Random) -> tuple[int, int]:
    return rng.randrange(graph.nodes), rng.randrange(graph.nodes)


def _change(lake: Lake, edges: set[tuple[int, int]], graph: Graph, rng: Random) -> None:
    gone = rng.sample(sorted(edges), graph.changed)
    come: set[tuple[int, int]] = set()
    while len(come) < graph.changed:
        if (edge := _edge(graph, rng)) not in edges:
            come.add(edge)
    with lake.transaction() as tx:
        tx.delete("edge", rows=gone)
        tx.insert("edge", sorted(come))
    edges -= set(gone)
    edges |= come


def _turn(lake: Lake, again: str) -> Turn:
    begun = time.perf_counter()
    report = lake.refresh("path")["path"]
    refreshed = time.perf_counter() - begun
    begun = time.perf_counter()
    scratch = lake.create_rules(again, RULES.format(path=again))[again]
    recomputed = time.perf_counter() - begun
    _compare(lake, again)
    lake.drop_rules(again)
    return Turn(
        refreshed,
        recomputed,
        report.mode,
        report.jobs,
        scratch.inserted,
        report.inserted,
        report.deleted,
        report.rounds,
        scratch.rounds,
    )


def _compare(lake: Lake, again: str) -> None:
    """Assert that two sets are equal: they have the same number of rows, and every row of one is in the other."""
    path, other = lake.read("path"), lake.read(again)
    wrong = path.exceptAll(other).count() + other.exceptAll(path).count()
    if wrong:
        raise NablaError("NABLA_MISMATCH", f"{wrong} rows differ from those computed from scratch", place='view "path"')
