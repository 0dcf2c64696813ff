"""Settling a change table on the driver: □V and the stored partial results of its groups, merged by Arrow in milliseconds.

This is the second query of a change table (`ChangeTable.settle`) for the usual case: the touched groups fit on the driver
and none of them lost its min or max. A view that is nothing but the stage is finished here, too. Spark computes whatever
Arrow would compute differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import partial
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from nabla._cached import once
from nabla.algebra.types import decimal_of
from nabla.calculus.partials import Extreme, Maintained, Partial
from nabla.calculus.stages import ChangeTable
from nabla.engine.driver.driver_query import run
from nabla.engine.driver.duckdb_types import quote
from nabla.engine.driver.file_scan import FEW_ROWS, scan_version
from nabla.planner.steps import Finish
from nabla.storage import bags, reading
from nabla.storage.bags import N
from nabla.storage.find_rows import may_hold
from nabla.storage.table import Snapshot

Held = Mapping[str, pa.ChunkedArray]
"""The columns of a state by their names."""

LARGEST_STATE = 3_000_000
"""Rows of a state's log up to which Arrow looks through it."""


def merge(stage: ChangeTable, touched: pa.Table, log: Snapshot) -> pa.Table | None:
    """The signed change of the state, or None where Spark has to settle it."""
    if not all(_mergeable(p, log) for p in stage.extremes):
        return None
    width = len(stage.keys)
    keys = touched.select(range(width))
    partials = touched.select(range(width, width + len(stage.partials)))
    deleted = touched.select(range(width + len(stage.partials), touched.num_columns))
    stored = _read_stored(log, keys.rename_columns(list(stage.state_fields[:width])))
    if stored is None:
        return None
    place = _places(stored.select(range(width)), keys)
    old = stored.select(range(width, width + len(stage.partials))).take(place)
    try:
        new = [_add(p, o, c, log) for p, o, c in zip(stage.partials, old.columns, partials.columns, strict=True)]
    except pa.ArrowInvalid:
        return None  # a sum overflows its type; Spark knows what that means
    if _loses_extreme(stage, new, deleted):
        return None
    names = stage.state_fields
    was = pc.is_valid(place)
    count = new[0]
    stays = pc.greater(count, pa.scalar(0, count.type)) if width else pa.repeat(pa.scalar(True), touched.num_rows)
    gone = _sign([*keys.columns, *old.columns], names, -1, log).filter(was)
    come = _sign([*keys.columns, *new], names, 1, log).filter(stays)
    return bags.consolidate(pa.concat_tables([gone, come]))


