"""SQL that users write into a transaction: which rows to change (`where=`), and their new values (`set=`).

Its subqueries read the lake as the transaction sees it, its own changes included, and not as it is by now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, NullType, StructField, StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.engine.driver.place_search import find_in_rows, find_places
from nabla.engine.large_change import change_rows, marked_places, only_places
from nabla.engine.marked_rows import FILE, PLACE, located_frame
from nabla.engine.sources import user_frame
from nabla.engine.spark.frames import Workspace, copy_session, empty, read_parquet
from nabla.errors import NablaError
from nabla.frontends.spark_sql.define import read_rows_query
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import columns_of, current_version, table_of
from nabla.lake.write import nested_tables as nests
from nabla.lake.write import write_change
from nabla.lake.write.table_change import TableChange
from nabla.lake.write.write_change import settle, take_over
from nabla.storage import bags, locations
from nabla.storage.bags import N
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.deletion_vectors import numbers_of
from nabla.storage.files import Snapshot
from nabla.storage.find_rows import Located, fetch_rows, places_by_file

Sql = str | Column
"""An expression: a text, or one that Spark has parsed."""

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


def mentioned_in(text: str, state: LakeState) -> frozenset[str]:
    """The tables and views that a query may read: all whose names are words of it, or all if a name is put together."""
    words = {word.casefold() for word in _WORD.findall(text)}
    return frozenset(name for name in state.entries if name.casefold() in words or "identifier" in words)


def expression(text: Sql) -> Column:
    return F.expr(text) if isinstance(text, str) else text


def workspace_seeing(context: LakeContext, seen: Seen) -> Workspace:
    """A workspace in which subqueries find the objects in `seen` under their names."""
    session = copy_session(context.spark.session) if seen else context.spark.session
    workspace = Workspace(session, context.log.new_staging())
    for name, entry in seen.items():
        entry_frame(context, workspace, entry).createOrReplaceTempView(name)
    return workspace


def entry_frame(context: LakeContext, workspace: Workspace, entry: Entry) -> DataFrame:
    """A table or view in the version that an entry has."""
    snapshot = table_of(context.log, entry).snapshot(current_version(context.log, entry))
    return user_frame(workspace, snapshot, columns_of(entry))


def delete_matching(
    context: LakeContext, change: TableChange, where: Sql, seen: Seen, alias: str | None = None
) -> None:
    """Delete the rows that a condition holds for, as the transaction sees the table. Its columns may be qualified with `alias`,
    or the table's name."""
    _change_matching(context, change, where, {}, seen, alias)


def refuse_outside(context: LakeContext, change: TableChange, where: Sql, seen: Seen, rows: pa.Table | str) -> None:
    """Refuse rows for which a condition does not hold: a table of them under stored names, or the folder that has them."""
    with workspace_seeing(context, seen) as workspace:
        if isinstance(rows, str):
            frame = read_parquet(workspace.session, locations.parquet_files(rows), change.stored)
        else:
            frame = workspace.hold(rows, change.stored)
        holds = F.coalesce(expression(where), F.lit(False))
        outside = frame.toDF(*change.visible.names).alias(change.name).where(~holds).limit(3).collect()
    if outside:
        shown = ", ".join(str(tuple(row)) for row in outside)
        raise NablaError(
            "NABLA_REPLACE",
            f"rows are given for which the condition does not hold: {shown}",
            place=f'where= of the replacement in "{change.name}"',
            remedy="They would stay when it is repeated. Leave them out, or insert them.",
        )


def update_matching(
    context: LakeContext,
    change: TableChange,
    values: Mapping[str, Sql],
    where: Sql,
    seen: Seen,
    alias: str | None = None,
) -> None:
    """Give columns new values in the rows that a condition holds for, as the transaction sees the table."""
    _change_matching(context, change, where, values, seen, alias)


def _change_matching(
    context: LakeContext,
    change: TableChange,
    where: Sql,
    values: Mapping[str, Sql],
    seen: Seen,
    alias: str | None,
) -> None:
    """Change rows on the driver where they are few, and else by Spark's executors.

    Subqueries find the objects in `seen` under their names, in a session of their own: other transactions, and the user's
    queries, know other versions by the same names.
    """
    place = f'change of table "{change.name}"'
    with workspace_seeing(context, seen) as workspace, context.translating(place):
        search = _Search(context, workspace, change, where, values, alias or change.name)
        found = search.rows(is_alone=not seen)
        if found is None:
            search.change_by_spark()
        else:
            note_rows(change, found, values)


