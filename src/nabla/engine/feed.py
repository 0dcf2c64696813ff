"""The feed of a view: every row that a refresh deleted or inserted, with the version and the time of the refresh."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.spark.bags import repeat
from nabla.storage import bags
from nabla.storage.bags import N

FEED_COLUMNS = ("_change_type", "_version", "_timestamp")
FEED_KIND, FEED_VERSION, FEED_TIME = FEED_COLUMNS


def feed_schema(schema: StructType) -> StructType:
    """The schema of the feed of a view with that schema."""
    extra = [StructField(FEED_KIND, StringType()), StructField(FEED_VERSION, types.type_of("bigint"))]
    return StructType([*schema.fields, *extra, StructField(FEED_TIME, TimestampType())])


def feed_rows(signed: pa.Table, version: int, now: datetime.datetime) -> pa.Table:
    """A consolidated change as a feed stores it, deletions first."""
    pieces = []
    for counted, kind in zip(bags.split(signed), ("delete", "insert"), strict=True):
        rows = bags.repeat(counted)
        for name, value in (
            (FEED_KIND, pa.scalar(kind)),
            (FEED_VERSION, pa.scalar(version, pa.int64())),
            (FEED_TIME, pa.scalar(now, pa.timestamp("us", "UTC"))),
        ):
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        pieces.append(rows)
    return pa.concat_tables(pieces)


def feed_frame(signed: DataFrame, names: Sequence[str], version: int, now: datetime.datetime) -> DataFrame:
    """A change that is in Spark as a feed stores it."""
    kind = f"CASE WHEN {N} > 0 THEN 'insert' ELSE 'delete' END AS {FEED_KIND}"
    stamp = f"timestamp_micros({round(now.timestamp() * 1_000_000)}) AS {FEED_TIME}"
    return repeat(signed, *map(quote, names), kind, f"CAST({version} AS BIGINT) AS {FEED_VERSION}", stamp)


def pair_updates(feed: DataFrame, key: Sequence[str]) -> DataFrame:
    """A feed in which the two rows of an update are "update_before" and "update_after": the only row that a commit deleted
    with a key, and the only one that it inserted with that key. A declared key may not hold; its other rows stay as they
    are. Maps cannot be compared, so that rows with one in their key stay as they are, too."""
    if any("map<" in feed.schema[name].dataType.simpleString() for name in key):
        return feed
    alike = Window.partitionBy(FEED_VERSION, *(F.col(quote(name)) for name in key))
    deleted, inserted = (F.sum(F.when(F.col(FEED_KIND) == kind, 1).otherwise(0)) for kind in ("delete", "insert"))
    updated = (deleted.over(alike) == 1) & (inserted.over(alike) == 1)
    renamed = F.when(F.col(FEED_KIND) == "delete", "update_before").otherwise("update_after")
    return feed.withColumn(FEED_KIND, F.when(updated, renamed).otherwise(F.col(FEED_KIND)))


def signed_rows(feed: pa.Table, names: Sequence[str], after: int, upto: int) -> pa.Table:
    """The change that a feed says was made after one version and up to another, consolidated; `names` are for its columns."""
    rows = _between(feed, after, upto)
    one, minus = pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64())
    weights = pc.if_else(pc.equal(rows.column(len(names)), "insert"), one, minus)
    signed = rows.select(range(len(names))).append_column(pa.field(N, pa.int64()), weights)
    return bags.consolidate(signed.rename_columns([*names, N]))


def changed_columns(feed: pa.Table, columns: Sequence[str], after: int, upto: int) -> pa.Table:
    """Some columns of what a feed says was changed after one version and up to another, with repetitions."""
    return _between(feed, after, upto).select(list(columns))


def _between(feed: pa.Table, after: int, upto: int) -> pa.Table:
    version = feed.column(FEED_VERSION)
    return feed.filter(pc.and_(pc.greater(version, after), pc.less_equal(version, upto)))


def signed_frame(feed: DataFrame, names: Sequence[str], after: int, upto: int) -> DataFrame:
    """The change that a feed says was made after one version and up to another."""
    weight = f"CASE WHEN {FEED_KIND} = 'insert' THEN 1L ELSE -1L END AS {N}"
    return feed.where(f"{FEED_VERSION} > {after} AND {FEED_VERSION} <= {upto}").selectExpr(*map(quote, names), weight)


def count_kinds(kinds: Sequence[pa.ChunkedArray]) -> Mapping[str, int]:
    """The numbers of inserted and deleted rows, from columns `_change_type`."""
    counts = {"insert": 0, "delete": 0}
    for column in kinds:
        for item in column.value_counts().to_pylist():
            counts[item["values"]] += item["counts"]
    return counts
