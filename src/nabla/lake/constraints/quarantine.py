"""Rows that a transaction would have changed against a constraint: set aside in a table, while the rest is committed."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from nabla.calculus.attribution import Attribution, attributions
from nabla.engine import types
from nabla.lake.constraints.violations import Violated, Violation
from nabla.lake.objects.view import load_view
from nabla.lake.write.commit import Commit
from nabla.lake.write.table_change import TableChange
from nabla.lake.write.table_changes import TableChanges
from nabla.storage import bags
from nabla.storage.names import safe

MARKS = ("_constraint", "_change", "_time")
"""The columns of a quarantine beside those of its table: which constraint, insert or delete, and when."""


def name_of(table: str) -> str:
    return f"{table}_quarantine"


def shape_of(table: StructType) -> StructType:
    """The columns of the quarantine of a table with these columns."""
    plain = [StructField(f.name, f.dataType) for f in table.fields]
    marks = [StructField(MARKS[0], StringType()), StructField(MARKS[1], StringType())]
    return StructType([*plain, *marks, StructField(MARKS[2], TimestampType())])


def hold_back(changes: TableChanges, commit: Commit) -> bool:
    """Take the rows that violate a quarantining constraint out of the changes; whether there were any.

    Where no changed row can be told to be the cause, the constraint refuses the transaction.
    """
    violations = [v for v in commit.violations() if v.action == "quarantine"]
    for violation in violations:
        plan = load_view(violation.constraint, commit.state.entries[violation.constraint].definition).plan
        if not sum([_set_aside(changes, violation, found) for found in attributions(plan)]):
            raise Violated(
                [violation],
                remedy="Nothing was written: the violating rows do not tell which changed rows to set aside. "
                "Show columns of the changed table in the constraint's query.",
            )
    return bool(violations)


def _set_aside(changes: TableChanges, violation: Violation, found: Attribution) -> int:
    """Move the changed rows that cause a violation from the change of their table to its quarantine; returns their number."""
    change = changes.find(found.table)
    if change is None or not change.changed:
        return 0
    net = change.net()
    stored = dict(zip(change.visible.names, change.stored.names, strict=True))
    columns = [stored[field] for field in found.fields]
    causes = set(_tuples(violation.rows.select(list(found.places)).columns))
    culprits = net.filter(_mask(row in causes for row in _tuples(net.select(columns).columns)))
    if key := [stored[column] for column in change.entry.definition["key"] or ()]:
        # An update is a deletion and an insertion: both halves are set aside, or neither.
        keys = set(_tuples(culprits.select(key).columns))
        culprits = net.filter(_mask(row in keys for row in _tuples(net.select(key).columns)))
    if culprits.num_rows:
        change.pieces.append(bags.negated(culprits))
        _add(changes.change(name_of(change.name)), change, culprits, violation.constraint)
    return int(culprits.num_rows)


def _add(quarantine: TableChange, change: TableChange, culprits: pa.Table, constraint: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for word, rows in zip(("delete", "insert"), bags.split(culprits), strict=True):
        found = bags.repeat(rows).rename_columns(change.visible.names)
        marks: tuple[Any, ...] = (constraint, word, now)
        for mark, value, field in zip(MARKS, marks, quarantine.visible.fields[-len(MARKS) :], strict=True):
            kind = types.arrow_schema(StructType([field])).field(0).type
            found = found.append_column(pa.field(mark, kind), pa.repeat(pa.scalar(value, kind), found.num_rows))
        quarantine.add(found.rename_columns(list(safe(quarantine.visible.names))), 1)


def _tuples(columns: Iterable[pa.ChunkedArray]) -> Iterator[tuple[Any, ...]]:
    return zip(*(_hashable(column) for column in columns), strict=True)


def _hashable(column: pa.ChunkedArray) -> list[Any]:
    """Values that are equal where SQL's grouping says so: NULL equals NULL. Nested values are compared by their spelling."""
    nested = pa.types.is_nested(column.type)
    return [repr(value) if nested else value for value in column.to_pylist()]


def _mask(values: Iterable[bool]) -> pa.Array:
    return pa.array(list(values), pa.bool_())
