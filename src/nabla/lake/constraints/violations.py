"""A constraint that does not hold: which one, and the rows that show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nabla.errors import NablaError
from nabla.storage import reading
from nabla.storage.table import Snapshot

SHOWN = 5
LISTED = 1000
"""Violating rows that an error carries."""


@dataclass(frozen=True, eq=False)
class Violation:
    """A constraint's query gives `count` rows with the columns `names`, of which `new` came just now; `rows` are the first of
    them, or all, under the names that they are stored by."""

    constraint: str
    action: str
    names: tuple[str, ...]
    rows: pa.Table
    count: int
    new: int = 0

    @property
    def listed(self) -> list[tuple[Any, ...]]:
        """The first of the violating rows."""
        return [tuple(row.values()) for row in self.rows.slice(0, LISTED).to_pylist()]

    def to_dict(self) -> dict[str, Any]:
        rows = [dict(zip(self.names, row, strict=True)) for row in self.listed]
        return {"constraint": self.constraint, "on_violation": self.action, "count": self.count, "rows": rows}

    def __str__(self) -> str:
        shown = "; ".join(str(row) for row in self.listed[:SHOWN])
        more = f"; … {self.count - SHOWN} more" if self.count > SHOWN else ""
        rows = f"{self.count} {'row' if self.count == 1 else 'rows'} ({', '.join(self.names)})"
        return f'constraint "{self.constraint}" is violated by {rows}: {shown}{more}'


def violation_of(constraint: str, action: str, names: tuple[str, ...], stored: Snapshot, new: int = 0) -> Violation:
    """The stored violations of a constraint: the first ones, or all if the constraint sets rows aside."""
    pieces, missing = [stored.schema.empty_table()], stored.rows if action == "quarantine" else LISTED
    for file in stored.files:
        if missing > 0:
            pieces.append(reading.read_file(stored, file))
            missing -= file.rows
    return Violation(constraint, action, names, pa.concat_tables(pieces), stored.rows, new)


class Violated(NablaError):
    """Constraints would not hold any more. `violations` say which, and by which rows."""

    def __init__(self, violations: Sequence[Violation], *, remedy: str = "") -> None:
        self.violations = tuple(violations)
        super().__init__(
            "NABLA_VIOLATED",
            "; ".join(map(str, violations)),
            place=", ".join(f'constraint "{v.constraint}"' for v in violations),
            remedy=remedy or "Nothing was written. Change what violates it, or drop the constraint.",
        )
