"""Exact arithmetic on bags of rows, held as Arrow tables.

Two rows are equal as SQL groups them: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0, maps are equal whatever the
order of their entries. A *counted* table says in its column `_n` how many copies of a row it stands for; counts may be
negative.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

N = "_n"
_ROW = "_row"
# Scalars are spelled with their types: where Arrow has to infer one, it takes longer than the comparison.
_ZERO, _ONE = pa.scalar(0, pa.int64()), pa.scalar(1, pa.int64())
_FIRST = pa.scalar(0, pa.int32())
_ENOUGH = 4096  # candidates that are cheaper to match exactly than to filter further


def counted(table: pa.Table) -> pa.Table:
    """The table with the column `_n`, 1 a row where it had none."""
    if N in table.column_names:
        return table
    return table.append_column(pa.field(N, pa.int64()), pa.repeat(_ONE, table.num_rows))


def negated(table: pa.Table) -> pa.Table:
    """The counted table with all counts negated."""
    place = table.column_names.index(N)
    return table.set_column(place, table.schema.field(N), pc.negate(table[N]))


def split(signed: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The deleted and the inserted rows of a counted table, both with positive counts."""
    deleted = signed.filter(pc.less(signed[N], _ZERO))
    return negated(deleted), signed.filter(pc.greater(signed[N], _ZERO))


def repeat(counted: pa.Table) -> pa.Table:
    """Each row as often as its (positive) count says, without the count."""
    numbers, rows = counted[N], counted.drop_columns([N])
    if pc.all(pc.equal(numbers, _ONE)).as_py() in (True, None):
        return rows
    return rows.take(repeat_places(numbers))


