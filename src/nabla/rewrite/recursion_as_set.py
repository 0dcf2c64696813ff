"""WITH RECURSIVE … UNION ALL as the recursion of sets, where only the set of its rows matters.

On a cyclic graph UNION ALL has no result: every level derives rows again that are there already. A constraint asks whether a
query has rows at all, so that copies do not matter unless an operator counts them. Its recursion then carries every row on
once (`Recursion.once`), which gives the same set and comes to an end. That takes a step that is *linear*,
Q(A ∪ B) = Q(A) ∪ Q(B): the rows of a level can then be left out where an earlier level had them.
"""

from __future__ import annotations

from dataclasses import replace

from nabla.algebra.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Recursion,
    Scan,
    UnionAll,
)

_LINEAR_SIDES = {"inner": (0, 1), "left": (0,), "semi": (0,), "anti": (0,), "right": (1,)}
"""The sides of a join in which it is linear."""


def recursions_as_sets(node: Node) -> Node:
    """A query with the same set of rows, whose recursions carry every row on once where that is known to be right."""
    match node:
        case Recursion() if _is_linear(node.step, node.table):
            # Values that are only passed on are finitely many. Others may go on for ever: they keep the limit.
            ends = _carried(node.step, node.table) is not None
            levels = -1 if ends else node.most_levels
            return Distinct(replace(node, start=recursions_as_sets(node.start), most_levels=levels, once=True))
        case Filter() | Project() | Distinct() | Join() | UnionAll() | Generate():
            return _with_inputs(node)
        case Aggregate() if all(call.distinct or call.function in ("min", "max") for call in node.calls):
            return _with_inputs(node)
    return node


def _with_inputs(node: Node) -> Node:
    made = [recursions_as_sets(part) for part in node.inputs]
    changed = any(new is not old for new, old in zip(made, node.inputs, strict=True))
    return node.with_inputs(*made) if changed else node


def _reading(node: Node, level: str) -> list[int]:
    """The inputs that read the level before."""
    return [i for i, part in enumerate(node.inputs) if any(scan.table == level for scan in part.scans)]


def _is_linear(node: Node, level: str) -> bool:
    """Whether a part of the step that reads the level before gives for two bags of rows what it gives for each of them."""
    own = _reading(node, level)
    match node:
        case Scan():
            return True
        case Filter() | Project() | Generate():
            return _is_linear(node.input, level)
        case UnionAll():
            return all(_is_linear(node.members[i], level) for i in own)
        case Join(kind=kind):
            return len(own) == 1 and own[0] in _LINEAR_SIDES.get(kind, ()) and _is_linear(node.inputs[own[0]], level)
    return False


def _carried(node: Node, level: str) -> frozenset[str] | None:
    """The columns of a linear step with values of the level before; None if other values are computed from these."""
    if isinstance(node, Scan):
        return node.names if node.table == level else frozenset()
    below: list[frozenset[str]] = []
    for part in node.inputs:
        found = _carried(part, level)
        if found is None:
            return None
        below.append(found)
    values = frozenset[str]().union(*below)
    match node:
        case Project():
            read = [o for o in node.outputs if o.expr.columns & values]
            return None if any(o.expr.column is None for o in read) else frozenset(o.column.name for o in read)
        case Generate() if node.generator.columns & values:
            return None
        case UnionAll():
            places = {i for m in node.members for i, c in enumerate(m.columns) if c.name in values}
            return frozenset(node.columns[i].name for i in places)
    return values & node.names
