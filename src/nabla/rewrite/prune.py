"""Pruning: columns that nothing needs are neither read nor computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from nabla.algebra.calls import Call
from nabla.algebra.expressions import Expr
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import Aggregate, Filter, Generate, Join, Node, Project, Scan, TopK, Window
from nabla.algebra.traverse import with_inputs

Names = frozenset[str]


def prune(root: Node) -> Node:
    """The same query over narrower scans. A node that is used in several places stays one node."""
    needs: Memo[Node, Names] = Memo()
    _require(root, root.names, needs)
    return _rebuild(root, needs, Memo())


def _require(node: Node, names: Names, needs: Memo[Node, Names]) -> None:
    """Note the columns that are needed of the node and of every node below it."""
    before = needs.get(node)
    if before is not None and names <= before:
        return
    needs[node] = names | (before or Names())
    below = _NEEDS.get(type(node), _everything)(node, needs[node])
    for input in node.inputs:
        _require(input, below & input.names, needs)


def _rebuild(node: Node, needs: Memo[Node, Names], done: Memo[Node, Node]) -> Node:
    if node not in done:
        narrowed = _NARROW.get(type(node), _keep)(node, needs[node])
        inputs = [_rebuild(input, needs, done) for input in node.inputs]
        narrowed = with_inputs(narrowed, inputs)
        done[node] = inputs[0] if _does_nothing(narrowed) else narrowed
    return done[node]


def _does_nothing(node: Node) -> bool:
    if isinstance(node, Project):
        return node.columns == node.input.columns and all(o.expr.column == o.column.name for o in node.outputs)
    return isinstance(node, Window) and not node.calls


# ---------------------------------------------------------------- the columns that a node needs of its inputs


def _columns_read(expressions: Iterable[Expr]) -> Names:
    return Names().union(*(e.columns for e in expressions))


def _everything(node: Node, needed: Names) -> Names:
    return Names().union(*(input.names for input in node.inputs))


def _project_needs(node: Project, needed: Names) -> Names:
    return _columns_read(o.expr for o in node.outputs if o.column.name in needed)


def _aggregate_needs(node: Aggregate, needed: Names) -> Names:
    return Names(node.keys) | _columns_read(e for c in _needed_calls(node, needed) for e in c.inputs)


def _needed_calls(node: Aggregate, needed: Names) -> tuple[Call, ...]:
    """The calls that are needed. One stays in an aggregate without keys: it gives a row for no rows, too, which one without
    keys and calls would not."""
    calls = tuple(c for c in node.calls if c.column.name in needed)
    return calls if calls or node.keys else node.calls[:1]


def _window_needs(node: Window, needed: Names) -> Names:
    calls = [c for c in node.calls if c.column.name in needed]
    return needed | Names(node.partition) | _columns_read(e for c in calls for e in c.inputs)


_NEEDS: dict[type[Node], Callable[..., Names]] = {
    Filter: lambda node, needed: needed | _columns_read(node.conjuncts),
    Project: _project_needs,
    Join: lambda node, needed: needed | _columns_read(node.on),
    Aggregate: _aggregate_needs,
    Window: _window_needs,
    TopK: lambda node, needed: needed | _columns_read(o.expr for o in node.order),
    Generate: lambda node, needed: needed | node.generator.columns,
}


# ---------------------------------------------------------------- a node without the columns that are not needed


def _keep(node: Node, needed: Names) -> Node:
    return node


def _scan(node: Scan, needed: Names) -> Node:
    kept = [(c, f) for c, f in zip(node.output, node.fields, strict=True) if c.name in needed]
    return replace(node, output=tuple(c for c, _ in kept), fields=tuple(f for _, f in kept))


def _project(node: Project, needed: Names) -> Node:
    return replace(node, outputs=tuple(o for o in node.outputs if o.column.name in needed))


def _aggregate(node: Aggregate, needed: Names) -> Node:
    return replace(node, calls=_needed_calls(node, needed))


def _window(node: Window, needed: Names) -> Node:
    return replace(node, calls=tuple(c for c in node.calls if c.column.name in needed))


_NARROW: dict[type[Node], Callable[..., Node]] = {
    Scan: _scan,
    Project: _project,
    Aggregate: _aggregate,
    Window: _window,
}
