"""The order of evaluation: predicates that depend on each other form a group, and groups come after what they read.

A group may not read itself through a negation or an aggregate: what is negated must be complete before it is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nabla.datalog.clauses import Clause
from nabla.errors import NablaError


@dataclass(frozen=True)
class Stratum:
    """Predicates that are computed together. `level` counts the negations and aggregates below it."""

    predicates: tuple[str, ...]
    recursive: bool
    level: int = 0


def stratify(clauses: Sequence[Clause]) -> tuple[Stratum, ...]:
    """Strata in an order in which each finds all that it reads; without recursion a stratum is one predicate."""
    graph = _dependencies(clauses)
    level: dict[str, int] = {}
    strata = []
    for component in _components(graph):
        members = set(component)
        _refuse_inner_negation(clauses, members, graph)
        recursive = len(component) > 1 or component[0] in graph[component[0]]
        reads = [(q, complete) for c in clauses if c.predicate in members for q, complete, _ in c.reads()]
        height = max((level[q] + complete for q, complete in reads if q in level), default=0)
        level |= dict.fromkeys(component, height)
        strata.append(Stratum(component, recursive, height))
    return tuple(strata)


def _dependencies(clauses: Sequence[Clause]) -> dict[str, dict[str, None]]:
    graph: dict[str, dict[str, None]] = {clause.predicate: {} for clause in clauses}
    for clause in clauses:
        graph[clause.predicate] |= {q: None for q, _, _ in clause.reads() if q in graph}
    return graph


def _components(graph: Mapping[str, Mapping[str, None]]) -> list[tuple[str, ...]]:
    """Tarjan's strongly connected components, dependencies first, without Python's recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found: list[tuple[str, ...]] = []
    order = {name: i for i, name in enumerate(graph)}
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(graph[target])))
                    break
                if target in on_path:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = path.index(node)
                    component = path[at:]
                    del path[at:]
                    on_path -= set(component)
                    found.append(tuple(sorted(component, key=order.__getitem__)))
    return found


def _refuse_inner_negation(
    clauses: Sequence[Clause], members: set[str], graph: Mapping[str, Mapping[str, None]]
) -> None:
    for clause in clauses:
        if clause.predicate not in members:
            continue
        for read, complete, place in clause.reads():
            if complete and read in members:
                raise _unstratifiable(clause, read, _way(graph, read, clause.predicate), str(place))


def _unstratifiable(clause: Clause, read: str, way: list[str], place: str) -> NablaError:
    by = "aggregates" if clause.grouped else "negates"
    cycle = f"{clause.predicate} → {'γ ' if clause.grouped else 'not '}{' → '.join(way)}"
    return NablaError(
        "NABLA_RULES_CYCLE",
        f"{clause.predicate} {by} {read}, which depends on {clause.predicate}: {cycle}",
        place=place,
        remedy="What is negated or aggregated must be defined without what reads it.",
    )


def _way(graph: Mapping[str, Mapping[str, None]], start: str, end: str) -> list[str]:
    """The shortest way from one predicate to another along what they read."""
    came: dict[str, str | None] = {start: None}
    waiting = deque([start])
    while waiting and end not in came:
        node = waiting.popleft()
        for target in graph[node]:
            if target not in came:
                came[target] = node
                waiting.append(target)
    way: list[str] = []
    at: str | None = end
    while at is not None:
        way.append(at)
        at = came[at]
    return way[::-1]
