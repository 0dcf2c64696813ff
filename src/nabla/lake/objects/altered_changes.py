"""The change of a table over versions between which it was altered, in terms of its newest columns."""

from __future__ import annotations

import pyarrow as pa

from nabla.lake.objects.sources import columns_of
from nabla.storage import bags
from nabla.storage.altered_table import Era, eras_after
from nabla.storage.bags import N
from nabla.storage.catalog import Entry
from nabla.storage.changes import between, signed
from nabla.storage.lakelog import LakeLog


def change_across(log: LakeLog, entry: Entry, old: int, new: int) -> pa.Table:
    """The signed change of a table between two versions, under its newest stored names. Columns that were added since have
    the value that all rows got by then."""
    table, schema = log.table(entry.parts["data"]), log.snapshot(entry.parts["data"]).schema
    pieces, start = [], old
    for era in eras_after(entry.definition, old):
        if era.since - 1 > start:
            pieces.append(
                _with_newest_columns(signed(between(table, start, era.since - 1)), entry, era.since - 1, schema)
            )
        start = era.since
    if new > start:
        pieces.append(signed(between(table, start, new)))
    weighted = schema.append(pa.field(N, pa.int64()))
    return bags.consolidate(pa.concat_tables([weighted.empty_table(), *pieces]))


def _with_newest_columns(rows: pa.Table, entry: Entry, version: int, schema: pa.Schema) -> pa.Table:
    eras = eras_after(entry.definition, version)
    names: tuple[str, ...] = eras[0].names
    columns = dict(zip(names, rows.columns[:-1], strict=True))
    for era, after in zip(eras, [*(era.names for era in eras[1:]), columns_of(entry)], strict=True):
        columns = {name: _column(columns, era, name, rows.num_rows) for name in after}
    typed = [column.cast(field.type) for column, field in zip(columns.values(), schema, strict=True)]
    return pa.table([*typed, rows[N]], schema=schema.append(pa.field(N, pa.int64())))


def _column(columns: dict[str, pa.ChunkedArray], era: Era, name: str, rows: int) -> pa.ChunkedArray:
    if name in era.origin:
        return columns[era.origin[name]]
    return pa.chunked_array([pa.repeat(pa.scalar(era.defaults.get(name)), rows)])