def note_rows(change: TableChange, found: pa.Table, values: Mapping[str, Sql]) -> None:
    """Note that rows with their copies go, and, where there are `values`, come back with new ones."""
    names = change.stored.names
    change.pieces.append(bags.negated(found.select([*names, N])))
    if not values:
        return
    after = [f"new {n}" if f"new {n}" in found.column_names else n for n in names]
    new = found.select([*after, N]).rename_columns([*names, N])
    if change.nested:
        rows = new.drop_columns([N]).rename_columns(change.visible.names)
        new = bags.counted(nests.canonical_rows(rows, change.visible, change.name).rename_columns(names))
    change.pieces.append(new)


@dataclass(frozen=True)
class _Search:
    """The rows of a table that a condition holds for, with their new values."""

    context: LakeContext
    workspace: Workspace
    change: TableChange
    where: Sql
    values: Mapping[str, Sql]
    alias: str

    def rows(self, *, is_alone: bool) -> pa.Table | None:
        """The rows, with their copies and new values; None if they are too many for the driver. A condition that reads no
        other table (`is_alone`) may be answered without Spark."""
        change, visible = self.change, self.change.visible.names
        take_over(change)
        if is_alone and not change.nested:
            found = self._by_duckdb()
            if found is not None:
                return found
        if self._is_for_executors:
            return None
        if change.pieces:
            return self._with_pending(change.snapshot)
        if not change.snapshot.plain:
            with suppress(PySparkException, Py4JJavaError):  # a hidden row may be one that the condition fails on
                frame = located_frame(self.workspace, change.snapshot, visible, with_hidden=True)
                return self._fetch(_without_hidden(change, self._places(self._matching(frame))))
        frame = located_frame(self.workspace, change.snapshot, visible)
        return self._fetch(self._places(self._matching(frame)))

    @property
    def _is_for_executors(self) -> bool:
        """Whether so many rows may match that they must not pass the driver."""
        return self.change.snapshot.rows > write_change.MOST_ON_DRIVER and not self.change.by_driver

    def change_by_spark(self) -> None:
        """Find the places of rows by Spark. Few rows are then changed by the driver, and others by Spark, too."""
        change, names = self.change, self.change.visible.names
        places = self._marked_places()
        if sum(map(len, places.values())) <= write_change.MOST_ON_DRIVER:
            chosen = only_places(change.snapshot, places)
            if change.pieces:
                found = self._with_pending(chosen)
            else:
                found = self._fetch(self._places(located_frame(self.workspace, chosen, names)))
            note_rows(change, found, self.values)
            return
        if change.pieces:
            settle(change)
            places = self._marked_places()
        compute = self._new_rows if self.values else None
        new_staging = self.context.log.new_staging
        done = change_rows(self.workspace, change.snapshot, names, places, new_staging, compute)
        change.advance(done.adds, done.removes, done.inserted, done.deleted)

    def _marked_places(self) -> dict[str, BitMap64]:
        frame = located_frame(self.workspace, self.change.snapshot, self.change.visible.names)
        return marked_places(self._matching(frame).select(FILE, PLACE))

    def _new_rows(self, frame: DataFrame) -> DataFrame:
        """The rows with their new values, under the stored names."""
        change, visible = self.change, self.change.visible.names
        new = [expression(text).alias(f"new {name}") for name, text in self.values.items()]
        raw = frame.select(*map(quote, visible), *new)
        made = dict(zip(self.values, _new_columns(raw, change, self.values), strict=True))
        return raw.select(*(made.get(name, F.col(quote(name))) for name in visible))

    def _by_duckdb(self) -> pa.Table | None:
        """The rows; None if they are too many, or Spark has to be asked for another reason. Spark resolves the condition, so
        that it means what it would mean there."""
        change = self.change
        shape = types.rename(change.stored, change.visible.names)
        numbers = [StructField(FILE, LongType()), StructField(PLACE, LongType())]
        query = self._raw(self._matching(empty(self.workspace.session, StructType([*shape, *numbers]))))
        plan = read_rows_query(query)
        if plan is None or any(isinstance(field.dataType, NullType) for field in query.schema):
            return None
        stored = dict(zip(change.visible.names, change.stored.names, strict=True))
        schema = types.arrow_schema(query.schema)
        found = find_places(plan, change.snapshot, stored, schema, write_change.MOST_ON_DRIVER)
        if found is None or found.num_rows > write_change.MOST_ON_DRIVER:
            return None
        pending = None
        if change.pieces:
            net = change.net()
            chosen = find_in_rows(plan, net.drop_columns([N]).rename_columns(change.visible.names), schema)
            if chosen is None:
                return None
            pending = self._with_new(net.take(chosen[PLACE]), self._fitted(chosen, query.schema))
        here = self._fetch(self._fitted(found, query.schema))
        return here if pending is None else pa.concat_tables([here, pending])

    def _fitted(self, found: pa.Table, shown: StructType) -> pa.Table:
        """New values as the table stores them."""
        change = self.change
        for number, name in enumerate(self.values, 2):
            new = intake.fit_arrow(found[number], shown[number].dataType, change.visible[name], change.name)
            found = found.set_column(number, f"new {change.stored.names[change.visible.names.index(name)]}", new)
        return found

    def _with_new(self, rows: pa.Table, found: pa.Table) -> pa.Table:
        """Counted rows with the new values that were found for them."""
        for name in found.column_names[2:]:
            rows = rows.append_column(found.schema.field(name), found[name])
        return types.conform(rows, _matched_shape(self.change, self.values))

    def _matching(self, frame: DataFrame) -> DataFrame:
        return frame.alias(self.alias).where(expression(self.where))

    def _places(self, kept: DataFrame) -> pa.Table:
        """Let Spark find the places and the new values, which takes the columns in the condition and in these only."""
        return self._query(kept).toArrow()

    def _query(self, kept: DataFrame) -> DataFrame:
        raw = self._raw(kept)
        return raw.select(FILE, PLACE, *_new_columns(raw, self.change, self.values))

    def _raw(self, kept: DataFrame) -> DataFrame:
        new = [expression(text).alias(f"new {name}") for name, text in self.values.items()]
        return kept.select(F.col(FILE), F.col(PLACE), *new)

    def _fetch(self, found: pa.Table) -> pa.Table:
        """The rows at places that were found, with the new values that were found there."""
        change = self.change
        found = found.sort_by([(FILE, "ascending"), (PLACE, "ascending")])
        files, places = found[FILE].cast(pa.string()).combine_chunks(), found[PLACE].cast(pa.int64()).combine_chunks()
        located = fetch_rows(change.snapshot, places_by_file(files, places))
        change.located.append(located)
        order = pc.sort_indices(
            pa.table({FILE: located.files, PLACE: located.places}), [(FILE, "ascending"), (PLACE, "ascending")]
        )
        return self._with_new(bags.counted(located.rows.take(order)), found)

    def _with_pending(self, snapshot: Snapshot) -> pa.Table:
        """The rows of a version of the table, and of earlier operations of the transaction, which have no places."""
        change, values = self.change, self.values
        visible, stored = change.visible.names, change.stored.names
        frame = located_frame(self.workspace, snapshot, visible).withColumn(N, F.lit(1).cast("bigint"))
        pending = self.workspace.hold(change.net(), types.with_weight(change.stored)).toDF(*visible, N)
        nowhere = [F.lit(None).cast("string").alias(FILE), F.lit(None).cast("bigint").alias(PLACE)]
        kept = self._matching(frame.unionAll(pending.select(*map(quote, visible), *nowhere, N)))
        old = [F.col(quote(v)).alias(s) for v, s in zip(visible, stored, strict=True)]
        new = [expression(text).alias(f"new {name}") for name, text in values.items()]
        raw = kept.select(*old, F.col(N), F.col(FILE), F.col(PLACE), *new)
        table = raw.select(*map(quote, [*stored, N]), FILE, PLACE, *_new_columns(raw, change, values)).toArrow()
        _note_places(change, table)
        return types.conform(table.drop_columns([FILE, PLACE]), _matched_shape(change, values))


