"""Edits that make a plan smaller or simpler, for the shrinker.

Columns that a smaller plan no longer has become NULL, so that the operators above keep their meaning as far as possible. The
shrinker finds out whether an edit still shows the fault; an edit that makes no sense is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from nabla.algebra.build import TRUE, null
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr, Lambda, Literal, Variable
from nabla.algebra.nodes import (
    Aggregate,
    Constant,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    MalformedPlan,
    Node,
    Project,
    Scan,
    TopK,
    UnionAll,
    Window,
)

Item = TypeVar("Item")
Edit = Callable[[], Node]
"""Builds a plan, or refuses to."""


def smaller_plans(plan: Node) -> Iterator[Node]:
    """The parts of the plan, and then the plan with one place changed."""
    yield from (part for part in plan.walk() if part is not plan)
    yield from _edit(plan)


def _edit(node: Node) -> Iterator[Node]:
    yield from _sound(_replacements(node))
    if type(node) in _EDITS:
        yield from _sound(_EDITS[type(node)](node))
    for place, part in enumerate(node.inputs):
        before, after = node.inputs[:place], node.inputs[place + 1 :]
        yield from _sound(partial(node.with_inputs, *before, edited, *after) for edited in _edit(part))


def _sound(edits: Iterable[Edit]) -> Iterator[Node]:
    for edit in edits:
        with suppress(MalformedPlan):
            yield edit()


def _replacements(node: Node) -> Iterator[Edit]:
    """The nodes below in place of the node, with the node's columns."""
    return (partial(_fitted, part, node) for part in node.walk() if part is not node)


def _fitted(part: Node, node: Node) -> Node:
    if part.columns == node.columns:
        return part
    by_place = isinstance(node, UnionAll) and any(part is member for member in node.members)
    outputs = []
    for place, column in enumerate(node.columns):
        if by_place:
            outputs.append(Named(column, part.columns[place].ref))
        elif column.name in part.names:
            outputs.append(Named(column, part.column(column.name).ref))
        else:
            outputs.append(Named(column, null(column.type)))
    return Project(part, tuple(outputs))


def _without(items: tuple[Item, ...], place: int) -> tuple[Item, ...]:
    return items[:place] + items[place + 1 :]


def _places(output: tuple[Column, ...]) -> range:
    """The places of columns that can be dropped; one must stay."""
    return range(len(output) if len(output) > 1 else 0)


def _shorter(items: tuple[Any, ...], at_least: int = 0) -> Iterator[tuple[Any, ...]]:
    if len(items) > at_least:
        yield from (_without(items, place) for place in range(len(items)))


def _simpler_items(items: tuple[Any, ...], simpler: Callable[[Any], Iterator[Any]]) -> Iterator[tuple[Any, ...]]:
    for place, item in enumerate(items):
        for other in simpler(item):
            yield (*items[:place], other, *items[place + 1 :])


def _filter(node: Filter) -> Iterator[Edit]:
    for conjuncts in _shorter(node.conjuncts, at_least=1):
        yield partial(replace, node, conjuncts=conjuncts)
    for conjuncts in _simpler_items(node.conjuncts, lambda e: _simpler(e, node.input.columns)):
        yield partial(replace, node, conjuncts=conjuncts)


def _project(node: Project) -> Iterator[Edit]:
    for outputs in _shorter(node.outputs, at_least=1):
        yield partial(Project, node.input, outputs)

    def simpler(output: Named) -> Iterator[Named]:
        return (Named(output.column, expr) for expr in _simpler(output.expr, node.input.columns))

    for outputs in _simpler_items(node.outputs, simpler):
        yield partial(Project, node.input, outputs)


def _join(node: Join) -> Iterator[Edit]:
    for on in _shorter(node.on):
        yield partial(replace, node, on=on)
    if node.kind == "full":
        yield partial(replace, node, kind="left")
    if node.kind in ("left", "right"):
        yield partial(replace, node, kind="inner")
    both = node.left.columns + node.right.columns
    for on in _simpler_items(node.on, lambda e: _simpler(e, both)):
        yield partial(replace, node, on=on)


