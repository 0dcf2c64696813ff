"""Remembering by identity."""

from __future__ import annotations

import gc
import weakref

from plans import scan

from nabla.algebra.memo import Memo, count_uses
from nabla.algebra.nodes import Join, Node, UnionAll


def test_equal_nodes_are_remembered_apart() -> None:
    one, other = scan("r", "a#1"), scan("r", "a#1")
    memo: Memo[Node, int] = Memo()
    memo[one] = 1
    assert one == other
    assert one in memo
    assert other not in memo
    assert memo.get(other) is None


def test_nodes_that_are_remembered_stay_alive() -> None:
    memo: Memo[Node, int] = Memo()
    for number in range(100):
        memo[scan("r", f"a#{number}")] = number
    gc.collect()
    assert [memo[node] for node in memo] == list(range(100))
    alive = weakref.ref(next(iter(memo)))
    del memo
    gc.collect()
    assert alive() is None


def test_a_value_is_made_once() -> None:
    made: list[Node] = []
    memo: Memo[Node, int] = Memo()
    node = scan("r", "a#1")

    def make(part: Node) -> int:
        made.append(part)
        return len(made)

    assert [memo.once(node, make), memo.once(node, make)] == [1, 1]


def test_parts_of_a_shared_part_are_used_once() -> None:
    inner = Join(scan("r", "a#1"), scan("s", "b#2"))
    root = UnionAll((inner, inner), inner.columns)
    uses = count_uses((root,), lambda part: part.inputs)
    assert [uses[node] for node in (root, inner, inner.left)] == [1, 2, 1]
