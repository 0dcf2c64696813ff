"""Shrinking of a failing case: every part is left out without which it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Case = TypeVar("Case")
Item = TypeVar("Item")


def shrink(
    case: Case,
    smaller: Callable[[Case], Iterable[Case]],
    fails: Callable[[Case], bool],
    size: Callable[[Case], int],
    seconds: float,
) -> Case:
    """The smallest case that a greedy search finds in the given time: the first smaller one that fails is taken, and
    the search goes on from there."""
    end = time.monotonic() + seconds
    found = True
    while found:
        found = False
        limit = size(case)
        for candidate in smaller(case):
            if time.monotonic() > end:
                return case
            if size(candidate) < limit and fails(candidate):
                case, found = candidate, True
                break
    return case


def without_some(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The items with parts left out: halves first, then quarters, at last single ones."""
    length = len(items)
    while length > 0:
        for start in range(0, len(items), length):
            yield [*items[:start], *items[start + length :]]
        length = length // 2
