"""A memo by identity: it has a result for a node, not for other nodes that are equal to it.

Plans are graphs: a rule uses one node in several places. A walk that visits each node once, or a rewrite that keeps it one
node, remembers its result for the node. Comparing nodes by value would compare the trees below them each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(MutableMapping[K, V]):
    """A dictionary that compares keys by identity. It keeps its keys alive, because Python may give the id of a dead object
    to a new one, which would then be found under the entry of the old one."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[K, V]] = {}

    def __getitem__(self, key: K) -> V:
        return self._entries[id(key)][1]

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[id(key)] = (key, value)

    def __delitem__(self, key: K) -> None:
        del self._entries[id(key)]

    def __contains__(self, key: object) -> bool:
        return id(key) in self._entries

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def once(self, key: K, make: Callable[[K], V]) -> V:
        """The value of the key; `make` makes it at the first request."""
        entry = self._entries.get(id(key))
        if entry is None:
            entry = self._entries[id(key)] = (key, make(key))
        return entry[1]


def count_uses(roots: Iterable[K], parts: Callable[[K], Iterable[K]]) -> Memo[K, int]:
    """The number of uses of each part in these graphs. A part that is used twice counts as one use of its own parts."""
    uses: Memo[K, int] = Memo()
    waiting = list(roots)
    while waiting:
        part = waiting.pop()
        uses[part] = uses.get(part, 0) + 1
        if uses[part] == 1:
            waiting += parts(part)
    return uses


def innermost_first(roots: Iterable[K], parts: Callable[[K], Iterable[K]]) -> list[K]:
    """Every part of these graphs once, after its own parts. Whoever computes something for each part in this order, and
    remembers it, needs no stack as deep as the graph."""
    found: Memo[K, bool] = Memo()
    waiting = [(root, False) for root in reversed(list(roots))]
    while waiting:
        part, ready = waiting.pop()
        if ready:
            found[part] = True
        elif part not in found:
            waiting.append((part, True))
            waiting += ((inner, False) for inner in reversed(list(parts(part))) if inner not in found)
    return list(found)
