"""What matching may rely on beside the plans: keys, references and columns without NULLs, all of them proved for the data that
is read, and the sizes of tables. Declarations alone prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Columns = tuple[str, ...]


@dataclass(frozen=True)
class Proofs:
    """`unique` says whether no two rows of a table agree in some of its fields. `refers` says whether every value of a field,
    NULL aside, is one of a field of another table. `has_values` says whether a field has no NULL in any row."""

    unique: Callable[[str, Columns], bool] = lambda table, fields: False
    refers: Callable[[str, str, str, str], bool] = lambda table, field, other, its: False
    has_values: Callable[[str, str], bool] = lambda table, field: False


NOTHING_PROVED = Proofs()


@dataclass(frozen=True)
class Sizes:
    """The numbers of rows of tables and views; of others nothing is known. `pending` has, for a view that is behind, the rows
    that could be read in the time that it takes to compute what it lacks."""

    rows: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, float] = field(default_factory=dict)

    def of(self, table: str) -> float:
        return self.rows.get(table, 1) + self.pending.get(table, 0.0)