def _union(node: UnionAll) -> Iterator[Edit]:
    for members in _shorter(node.members, at_least=2):
        yield partial(replace, node, members=members)
    for place in _places(node.output):
        yield partial(_union_without, node, place)


def _union_without(node: UnionAll, place: int) -> Node:
    return UnionAll(tuple(_narrowed(m, place) for m in node.members), _without(node.output, place))


def _narrowed(node: Node, place: int) -> Node:
    """The node without one of its columns."""
    match node:
        case Project():
            return Project(node.input, _without(node.outputs, place))
        case Scan():
            return replace(node, output=_without(node.output, place), fields=_without(node.fields, place))
        case Filter():
            return Filter(_narrowed(node.input, place), node.conjuncts)
    return Project(node, tuple(Named(c, c.ref) for c in _without(node.columns, place)))


def _bag_operator(node: ExceptAll | IntersectAll) -> Iterator[Edit]:
    for place in _places(node.columns):
        yield partial(_bag_operator_without, node, place)


def _bag_operator_without(node: ExceptAll | IntersectAll, place: int) -> Node:
    return node.with_inputs(_narrowed(node.left, place), _narrowed(node.right, place))


def _aggregate(node: Aggregate) -> Iterator[Edit]:
    for keys in _shorter(node.keys, at_least=0 if node.calls else 1):
        yield partial(replace, node, keys=keys)
    for calls in _shorter(node.calls, at_least=0 if node.keys else 1):
        yield partial(replace, node, calls=calls)

    def simpler(call: Call) -> Iterator[Call]:
        if call.filter:
            yield replace(call, filter=None)
        if call.distinct:
            yield replace(call, distinct=False)
        if call.arguments and not call.template:
            first, *others = call.arguments
            for argument in _simpler(first, node.input.columns):
                yield replace(call, arguments=(argument, *others))

    for calls in _simpler_items(node.calls, simpler):
        yield partial(replace, node, calls=calls)


def _window(node: Window) -> Iterator[Edit]:
    for calls in _shorter(node.calls, at_least=1):
        yield partial(replace, node, calls=calls)
    for partition in _shorter(node.partition):
        yield partial(replace, node, partition=partition)


def _top_k(node: TopK) -> Iterator[Edit]:
    if node.offset and node.limit is not None:
        yield partial(replace, node, offset=0)


def _constant(node: Constant) -> Iterator[Edit]:
    for rows in _shorter(node.rows):
        yield partial(replace, node, rows=rows)
    for place in _places(node.output):
        yield partial(Constant, _without(node.output, place), tuple(_without(row, place) for row in node.rows))


def _scan(node: Scan) -> Iterator[Edit]:
    for place in _places(node.output):
        yield partial(_narrowed, node, place)


def _generate(node: Generate) -> Iterator[Edit]:
    if node.outer:
        yield partial(replace, node, outer=False)


_EDITS: Mapping[type[Node], Callable[[Any], Iterator[Edit]]] = {
    Filter: _filter,
    Project: _project,
    Join: _join,
    UnionAll: _union,
    Aggregate: _aggregate,
    Window: _window,
    TopK: _top_k,
    Constant: _constant,
    Scan: _scan,
    Generate: _generate,
    ExceptAll: _bag_operator,
    IntersectAll: _bag_operator,
}


def _simpler(expr: Expr, columns: tuple[Column, ...]) -> Iterator[Expr]:
    """A literal or column of the same type, or a part of the expression that has it."""
    if expr.column is not None:
        return
    if expr.type == "boolean":
        yield TRUE
    yield null(expr.type)
    yield from (c.ref for c in columns if c.type == expr.type and c.name in expr.columns)
    # The body of a lambda has variables of the lambda, which mean nothing outside of it.
    inner = (part for part in expr.walk() if part is not expr and not isinstance(part, Literal | Lambda))
    yield from (part for part in inner if part.type == expr.type and _is_closed(part))


def _is_closed(expr: Expr) -> bool:
    """Whether no variable of a lambda around the expression is in it."""
    bound = {v for part in expr.walk() if isinstance(part, Lambda) for v in part.variables}
    return all(part in bound for part in expr.walk() if isinstance(part, Variable))