def finish_on_driver(finish: Finish, change: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """The view's change from that of its state where the view is the stage itself, renamed; else Spark computes it."""
    makers = once(finish, _value_makers)
    if makers is None:
        return None
    held = dict(zip((c.name for c in finish.stage.state), change.columns, strict=False))
    columns = []
    for make, field in zip(makers, schema, strict=True):
        try:
            columns.append(make(held).cast(field.type))
        except pa.ArrowInvalid:
            return None  # the value overflows its type; leave the error message to Spark
    return pa.table([*columns, change.column(N)], schema=schema.append(pa.field(N, pa.int64())))


def _value_makers(finish: Finish) -> list[Callable[[Held], pa.ChunkedArray]] | None:
    """A function for each value of the view that computes it from the columns of the state; None if a value needs more."""
    stage = finish.stage
    present = stage.present()
    if finish.keep is not None and (present is None or finish.keep != present):
        return None
    functions = stage.functions if isinstance(stage, ChangeTable) else ()
    known = {f.value: partial(_VALUES[f.call.function], f) for f in functions}
    makers: list[Callable[[Held], pa.ChunkedArray]] = []
    for value in finish.values:
        if value.column is not None:
            makers.append(itemgetter(value.column))
        elif value in known:
            makers.append(known[value])
        else:
            return None
    return makers


def _count_and_total(function: Maintained, held: Held) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    count, total = (held[p.column.name] for p in function.partials)
    nothing = pc.equal(count, pa.scalar(0, pa.int64()))
    return pc.if_else(nothing, pa.scalar(None, count.type), count), pc.if_else(
        nothing, pa.scalar(None, total.type), total
    )


def _sum(function: Maintained, held: Held) -> pa.ChunkedArray:
    return _count_and_total(function, held)[1]


def _avg(function: Maintained, held: Held) -> pa.ChunkedArray:
    count, total = _count_and_total(function, held)
    decimal = decimal_of(function.call.column.type)
    if decimal is None:
        return _divide(total, count)
    unit = Decimal(1).scaleb(-decimal[1])
    with localcontext(prec=77):
        values = [
            None if n is None else (t / n).quantize(unit, ROUND_HALF_UP)
            for t, n in zip(total.to_pylist(), count.to_pylist(), strict=True)
        ]
    return pa.chunked_array([pa.array(values, pa.decimal128(*decimal))])


def _divide(total: pa.ChunkedArray, count: pa.ChunkedArray) -> pa.ChunkedArray:
    """The quotient as Spark divides a whole number: the nearest double of the sum, by the count."""
    sums = (None if t is None else float(t) for t in total.to_pylist())
    return pc.divide(pa.chunked_array([pa.array(sums, pa.float64())]), count.cast(pa.float64()))


def _only(function: Maintained, held: Held) -> pa.ChunkedArray:
    return held[function.partials[0].column.name]


_VALUES: Mapping[str, Callable[..., pa.ChunkedArray]] = {
    "count": _only,
    "min": _only,
    "max": _only,
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
}


def _mergeable(partial: Partial, log: Snapshot) -> bool:
    """Types that Arrow orders as Spark does; NaN it does not."""
    return not partial.column.type.startswith(("float", "double", "boolean", "binary"))


def _read_stored(log: Snapshot, keys: pa.Table) -> pa.Table | None:
    """The current rows of the state for keys that may be among the given ones; None if it is too large to look through."""
    wanted = bags.counted(keys)
    wanted = wanted.cast(pa.schema([*(log.schema.field(n) for n in wanted.column_names[:-1]), pa.field(N, pa.int64())]))
    if log.rows <= FEW_ROWS or not keys.num_columns:  # to look at statistics file by file would take longer
        files = log.files
    else:
        files = tuple(file for file in log.files if may_hold(file, wanted).num_rows)
    found = _scan(replace(log, files=files), wanted.drop_columns([N])) if keys.num_columns else None
    if found is None and log.rows > LARGEST_STATE:
        return None
    if found is None:
        read = (reading.looked_up(log, file, log.schema.names) for file in files)
        pieces = (pa.Table.from_arrays(rows.columns, schema=log.schema) for rows in read)
        found = pa.concat_tables([log.schema.empty_table(), *pieces])
        found = found.take(bags.candidates(found, wanted)) if keys.num_columns else found
    return bags.consolidate(found)


def _scan(log: Snapshot, keys: pa.Table) -> pa.Table | None:
    """The rows of a large log with these keys, found by DuckDB; None where Arrow reads it sooner or DuckDB cannot."""
    if log.rows <= FEW_ROWS or any(kinds.is_floating(field.type) for field in keys.schema):
        return None
    scanned = scan_version(log, {name: name for name in log.schema.names}, "log")
    if scanned is None:
        return None
    signs = {n: "IS NOT DISTINCT FROM" if keys[n].null_count else "=" for n in keys.column_names}
    same = " AND ".join(f"t0.{quote(n)} {sign} looked.{quote(n)}" for n, sign in signs.items())
    found = run(f"SELECT t0.* FROM t0 SEMI JOIN looked ON {same}", {"looked": keys}, {"t0": scanned})
    return None if found is None else found.cast(log.schema)


def _places(stored: pa.Table, keys: pa.Table) -> pa.Array:
    """For each key the number of its row in the state, NULL for a new group."""
    if keys.num_columns == 0:
        return pa.array([0] if stored.num_rows else [None], pa.int64())
    place = bags.positions(stored, keys.rename_columns(stored.column_names).cast(stored.schema))
    return place


def _add(partial: Partial, old: pa.ChunkedArray, change: pa.ChunkedArray, log: Snapshot) -> pa.ChunkedArray:
    if not partial.cancels:
        return _more_extreme(partial.extreme, old, change.cast(old.type))
    zero = pa.scalar(0, pa.int64()).cast(old.type)
    before, more = pc.fill_null(old, zero), pc.fill_null(change.cast(old.type), zero)
    if kinds.is_decimal(old.type):
        wide = pa.decimal256(old.type.precision, old.type.scale)  # a sum of 38 digits may need 39 on the way
        return pc.add(before.cast(wide), more.cast(wide)).cast(old.type)
    return pc.add_checked(before, more)


def _more_extreme(extreme: Extreme | None, one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """The lesser or greater of two values in each place; a NULL is neither. Arrow's `min_element_wise` would say the same but
    does not know instants."""
    beyond = pc.less_equal if extreme == "min" else pc.greater_equal
    first = pc.if_else(pc.is_valid(one), pc.fill_null(beyond(one, other), True), False)
    return pc.if_else(first, one, other)


def _loses_extreme(stage: ChangeTable, new: list[pa.ChunkedArray], deleted: pa.Table) -> bool:
    """Whether something at least as extreme as a new min or max was deleted."""
    columns = [n for p, n in zip(stage.partials, new, strict=True) if not p.cancels]
    for extreme, now, gone in zip(stage.extremes, columns, deleted.columns, strict=True):
        beyond = pc.less_equal if extreme.extreme == "min" else pc.greater_equal
        test = pc.fill_null(beyond(gone.cast(now.type), now), True)
        if pc.any(pc.and_(pc.is_valid(gone), test)).as_py():
            return True
    return False


def _sign(columns: list[pa.ChunkedArray], names: tuple[str, ...], sign: int, log: Snapshot) -> pa.Table:
    rows = pa.table([c.cast(log.schema.field(n).type) for c, n in zip(columns, names, strict=True)], names=list(names))
    return rows.append_column(pa.field(N, pa.int64()), pa.repeat(pa.scalar(sign, pa.int64()), rows.num_rows))
