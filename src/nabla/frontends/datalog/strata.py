"""The order of evaluation: predicates that depend on each other form a group, and groups come after what they read.

A group may not read itself through a negation or an aggregate, because a negated predicate must be complete before it is
read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nabla.errors import NablaError
from nabla.frontends.datalog.clauses import Clause


@dataclass(frozen=True)
class Stratum:
    """Predicates that are computed together. `level` counts the negations and aggregates below it."""

    predicates: tuple[str, ...]
    recursive: bool
    level: int = 0


def stratify(clauses: Sequence[Clause], shown: Mapping[str, str] | None = None) -> tuple[Stratum, ...]:
    """The strata, each after those that it reads; without recursion a stratum is one predicate. `shown` has the texts by
    which messages name hidden predicates."""
    graph = _dependencies(clauses)
    rules: dict[str, list[Clause]] = {}
    for clause in clauses:
        rules.setdefault(clause.predicate, []).append(clause)
    level: dict[str, int] = {}
    strata = []
    for component in _components(graph):
        members = set(component)
        own = [clause for predicate in component for clause in rules[predicate]]
        _refuse_inner_negation(own, members, graph, shown or {})
        recursive = len(component) > 1 or component[0] in graph[component[0]]
        reads = [(q, complete) for c in own for q, complete, _ in c.reads()]
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
    clauses: Sequence[Clause], members: set[str], graph: Mapping[str, Mapping[str, None]], shown: Mapping[str, str]
) -> None:
    for clause in clauses:
        for read, complete, place in clause.reads():
            if complete and read in members:
                way = [shown.get(name, name) for name in _way(graph, read, clause.predicate)]
                raise _unstratifiable(clause, way, str(place))


def _unstratifiable(clause: Clause, way: list[str], place: str) -> NablaError:
    """`way` leads from the negated or aggregated predicate back to the one whose rules negate or aggregate it."""
    own, read = way[-1], way[0]
    by, sign = ("aggregates", "γ") if clause.grouped else ("negates", "not")
    return NablaError(
        "NABLA_RULES_CYCLE",
        f"{own} {by} {read}, which depends on {own}: {own} → {sign} {' → '.join(way)}",
        place=place,
        remedy="What is negated or aggregated must be defined without what reads it.",
    )


def _way(graph: Mapping[str, Mapping[str, None]], start: str, end: str) -> list[str]:
    """The shortest way from one predicate to another along the predicates that they read."""
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
