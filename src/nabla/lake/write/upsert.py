"""Rows put into a table by its declared key: they take the place of the rows that have it, or are new."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from nabla.engine import intake, types
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.write.generated import append_missing, append_nulls, number_rows
from nabla.lake.write.given_rows import Given, distinct_keys, without_copies
from nabla.lake.write.table_change import TableChange
from nabla.lake.write.write_change import take_over
from nabla.storage import bags
from nabla.storage.bags import N
from nabla.storage.find_keys import find_keys


def key_for_upsert(change: TableChange) -> list[str]:
    """The declared key of a table, by which its rows are found."""
    if change.nested:
        raise NablaError(
            "NABLA_NO_KEY",
            f'"{change.name}" is a nested table, whose parts have keys of their own',
            place=f'table "{change.name}"',
            remedy="Use tx.merge, which adds parts at any depth.",
        )
    key = list(change.entry.definition.get("key") or ())
    if not key:
        raise NablaError(
            "NABLA_NO_KEY",
            f'table "{change.name}" has no declared key, so nothing says which rows to replace',
            place=f'table "{change.name}"',
            remedy="Create the table with key=, or use MERGE with a condition of its own.",
        )
    return key


def upsert_rows(context: LakeContext, change: TableChange, key: Sequence[str], given: Given) -> None:
    """Put rows in place. Columns that a row does not have stay as they are; new rows get their defaults."""
    take_over(change)
    given = without_copies(given)
    stored = dict(zip(change.visible.names, change.stored.names, strict=True))
    keys = _stored_keys(change, key, distinct_keys(given, key, change.name))
    located = find_keys(change.snapshot, keys)
    old = bags.counted(located.rows)
    if change.pieces:
        net = change.net()
        unlimited = pa.repeat(pa.scalar(net.num_rows, pa.int64()), keys.num_rows)
        here = bags.match(net.select(keys.column_names), keys.append_column(N, unlimited))[0]
        old = bags.consolidate(pa.concat_tables([old, net.take(here)]))
    change.located.append(located)
    new = [_new_rows(context, change, group, old, [stored[name] for name in key]) for group in given.groups]
    change.pieces += [bags.negated(old), *new]


def _new_rows(
    context: LakeContext, change: TableChange, group: pa.Table, old: pa.Table, key: Sequence[str]
) -> pa.Table:
    """The rows of a group as the table is to have them, counted."""
    stored = dict(zip(change.visible.names, change.stored.names, strict=True))
    given = group.rename_columns([stored[name] for name in group.column_names])
    if set(given.column_names) == set(change.stored.names):
        return types.conform(bags.counted(given), types.with_weight(change.stored))
    keys = given.select(key)
    place, row = bags.match(old.select(key), keys.append_column(N, pa.repeat(old.num_rows, keys.num_rows)))
    before, after = old.take(place), given.take(row)
    for name in given.column_names:
        before = before.set_column(before.column_names.index(name), before.schema.field(name), after[name])
    is_new = pc.invert(pc.is_in(pa.arange(0, given.num_rows), value_set=row))
    before = types.conform(before, types.with_weight(change.stored))
    return pa.concat_tables([before, _completed(context, change, group.filter(is_new))])


def _completed(context: LakeContext, change: TableChange, group: pa.Table) -> pa.Table:
    """New rows with all columns of the table."""
    rows = append_nulls(change, append_missing(context, change, group))
    fitted = number_rows(change, intake.arrow_rows(rows, change.visible, change.name), strict=False)
    return types.conform(bags.counted(fitted.rename_columns(change.stored.names)), types.with_weight(change.stored))


def _stored_keys(change: TableChange, key: Sequence[str], keys: pa.Table) -> pa.Table:
    stored = dict(zip(change.visible.names, change.stored.names, strict=True))
    return keys.rename_columns([stored[name] for name in key])