def _without_hidden(change: TableChange, found: pa.Table) -> pa.Table:
    """The rows that were found, less those that are hidden."""
    for file in change.snapshot.files:
        if file.hidden is not None:
            hidden = numbers_of(file.hidden.marked(change.snapshot.folder))
            here = pc.equal(found[FILE], pa.scalar(file.path))
            found = found.filter(pc.invert(pc.and_(here, pc.is_in(found[PLACE], value_set=hidden))))
    return found


def _matched_shape(change: TableChange, values: Mapping[str, Sql]) -> StructType:
    places = [change.stored.names[change.visible.names.index(name)] for name in values]
    new = [types.field_like(change.stored[place], f"new {place}") for place in places]
    return StructType([*types.with_weight(change.stored).fields, *new])


def _note_places(change: TableChange, found: pa.Table) -> None:
    """Remember where the rows are, so that they need not be looked for again when they are deleted."""
    stored = found.filter(pc.is_valid(found[FILE]))
    rows = types.conform(stored.select(change.stored.names), change.stored)
    files, places = stored[FILE].cast(pa.string()), stored[PLACE].cast(pa.int64())
    change.located.append(Located(rows, files.combine_chunks(), places.combine_chunks()))


def _new_columns(frame: DataFrame, change: TableChange, values: Mapping[str, Sql]) -> list[Column]:
    """The new values as the table stores them. They are columns of the frame, so that each is computed once."""
    return [
        intake.fit_column(
            quote(f"new {name}"), frame.schema[f"new {name}"].dataType, change.visible[name], change.name
        ).alias(f"new {change.stored.names[change.visible.names.index(name)]}")
        for name in values
    ]
