"""The rows that a test expects beside those that the view has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructField, StructType

from nabla.cli.view_tests.read import Rows, Value, malformed
from nabla.cli.view_tests.values import comparable, shown, typed

MOST = 20
"""Rows of each kind that a difference shows."""

Shown = tuple[str, ...]


class _Any:
    """Stands for every value."""


ANY = _Any()


@dataclass(frozen=True)
class Difference:
    """Rows that are missing and rows that nobody expected, as texts, with the number of their copies."""

    view: str
    headings: tuple[str, ...]
    missing: tuple[tuple[Shown, int], ...]
    unexpected: tuple[tuple[Shown, int], ...]

    def __str__(self) -> str:
        """A line for each row: `-` is missing, `+` is unexpected."""
        lines = [("", self.headings, 1)]
        lines += [("- ", row, n) for row, n in self.missing[:MOST]]
        lines += [("+ ", row, n) for row, n in self.unexpected[:MOST]]
        widths = [max(len(row[i]) for _, row, _ in lines) for i in range(len(self.headings))]
        said = [f'view "{self.view}": {self._counts()}']
        for sign, row, copies in lines:
            cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            said.append(f"  {sign or '  '}{cells}{f'  ({copies} times)' if copies > 1 else ''}")
        left = max(0, len(self.missing) - MOST) + max(0, len(self.unexpected) - MOST)
        return "\n".join([*said, *[f"  … and {left} more"] * bool(left)])

    def _counts(self) -> str:
        counts = ((sum(n for _, n in rows), word) for rows, word in self._kinds())
        return ", ".join(f"{n} row{'s' * (n != 1)} {word}" for n, word in counts if n)

    def _kinds(self) -> tuple[tuple[tuple[tuple[Shown, int], ...], str], ...]:
        return (self.missing, "missing"), (self.unexpected, "unexpected")


def compare(
    view: str, expected: Rows, actual: Sequence[Sequence[Any]], shape: StructType, zone: str
) -> Difference | None:
    """The difference in the columns that the test names, or in all if it names none. Rows have no order, and a row that leaves
    a column out that others name fits any value there."""
    places = [_place(column, view, expected, shape) for column in expected.columns] or list(range(len(shape)))
    fields = [shape.fields[i] for i in places]
    found = [_Row.of([row[i] for i in places], fields, zone) for row in actual]
    wanted = [
        _Row.of([_typed(row.get(c), f, zone) for c, f in zip(expected.columns, fields, strict=True)], fields, zone)
        for row in expected.rows
    ]
    missing, unexpected = _unmatched(wanted, found)
    if not missing and not unexpected:
        return None
    headings = tuple(f"{field.name} {field.dataType.simpleString()}" for field in fields)
    return Difference(view, headings, _listed(missing), _listed(unexpected))


@dataclass(frozen=True)
class _Row:
    """A row as it is compared, and as it is shown."""

    key: tuple[Hashable, ...]
    text: Shown

    @classmethod
    def of(cls, values: Sequence[Any], fields: Sequence[StructField], zone: str) -> _Row:
        pairs = list(zip(values, fields, strict=True))
        key = tuple(ANY if v is ANY else comparable(v, f.dataType) for v, f in pairs)
        return cls(key, tuple("·" if v is ANY else shown(v, f.dataType, zone) for v, f in pairs))


def _typed(value: Value | None, field: StructField, zone: str) -> Any:
    return ANY if value is None else typed(value, field.dataType, zone)


def _unmatched(wanted: Sequence[_Row], found: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    """The rows of both sides that are left when as many as possible have found one that they fit."""
    whole = [row for row in wanted if ANY not in row.key]
    partial = [row for row in wanted if ANY in row.key]
    there = Counter(row.key for row in whole)
    left, rest = Counter(there), []
    for row in found:
        if left[row.key] > 0:
            left[row.key] -= 1
        else:
            rest.append(row)
    missing = [row for row in whole if _takes(left, row.key)]
    partner: dict[int, int] = {}  # by place in `rest`: the partial row that has it
    fits = [[i for i, row in enumerate(rest) if _fits(one, row)] for one in partial]
    lost = [partial[i] for i in range(len(partial)) if not _match(i, fits, partner, set())]
    return [*missing, *lost], [row for i, row in enumerate(rest) if i not in partner]


def _takes(left: Counter[tuple[Hashable, ...]], key: tuple[Hashable, ...]) -> bool:
    left[key] -= 1
    return left[key] >= 0


def _fits(one: _Row, row: _Row) -> bool:
    return all(a is ANY or a == b for a, b in zip(one.key, row.key, strict=True))


def _match(one: int, fits: Sequence[Sequence[int]], partner: dict[int, int], tried: set[int]) -> bool:
    """Find a row for a partial one; others that have one may move to another row that they fit."""
    for place in fits[one]:
        if place not in tried:
            tried.add(place)
            if place not in partner or _match(partner[place], fits, partner, tried):
                partner[place] = one
                return True
    return False


def _listed(rows: Sequence[_Row]) -> tuple[tuple[Shown, int], ...]:
    return tuple(sorted(Counter(row.text for row in rows).items()))


def _place(column: str, view: str, expected: Rows, shape: StructType) -> int:
    names = [name.lower() for name in shape.names]
    if column.lower() not in names:
        remedy = f"It has {', '.join(shape.names)}."
        raise malformed(f'view "{view}" has no column "{column}"', expected.place, remedy)
    return names.index(column.lower())
