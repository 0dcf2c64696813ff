"""A constraint that does not hold: which one, and the rows that show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nabla.errors import NablaError

SHOWN = 5
LISTED = 100
"""Violating rows that an error carries."""


@dataclass(frozen=True, eq=False)
class Violation:
    """`rows` are all rows that the constraint's query gives, under its columns' `names`; `new` of them came just now."""

    constraint: str
    action: str
    names: tuple[str, ...]
    rows: pa.Table
    new: int = 0

    @property
    def listed(self) -> list[tuple[Any, ...]]:
        """The first of the violating rows."""
        return [tuple(row.values()) for row in self.rows.slice(0, LISTED).to_pylist()]

    def to_dict(self) -> dict[str, Any]:
        rows = [dict(zip(self.names, row, strict=True)) for row in self.listed]
        return {"constraint": self.constraint, "on_violation": self.action, "count": self.rows.num_rows, "rows": rows}

    def __str__(self) -> str:
        count = self.rows.num_rows
        shown = "; ".join(str(row) for row in self.listed[:SHOWN])
        more = f"; … {count - SHOWN} more" if count > SHOWN else ""
        rows = "row" if count == 1 else "rows"
        return f'constraint "{self.constraint}" is violated by {count} {rows} ({", ".join(self.names)}): {shown}{more}'


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
