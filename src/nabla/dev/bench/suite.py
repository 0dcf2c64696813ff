"""A benchmark as data: where its rows and queries come from, and how its tables change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nabla.lake.facade import Lake

PARTS = 1_000_000


@dataclass(frozen=True)
class Suite:
    """The queries of a benchmark as views. `change` makes one round of changes of a share of the rows: it gets a number
    that is new in every round, and one of the `kinds`, and returns a description."""

    name: str
    title: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    generate: Callable[[Path, float], Path]
    load: Callable[[Lake, Path], None]
    query: Callable[[str, Path], str]
    change: Callable[[Lake, float, int, str], str]


def scattered(share: float, number: int) -> tuple[str, str]:
    """Conditions on a `{key}` for two shares of a table's rows, scattered over it and disjoint where there are enough of
    them."""
    if share >= 1:
        return "true", "true"
    most = round(PARTS * share)
    place = f"pmod(hash({{key}}, {number}), {PARTS})"
    return f"{place} < {most}", f"{place} >= {min(most, PARTS - most)} AND {place} < {min(2 * most, PARTS)}"


def changed_rows(lake: Lake, table: str) -> int:
    """The number of rows that the last transaction inserted into a table and deleted from it."""
    event = lake.history(table, limit=1)[0]
    return (event.inserted or 0) + (event.deleted or 0)
