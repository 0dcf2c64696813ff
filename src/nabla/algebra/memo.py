"""Remembering by identity: a result for a node, not for nodes that are equal to it.

Plans are graphs: a rule uses one node in several places, and a walk that is to visit it once, or a rewrite that is to leave
it one node, remembers what it made of it. Comparing nodes by value would compare the trees below them each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(MutableMapping[K, V]):
    """A dictionary whose keys are compared by identity. It keeps its keys alive: Python gives the id of an object that
    died to a new one, which would then be taken for the old one."""

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
        """The value of the key, which `make` makes when it is asked for first."""
        entry = self._entries.get(id(key))
        if entry is None:
            entry = self._entries[id(key)] = (key, make(key))
        return entry[1]


def count_uses(roots: Iterable[K], parts: Callable[[K], Iterable[K]]) -> Memo[K, int]:
    """How often each part of these graphs is used. Parts of a part that is used twice are not used twice for that."""
    uses: Memo[K, int] = Memo()

    def count(part: K) -> None:
        uses[part] = uses.get(part, 0) + 1
        if uses[part] == 1:
            for inner in parts(part):
                count(inner)

    for root in roots:
        count(root)
    return uses
