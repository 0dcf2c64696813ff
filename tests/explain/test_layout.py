"""Boxes of a drawing do not overlap, tables stand in the bottom row, parents above their children."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nabla.explain.layout import Box, arrange, layers

shapes = st.recursive(st.just([]), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=12)
sizes = st.tuples(st.floats(20, 300), st.floats(20, 90), st.sampled_from([0.0, 200.0]))


def numbered(shape: list, children: dict[int, list[int]]) -> int:  # type: ignore[type-arg]
    below = [numbered(part, children) for part in shape]
    children[len(children)] = below
    return len(children) - 1


@given(shapes, st.data())
def test_boxes_have_room(shape: list, data: st.DataObject) -> None:  # type: ignore[type-arg]
    children: dict[int, list[int]] = {}
    root = numbered(shape, children)
    boxes = {node: Box(*data.draw(sizes)) for node in children}
    layout = arrange(root, children, boxes)
    level = layers(children)
    for node, place in layout.places.items():
        box = boxes[node]
        assert place.x - box.width / 2 >= -0.01
        assert place.x + box.width / 2 + box.beside <= layout.width + 0.01
        assert place.y + box.height <= layout.height + 0.01
        for child in children[node]:
            assert layout.places[child].y >= place.y + box.height
        for other in layout.places:
            if other > node and level[other] == level[node]:
                left, right = sorted((node, other), key=lambda n: layout.places[n].x)
                end = layout.places[left].x + boxes[left].width / 2 + boxes[left].beside
                assert end <= layout.places[right].x - boxes[right].width / 2 + 0.01
