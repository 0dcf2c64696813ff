"""Reading a lake: tables and views at a version, their changes, and queries over them."""

from __future__ import annotations

import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.feed import FEED_COLUMNS, feed_frame, pair_updates
from nabla.engine.relations import shortened_feed
from nabla.engine.sources import change_frame, user_frame
from nabla.errors import NablaError
from nabla.frontends.nested.schema import Schema
from nabla.frontends.nested.updates import unnest_sql
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.names import check_version
from nabla.lake.objects.row_keys import row_key
from nabla.lake.objects.sources import columns_at, columns_of, current_version, table_of
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.fresh import read_fresh
from nabla.storage.altered_table import eras_after
from nabla.storage.bags import N
from nabla.storage.catalog import FEED_FROM, Entry, LakeState
from nabla.storage.changes import between
from nabla.storage.copied_table import PIECES
from nabla.storage.table import StoredTable


def read(context: LakeContext, name: str, version: int | None, fresh: bool) -> DataFrame:
    """A table or view, at one of its versions if one is given, or as a refresh would leave it."""
    entry = context.names(context.log.state()).entry(name)
    if fresh and version is None and is_derived(entry):
        return read_fresh(context, entry)
    part = entry.parts["data"]
    if version is not None:
        check_version(entry, version, None if entry.kind == "registered" else part.version)
    wanted = current_version(context.log, entry) if version is None else version
    return user_frame(context.spark.home, _table_then(context, entry).snapshot(wanted), columns_at(entry, wanted))


def read_changes(context: LakeContext, name: str, since: int, pairs: bool) -> DataFrame:
    """The changes after a version, a row a copy: those of a view from its feed, those of a table from its log. With `pairs`,
    updated rows are told from those that came and went."""
    state = context.log.state()
    entry = context.names(state).entry(name)
    check_version(entry, since)
    key = _identifying_columns(entry, state) if pairs else ()
    feed = _view_changes(context, entry, since) if is_derived(entry) else _table_changes(context, entry, since)
    return pair_updates(feed, key) if pairs else feed


def _identifying_columns(entry: Entry, state: LakeState) -> tuple[str, ...]:
    key = row_key(entry, state)
    if key is None:
        raise NablaError(
            "NABLA_NO_KEY",
            "nothing identifies its rows, so that an update cannot be told from a deletion and an insertion",
            place=f'changes of "{entry.name}", pairs=True',
            remedy="Declare a key (create_table(key=…)), show the keys or groups in the view, or leave pairs out.",
        )
    return key


def _view_changes(context: LakeContext, entry: Entry, since: int) -> DataFrame:
    """The changes of a view after a version, from its feed."""
    if since < (begins := entry.facts.get(FEED_FROM, 0)):
        raise shortened_feed(entry.name, since, begins)
    names = [*columns_of(entry), *FEED_COLUMNS]
    feed = user_frame(context.spark.home, context.log.snapshot(entry.parts["feed"]), names)
    return feed.where(F.col("_version") > since)


def read_unnested(context: LakeContext, name: str) -> DataFrame:
    """The flat form of a nested table or view."""
    entry = context.names(context.log.state()).entry(name)
    context.spark.show_names()
    return context.spark.home.sql(unnest_sql(entry.name, Schema.of(nests.shape_of(entry))))


def _table_changes(context: LakeContext, entry: Entry, since: int) -> DataFrame:
    """The changes of a table after a version, in the form of a view's feed."""
    table, names = _table_then(context, entry), columns_of(entry)
    feed: DataFrame | None = None
    for version in range(since + 1, current_version(context.log, entry) + 1):
        stamp = datetime.datetime.fromtimestamp(table.timestamp(version) / 1000, datetime.UTC)
        then = columns_at(entry, version)
        rows = change_frame(context.spark.home, between(table, version - 1, version), then)
        if eras_after(entry.definition, version):
            rows = _with_newest_columns(rows, entry, version, context.log.snapshot(entry.parts["data"]).schema_json)
        rows = feed_frame(rows, names, version, stamp)
        feed = rows if feed is None else feed.unionAll(rows)
    if feed is None:
        empty = read(context, entry.name, None, False).limit(0)
        return empty.selectExpr("*", "'' AS _change_type", "0L AS _version", "current_timestamp() AS _timestamp")
    return feed


def _table_then(context: LakeContext, entry: Entry) -> StoredTable:
    """The table of an object, whose versions have the columns that they had at their time, and a copy's those of its source."""
    is_of_others = entry.kind == "registered" or PIECES in entry.parts
    return table_of(context.log, entry) if is_of_others else context.log.table(entry.parts["data"])


def _with_newest_columns(rows: DataFrame, entry: Entry, version: int, schema_json: str) -> DataFrame:
    """Changed rows of a version with the columns that their table has now: those that were added since have the value that all
    rows got by then."""
    for era in eras_after(entry.definition, version):
        after = next((e.names for e in eras_after(entry.definition, era.since)), columns_of(entry))
        columns = [
            F.col(quote(era.origin[name])) if name in era.origin else F.lit(era.defaults.get(name)) for name in after
        ]
        rows = rows.select(*(column.alias(name) for column, name in zip(columns, after, strict=True)), N)
    kinds = zip(columns_of(entry), types.from_json(schema_json).fields, strict=True)
    return rows.select(*(F.col(quote(name)).cast(field.dataType).alias(name) for name, field in kinds), N)
