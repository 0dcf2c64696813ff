"""Reading a lake: tables and views at a version, their changes, and queries over them."""

from __future__ import annotations

import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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
from nabla.lake.objects.sources import columns_of, current_version, table_of
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.fresh import read_fresh
from nabla.storage.catalog import FEED_FROM, Entry, LakeState
from nabla.storage.changes import between


def read(context: LakeContext, name: str, version: int | None, fresh: bool) -> DataFrame:
    """A table or view, at one of its versions if one is given, or as a refresh would leave it."""
    entry = context.names(context.log.state()).entry(name)
    if fresh and version is None and is_derived(entry):
        return read_fresh(context, entry)
    part = entry.parts["data"]
    if version is not None:
        check_version(entry, version, None if entry.kind == "registered" else part.version)
    wanted = current_version(context.log, entry) if version is None else version
    return user_frame(context.spark.home, table_of(context.log, entry).snapshot(wanted), columns_of(entry))


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
    table, names = table_of(context.log, entry), columns_of(entry)
    feed: DataFrame | None = None
    for version in range(since + 1, current_version(context.log, entry) + 1):
        rows = change_frame(context.spark.home, between(table, version - 1, version), names)
        stamp = datetime.datetime.fromtimestamp(table.timestamp(version) / 1000, datetime.UTC)
        rows = feed_frame(rows, names, version, stamp)
        feed = rows if feed is None else feed.unionAll(rows)
    if feed is None:
        empty = read(context, entry.name, None, False).limit(0)
        return empty.selectExpr("*", "'' AS _change_type", "0L AS _version", "current_timestamp() AS _timestamp")
    return feed
