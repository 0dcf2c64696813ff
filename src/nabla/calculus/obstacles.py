"""Obstacles: the reasons why a view cannot be maintained from the change alone, each with a code, a place and a remedy.

A silent fallback is a bug: a view that is recomputed has at least one obstacle, and `explain` and every report show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nabla.algebra.clock import functions, reads_clock
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import (
    Aggregate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Node,
    Opaque,
    Project,
    Recursion,
    TopK,
    Window,
)
from nabla.calculus.laws import law_of
from nabla.calculus.methods import GROUPING

_RECOMPUTED = "Every refresh recomputes the view and compares; write this part differently to have it maintained."


@dataclass(frozen=True)
class Obstacle:
    code: str
    what: str
    place: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.code}: {self.what} ({self.place}). {self.remedy}"


def obstacles(plan: Node) -> tuple[Obstacle, ...]:
    """All obstacles of a plan, in the order of its operators; none if every operator has a law."""
    found: dict[str, Obstacle] = {}
    for node in plan.walk():
        for obstacle in _node_obstacles(node):
            found.setdefault(str(obstacle), obstacle)
    for obstacle in _incomparable_columns(plan, "output of the view"):
        found.setdefault(str(obstacle), obstacle)
    return tuple(found.values())


def comparable(type_: str) -> bool:
    """Whether Spark compares values of the type, so that rows with them can be counted and cancelled."""
    return not any(word in type_ for word in ("variant", "geometry", "geography"))


def orderable(type_: str) -> bool:
    """Whether rows can be joined on values of the type. Spark groups rows with maps, but does not join on them."""
    return comparable(type_) and "map<" not in type_


def _incomparable_columns(node: Node, place: str) -> Iterator[Obstacle]:
    for column in node.columns:
        if not comparable(column.type):
            yield Obstacle(
                "NABLA_NOT_COMPARABLE",
                f'column "{column.label}" has type {column.type}, whose values Spark cannot compare',
                place,
                "Turn it into an array of its entries, or leave it out.",
            )


def storable(type_: str) -> bool:
    """Whether a hidden state can have such a column."""
    return comparable(type_) and not any(word in type_ for word in ("interval year", "interval month"))


def _node_obstacles(node: Node) -> Iterator[Obstacle]:
    if isinstance(node, Opaque):
        yield Obstacle(node.code, f"there is no algebra for {node.why}", node.place or "the query", _RECOMPUTED)
        return
    if isinstance(node, TopK) and not node.order:
        yield Obstacle(
            "NABLA_LIMIT_WITHOUT_ORDER",
            f"{_limit_text(node)} without ORDER BY may return any rows",
            "LIMIT" if node.limit is not None else "OFFSET",
            "Add an ORDER BY that decides which rows are kept.",
        )
        return
    for expression, place in expressions(node):
        read = functions(expression)
        if read and not isinstance(node, Filter):
            yield Obstacle(
                "NABLA_TIME_DEPENDENT",
                f"{', '.join(sorted(read))} is part of what is computed, not of which rows are kept",
                place,
                "Compare with it in WHERE or HAVING only; a value that moves by itself changes every row.",
            )
        if not expression.deterministic:
            yield Obstacle(
                "NABLA_NONDETERMINISTIC",
                f"{expression} gives another value each time it is evaluated",
                place,
                "Store the value in a table, or move it out of the view.",
            )
    if isinstance(node, Recursion) and any(map(reads_clock, node.walk())):
        yield Obstacle(
            "NABLA_TIME_DEPENDENT",
            "the recursion reads the clock, and every level may change with it",
            "WITH RECURSIVE",
            "Compare with the clock outside of the recursion.",
        )
    for compared, place in _comparisons(node):
        if " collate " in compared.type.lower():
            yield Obstacle(
                "NABLA_COLLATION",
                f"{compared} is compared by the collation {compared.type.split()[-1]}, and stored without it",
                place,
                "Compare what tells values apart by itself, such as lower(...), or leave the collation to those who read.",
            )
    for column in _lookup_columns(node):
        if not orderable(column.type):
            yield Obstacle(
                "NABLA_NOT_COMPARABLE",
                f'groups of "{column.label}" cannot be looked up: Spark does not compare values of type {column.type}',
                "GROUP BY or PARTITION BY",
                "Group by an array of its entries: map_entries(...).",
            )
    for column in node.columns if isinstance(node, GROUPING) else ():
        if not storable(column.type):
            yield Obstacle(
                "NABLA_HIDDEN_TYPE",
                f'the hidden state would have a column "{column.label}" of type {column.type}, which no Delta table stores',
                type(node).__name__,
                "Turn it into a number or a text before rows are grouped, ordered or cut off.",
            )
    if law_of(node) is None:
        yield Obstacle(
            "NABLA_NO_RULE",
            f"there is no rule for {type(node).__name__}",
            type(node).__name__,
            _RECOMPUTED,
        )


def _limit_text(node: TopK) -> str:
    limit = f"LIMIT {node.limit}" if node.limit is not None else ""
    return f"{limit} {f'OFFSET {node.offset}' if node.offset else ''}".strip()


def _lookup_columns(node: Node) -> tuple[Column, ...]:
    """The columns whose values a rule looks up in the operator's input."""
    match node:
        case Aggregate():
            return tuple(node.column(k) for k in node.keys)
        case Window():
            return tuple(node.column(k) for k in node.partition)
        case Distinct() | ExceptAll() | IntersectAll():
            return node.columns
    return ()


def _comparisons(node: Node) -> Iterator[tuple[Expr, str]]:
    """The expressions whose values are compared, to tell rows apart or to put them in order."""
    yield from ((c.ref, f'column "{c.label}"') for c in node.columns)
    match node:
        case Join():
            yield from ((side, "join condition") for e in node.on for side in e.sides or ())
        case Aggregate():
            yield from expressions(node)
        case Window():
            yield from ((o.expr, f'window "{c.column.label}"') for c in node.calls for o in c.order)
        case TopK():
            yield from expressions(node)


def expressions(node: Node) -> Iterator[tuple[Expr, str]]:
    """The expressions of a node, each with its place in the query."""
    match node:
        case Constant():
            yield from ((e, "VALUES") for row in node.rows for e in row)
        case Filter():
            yield from ((e, "WHERE or HAVING") for e in node.conjuncts)
        case Join():
            yield from ((e, "join condition") for e in node.on)
        case Project():
            yield from ((o.expr, f'column "{o.column.label}"') for o in node.outputs)
        case Generate():
            yield node.generator, "generator"
        case Aggregate():
            yield from ((e, f'aggregate "{c.column.label}"') for c in node.calls for e in c.inputs)
        case Window():
            yield from ((e, f'window "{c.column.label}"') for c in node.calls for e in c.call.inputs)
        case TopK():
            yield from ((o.expr, "ORDER BY") for o in node.order)
