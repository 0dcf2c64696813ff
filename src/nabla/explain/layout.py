"""The layout of a drawing: a tree in layers, with tables in the bottom row and every parent above the middle of its
children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GAP_X = 26.0
GAP_Y = 40.0


@dataclass(frozen=True)
class Box:
    """The box of a node; `beside` is the width of the drawing of its state, at its right."""

    width: float
    height: float
    beside: float = 0.0


@dataclass(frozen=True)
class Anchor:
    """The middle of the box's upper edge."""

    x: float
    y: float


@dataclass(frozen=True)
class Layout:
    places: Mapping[int, Anchor]
    width: float
    height: float


def layers(children: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """The layer of each node, counted from the bottom row."""
    found: dict[int, int] = {}

    def visit(node: int) -> int:
        if node not in found:
            found[node] = 1 + max((visit(c) for c in children[node]), default=-1)
        return found[node]

    for node in children:
        visit(node)
    return found


def arrange(root: int, children: Mapping[int, Sequence[int]], boxes: Mapping[int, Box]) -> Layout:
    xs: dict[int, float] = {}

    def visit(node: int, left: float) -> float:
        """Place the node and the nodes below it from `left` on; return the left edge for the next node."""
        box, below = boxes[node], children[node]
        start = left
        for child in below:
            start = visit(child, start) + GAP_X
        end = start - GAP_X if below else left
        middle = (xs[below[0]] + xs[below[-1]]) / 2 if below else left + box.width / 2
        if (shift := left + box.width / 2 - middle) > 0:
            for child in below:
                move(child, shift)
            middle, end = middle + shift, end + shift
        xs[node] = middle
        return max(end, middle + box.width / 2 + box.beside)

    def move(node: int, shift: float) -> None:
        xs[node] += shift
        for child in children[node]:
            move(child, shift)

    width = visit(root, 0.0)
    level = layers(children)
    tallest = [max(boxes[n].height for n in level if level[n] == k) for k in range(max(level.values()) + 1)]
    tops, y = {}, 0.0
    for k in reversed(range(len(tallest))):
        tops[k] = y
        y += tallest[k] + GAP_Y
    return Layout({n: Anchor(xs[n], tops[level[n]]) for n in children}, width, y - GAP_Y)
