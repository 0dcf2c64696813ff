"""Restriction of a state to the keys of a change: S ⋉ K, pushed down to the scans.

Rules never compute an old or new state whole: they restrict it to the keys K that occur in the change. The restriction is a
semijoin. This module moves it down through every operator that commutes with it, because Spark can start from the few keys
only if the semijoin is on a scan, not if it is on top of a join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nabla.algebra.build import equal
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import (
    Aggregate,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Node,
    Project,
    UnionAll,
    Window,
)


@dataclass(frozen=True)
class Match:
    """The test that `value` of a row equals the key column; two NULLs are equal if it is `null_safe`."""

    value: Expr
    key: Column
    null_safe: bool = True


Found = dict[tuple[int, tuple[Match, ...]], tuple[Node, Node]]
"""Nodes that were restricted to some keys, with the result: a node that is shared stays shared. They are kept with the keys."""


def restrict(node: Node, keys: Node, matches: Sequence[Match]) -> Node:
    """The rows of node that match some row of keys in all matches; without matches, all rows."""
    if not matches:
        return node
    found: Found = keys.__dict__.setdefault("restricted", {})
    known = found.get((id(node), tuple(matches)))
    if known is None:
        made = _PASSES.get(type(node), _stop)(node, keys, tuple(matches))
        known = found[id(node), tuple(matches)] = node, made
    return known[1]


def on_columns(node: Node, names: Sequence[str], keys: Node) -> tuple[Match, ...]:
    """Matches columns of node with the columns of keys by position."""
    return tuple(Match(node.column(n).ref, k) for n, k in zip(names, keys.columns, strict=True))


def _stop(node: Node, keys: Node, matches: tuple[Match, ...]) -> Node:
    return Join(node, keys, tuple(equal(m.value, m.key.ref, null_safe=m.null_safe) for m in matches), "semi")


def _substitute(matches: tuple[Match, ...], definitions: dict[str, Expr]) -> tuple[Match, ...]:
    return tuple(replace(m, value=m.value.substitute(definitions)) for m in matches)


def _project(node: Project, keys: Node, matches: tuple[Match, ...]) -> Node:
    below = _substitute(matches, node.definitions)
    if not all(m.value.deterministic for m in below):
        return _stop(node, keys, matches)
    return node.with_inputs(restrict(node.input, keys, below))


def _filter(node: Filter, keys: Node, matches: tuple[Match, ...]) -> Node:
    return node.with_inputs(restrict(node.input, keys, matches))


def _union(node: UnionAll, keys: Node, matches: tuple[Match, ...]) -> Node:
    def member(part: Node) -> Node:
        names = {o.name: c.ref for o, c in zip(node.output, part.columns, strict=True)}
        return restrict(part, keys, _substitute(matches, names))

    return node.with_inputs(*(member(part) for part in node.members))


def _distinct(node: Distinct, keys: Node, matches: tuple[Match, ...]) -> Node:
    return node.with_inputs(restrict(node.input, keys, matches))


def _within(matches: tuple[Match, ...], names: frozenset[str]) -> tuple[Match, ...]:
    return tuple(m for m in matches if m.value.columns <= names)


def _grouping(node: Aggregate | Window, keys: Node, matches: tuple[Match, ...]) -> Node:
    """Matches on keys of the groups move below the grouping, because they keep or drop whole groups; others stay above."""
    group = frozenset(node.keys if isinstance(node, Aggregate) else node.partition)
    below = _within(matches, group)
    restricted = node.with_inputs(restrict(node.inputs[0], keys, below))
    return restricted if below == matches else _stop(restricted, keys, matches)


def _generate(node: Generate, keys: Node, matches: tuple[Match, ...]) -> Node:
    below = _within(matches, node.input.names)
    restricted = node.with_inputs(restrict(node.input, keys, below))
    return restricted if below == matches else _stop(restricted, keys, matches)


def _join(node: Join, keys: Node, matches: tuple[Match, ...]) -> Node:
    """Each side is restricted by the matches it can test; a side that an outer join pads must stay whole."""
    matches_left = _within(matches, node.left.names)
    matches_right = _within(matches, node.right.names) if node.kind not in ("semi", "anti") else ()
    left = restrict(node.left, keys, matches_left) if node.kind not in ("right", "full") else node.left
    right = restrict(node.right, keys, matches_right) if node.kind in ("inner", "right") else node.right
    restricted = node.with_inputs(left, right)
    tested_left = matches_left == matches and node.kind not in ("right", "full")
    tested_right = matches_right == matches and node.kind in ("inner", "right")
    return restricted if tested_left or tested_right else _stop(restricted, keys, matches)


def _bag_operator(node: ExceptAll | IntersectAll, keys: Node, matches: tuple[Match, ...]) -> Node:
    names = {le.name: ri.ref for le, ri in zip(node.left.columns, node.right.columns, strict=True)}
    return node.with_inputs(restrict(node.left, keys, matches), restrict(node.right, keys, _substitute(matches, names)))


_PASSES: dict[type[Node], Callable[..., Node]] = {
    Project: _project,
    Filter: _filter,
    UnionAll: _union,
    Distinct: _distinct,
    Aggregate: _grouping,
    Window: _grouping,
    Generate: _generate,
    Join: _join,
    ExceptAll: _bag_operator,
    IntersectAll: _bag_operator,
}