def repeat_places(counts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The number of each place, as often as its count says."""
    ends = pc.cumulative_sum(counts)
    pieces = ends.chunks if isinstance(ends, pa.ChunkedArray) else [ends]
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), *pieces])
    return pc.list_parent_indices(pa.LargeListArray.from_arrays(offsets, pa.nulls(offsets[-1].as_py())))


def total(counted: pa.Table) -> int:
    """The number of copies of all rows."""
    return int(pc.sum(counted[N]).as_py() or 0)


def consolidate(table: pa.Table) -> pa.Table:
    """Equal rows of a counted table as one with the sum of their counts, unless it is zero."""
    keys = table.drop_columns([N])
    if table.num_rows <= 1:
        return table.select([*keys.column_names, N]).filter(pc.not_equal(table[N], _ZERO))
    groups = _group(keys, table[N])
    groups = groups.filter(pc.not_equal(groups[N], _ZERO))
    rows = table.select([*keys.column_names, N]).take(pc.list_element(groups[_ROW], _FIRST))
    return rows.set_column(keys.num_columns, pa.field(N, pa.int64()), groups[N])


def counts(table: pa.Table, rows: pa.Table) -> pa.Array:
    """For each of the distinct `rows`, the number of copies that the (uncounted) table holds."""
    unlimited = pa.repeat(pa.scalar(table.num_rows, pa.int64()), rows.num_rows)
    return subtract(table, rows.select(table.column_names).append_column(N, unlimited))[1]


def subtract(table: pa.Table, wanted: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Take `_n` copies of each row of `wanted` out of a table.

    `wanted` is consolidated with positive counts. Gives which rows of the table remain, and how many copies of each
    wanted row were found, at most `_n`.
    """
    out, what = match(table, wanted)
    found = pc.value_counts(what)
    numbers = pa.table({"row": found.field("values"), N: found.field("counts")})
    missing = pc.invert(pc.is_in(pa.arange(0, wanted.num_rows), value_set=found.field("values")))
    zeros = pa.table({"row": pa.arange(0, wanted.num_rows).filter(missing)})
    zeros = zeros.append_column(N, pa.repeat(_ZERO, zeros.num_rows))
    every = pa.concat_tables([numbers, zeros]).sort_by("row")
    return _mask_without(table.num_rows, out), every[N].combine_chunks()


def match(table: pa.Table, wanted: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The numbers of rows of a table that equal a row of `wanted`, at most `_n` for each, and the numbers of these.

    `wanted` is consolidated with positive counts.
    """
    names = table.column_names
    near = candidates(table, wanted)
    groups = _group(
        pa.concat_tables([_taken(table, near), wanted.select(names).cast(table.schema)]),
        pa.chunked_array([pa.nulls(len(near), pa.int64()), *wanted[N].chunks], pa.int64()),
    )
    groups = groups.filter(groups[N].is_valid())
    # A group lists its candidates, in order, and after them at most one wanted row.
    members = groups[_ROW].combine_chunks()
    row, group = members.flatten(), pc.list_parent_indices(members)
    here = pc.less(row, pa.scalar(len(near), pa.int64()))
    copies = pc.subtract(pc.list_value_length(members).cast(pa.int64()), pa.scalar(1, pa.int64()))
    found = pc.min_element_wise(copies, groups[N].combine_chunks())
    position = pc.subtract(pa.arange(0, len(row)), members.offsets.cast(pa.int64()).take(group))
    taken = pc.and_(here, pc.less(position, found.take(group)))
    asked = pc.subtract(row.filter(pc.invert(here)), pa.scalar(len(near), pa.int64()))
    return near.take(row.filter(taken)), asked.take(group.filter(taken))


def positions(table: pa.Table, rows: pa.Table) -> pa.Array:
    """For each of the distinct `rows` the number of the equal row of a table, NULL where there is none.

    A row of the table may occur again only if it is not asked for.
    """
    every = pa.concat_tables([table, rows])
    members = _group(every, pa.chunked_array([pa.nulls(every.num_rows, pa.int64())]))[_ROW].combine_chunks()
    here = pa.scalar(table.num_rows, pa.int64())
    first, last = pc.list_element(members, 0), _last(members)
    # A row that was asked for comes last in its group, after the row of the table that it equals.
    asked = pc.greater_equal(last, here)
    found = pc.if_else(pc.less(first, here), first, pa.scalar(None, pa.int64()))
    return found.filter(asked).take(pc.sort_indices(last.filter(asked)))


def _last(lists: pa.ListArray) -> pa.Array:
    """The last item of each list, none of which is empty."""
    return lists.values.take(pc.subtract(lists.offsets.slice(1), pa.scalar(1, lists.offsets.type)))


def candidates(table: pa.Table, wanted: pa.Table, first: Sequence[str] = ()) -> pa.Array:
    """The numbers of the rows whose every simple column has a value that occurs in that column of `wanted`.

    Stops looking at columns once few rows are left. `first` are columns to begin with, if the table has them.
    """
    near: pa.Array | None = None
    for name in deciding(wanted, first):
        if name not in table.column_names:
            continue
        if near is not None and len(near) <= _ENOUGH:
            break
        column = table[name] if near is None else table[name].take(near)
        values = groupable(wanted[name].cast(column.type))
        hits = pc.indices_nonzero(pc.is_in(groupable(column), value_set=values.combine_chunks()))
        near = hits.cast(pa.int64()) if near is None else near.take(hits)
    return pa.arange(0, table.num_rows) if near is None else near


def deciding(wanted: pa.Table, first: Sequence[str] = ()) -> list[str]:
    """The simple columns of a counted table, the most telling ones first: those with many different values."""
    simple = [column.name for column in wanted.schema if column.name != N and not types.is_nested(column.type)]
    variety = {name: pc.count_distinct(groupable(wanted[name]), mode="all").as_py() for name in simple}
    return sorted(simple, key=lambda name: (name not in first, -variety[name]))


def _group(keys: pa.Table, count: pa.ChunkedArray) -> pa.Table:
    """Columns `_n`, the sum of the counts, and `_row`, the list of row numbers, for each group of equal rows."""
    columns = [groupable(column) for column in keys.columns] or [pa.nulls(keys.num_rows, pa.null())]
    names = [str(i) for i in range(len(columns))]
    numbered = pa.table([*columns, count, pa.arange(0, keys.num_rows)], [*names, N, _ROW])
    # One thread keeps the rows of a group in order of appearance; the groups themselves come in any order.
    grouped = numbered.group_by(names, use_threads=False).aggregate([(N, "sum"), (_ROW, "list")])
    return grouped.select([f"{N}_sum", f"{_ROW}_list"]).rename_columns([N, _ROW])


def _taken(table: pa.Table, rows: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Some rows, given by ascending and distinct numbers."""
    return table if len(rows) == table.num_rows else table.take(rows)


def _mask_without(length: int, rows: pa.Array) -> pa.Array:
    """True for every number below `length` that is not in `rows`."""
    return pc.invert(pc.is_in(pa.arange(0, length), value_set=rows))


def groupable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that Arrow can group, equal where the given one is equal, NULL where it is NULL."""
    kind = column.type
    if types.is_nested(kind):
        return pa.chunked_array([_spelled(column.combine_chunks())])
    if types.is_float16(kind):
        column = column.cast(pa.float32())
    elif types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    elif types.is_decimal(kind) and not types.is_decimal256(kind):
        column = column.cast(pa.decimal128(kind.precision, kind.scale))
    if types.is_floating(column.type):
        nan = pa.scalar(float("nan"), column.type)
        column = pc.if_else(pc.is_nan(column), nan, pc.add(column, pa.scalar(0.0, column.type)))
    return column


def _spelled(array: pa.Array) -> pa.Array:
    """A nested array as text: the codes of its parts, joined. Codes mean the same within one array only."""
    kind = array.type
    if types.is_struct(kind):
        parts = [_codes(part) for part in array.flatten()]
        text = pc.binary_join_element_wise(*parts, ",") if parts else pa.repeat(pa.scalar("", pa.string()), len(array))
    elif types.is_map(kind):
        lists = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        text = _joined(lists, _entries(lists))
    else:
        text = _joined(array, _codes(array.flatten()))
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _codes(array: pa.Array) -> pa.Array:
    """A short text for each value, NULLs included: the same for equal values, different for different ones."""
    column = groupable(pa.chunked_array([array])).combine_chunks()
    return pc.dictionary_encode(column, null_encoding="encode").indices.cast(pa.string())


def _joined(lists: pa.Array, parts: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists).cast(pa.int32()), pa.scalar(0, pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, parts), ",")


def _entries(lists: pa.ListArray) -> pa.Array:
    """The entries of maps, given as lists of pairs, as texts sorted by key within each map."""
    keys, values = (_codes(part) for part in lists.flatten().flatten())
    order = pc.sort_indices(
        pa.table({"map": pc.list_parent_indices(lists), "key": keys}), [("map", "ascending"), ("key", "ascending")]
    )
    return pc.binary_join_element_wise(keys, values, ":").take(order)
