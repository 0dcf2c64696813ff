"""SQL that users write into a transaction: which rows to change (`where=`), and their new values (`set=`).

Its subqueries read the lake as the transaction sees it, its own changes included, and not as it is by now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.engine.marked_rows import FILE, PLACE, located_frame
from nabla.engine.sources import user_frame
from nabla.engine.spark.frames import Workspace, copy_session
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import columns_of, current_version, table_of
from nabla.lake.write.table_change import TableChange
from nabla.storage import bags
from nabla.storage.bags import N
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.deletion_vectors import numbers_of
from nabla.storage.find_rows import Located, fetch_rows, places_by_file

Seen = Mapping[str, Entry]
"""Tables and views by name, as a transaction sees them."""

_SUBQUERY = re.compile(r"\(\s*(?:--.*\s*|/\*.*?\*/\s*)*(?:select|with|from|table|values|map|reduce)\b", re.I | re.S)
_WORD = re.compile(r"\w+")


def named_in(texts: Iterable[str], state: LakeState) -> frozenset[str]:
    """The tables and views that subqueries in these texts may read: all whose names are words of one that has a subquery.

    A name that is put together (`IDENTIFIER('a' || 'b')`) may be any. To name too many only makes a transaction repeat its
    work when another one changes them.
    """
    words = {word.casefold() for text in texts if _SUBQUERY.search(text) for word in _WORD.findall(text)}
    return frozenset(name for name in state.entries if name.casefold() in words or "identifier" in words)


def entry_frame(context: LakeContext, workspace: Workspace, entry: Entry) -> DataFrame:
    """A table or view in the version that an entry has."""
    snapshot = table_of(context.log, entry).snapshot(current_version(context.log, entry))
    return user_frame(workspace, snapshot, columns_of(entry))


def matching_rows(
    context: LakeContext, change: TableChange, where: str, values: Mapping[str, str], seen: Seen
) -> pa.Table:
    """The rows that a condition holds for, as the transaction sees the table, with their copies and new values.

    Subqueries find the objects in `seen` under their names, in a session of their own: other transactions, and the user's
    queries, know other versions by the same names.
    """
    change.take_over_written()
    visible = change.visible.names
    place = f'change of table "{change.name}"'
    session = copy_session(context.spark.session) if seen else context.spark.session
    with Workspace(session, context.log.new_staging()) as workspace, context.translating(place):
        for name, entry in seen.items():
            entry_frame(context, workspace, entry).createOrReplaceTempView(name)
        if change.pieces:
            return _with_pending(workspace, change, where, values)
        if not change.snapshot.plain:
            with suppress(PySparkException, Py4JJavaError):  # a hidden row may be one that the condition fails on
                frame = located_frame(workspace, change.snapshot, visible, with_hidden=True)
                return _by_places(change, frame.where(where), values)
        return _by_places(change, located_frame(workspace, change.snapshot, visible).where(where), values)


def _by_places(change: TableChange, kept: DataFrame, values: Mapping[str, str]) -> pa.Table:
    """Let Spark find the places and the new values, which takes the columns in the condition and in these only; then fetch
    the rows."""
    new = [F.expr(text).alias(f"new {name}") for name, text in values.items()]
    raw = kept.select(F.col(FILE), F.col(PLACE), *new)
    found = raw.select(FILE, PLACE, *_new_columns(raw, change, values)).toArrow()
    found = _without_hidden(change, found).sort_by([(FILE, "ascending"), (PLACE, "ascending")])
    files, places = found[FILE].cast(pa.string()).combine_chunks(), found[PLACE].cast(pa.int64()).combine_chunks()
    located = fetch_rows(change.snapshot, places_by_file(files, places))
    change.located.append(located)
    order = pc.sort_indices(
        pa.table({FILE: located.files, PLACE: located.places}), [(FILE, "ascending"), (PLACE, "ascending")]
    )
    table = bags.counted(located.rows.take(order))
    for name in found.column_names[2:]:
        table = table.append_column(found.schema.field(name), found[name])
    return types.conform(table, _matched_shape(change, values))


def _without_hidden(change: TableChange, found: pa.Table) -> pa.Table:
    """The rows that were found, less those that are hidden."""
    for file in change.snapshot.files:
        if file.hidden is not None:
            hidden = numbers_of(file.hidden.marked(change.snapshot.folder))
            here = pc.equal(found[FILE], pa.scalar(file.path))
            found = found.filter(pc.invert(pc.and_(here, pc.is_in(found[PLACE], value_set=hidden))))
    return found


def _with_pending(workspace: Workspace, change: TableChange, where: str, values: Mapping[str, str]) -> pa.Table:
    """The rows of the table and of earlier operations of the transaction, which have no places."""
    visible, stored = change.visible.names, change.stored.names
    frame = located_frame(workspace, change.snapshot, visible).withColumn(N, F.lit(1).cast("bigint"))
    pending = workspace.hold(change.net(), types.with_weight(change.stored)).toDF(*visible, N)
    nowhere = [F.lit(None).cast("string").alias(FILE), F.lit(None).cast("bigint").alias(PLACE)]
    kept = frame.unionAll(pending.select(*map(quote, visible), *nowhere, N)).where(where)
    old = [F.col(quote(v)).alias(s) for v, s in zip(visible, stored, strict=True)]
    new = [F.expr(text).alias(f"new {name}") for name, text in values.items()]
    raw = kept.select(*old, F.col(N), F.col(FILE), F.col(PLACE), *new)
    table = raw.select(*map(quote, [*stored, N]), FILE, PLACE, *_new_columns(raw, change, values)).toArrow()
    _note_places(change, table)
    return types.conform(table.drop_columns([FILE, PLACE]), _matched_shape(change, values))


def _matched_shape(change: TableChange, values: Mapping[str, str]) -> StructType:
    places = [change.stored.names[change.visible.names.index(name)] for name in values]
    new = [types.field_like(change.stored[place], f"new {place}") for place in places]
    return StructType([*types.with_weight(change.stored).fields, *new])


def _note_places(change: TableChange, found: pa.Table) -> None:
    """Remember where the rows are, so that they need not be looked for again when they are deleted."""
    stored = found.filter(pc.is_valid(found[FILE]))
    rows = types.conform(stored.select(change.stored.names), change.stored)
    files, places = stored[FILE].cast(pa.string()), stored[PLACE].cast(pa.int64())
    change.located.append(Located(rows, files.combine_chunks(), places.combine_chunks()))


def _new_columns(frame: DataFrame, change: TableChange, values: Mapping[str, str]) -> list[Column]:
    """The new values as the table stores them. They are columns of the frame, so that each is computed once."""
    return [
        intake.fit_column(
            quote(f"new {name}"), frame.schema[f"new {name}"].dataType, change.visible[name], change.name
        ).alias(f"new {change.stored.names[change.visible.names.index(name)]}")
        for name in values
    ]
