"""The format "nabla" of `spark.read` and `spark.readStream`: the feed of a table or view, with its versions as offsets.

Spark runs this in Python processes of its own, which read the lake's logs and files without Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from nabla.engine import types
from nabla.engine.feed import feed_rows, feed_schema
from nabla.errors import NablaError
from nabla.lake.objects.names import Names
from nabla.lake.objects.sources import columns_of, current_version, make_source, table_of
from nabla.storage import bags, reading
from nabla.storage.lakelog import LakeLog

FORMAT = "nabla"
_BEFORE_ALL = -1
"""The version before the first one: what follows it is all rows."""
_OFFERED: WeakSet[SparkSession] = WeakSet()
"""The sessions that know the format."""


def offer(session: SparkSession) -> None:
    """Let a session know the format."""
    if session not in _OFFERED:
        try:
            session.dataSource.register(LakeFeed)
        except AnalysisException as error:  # sessions of one Spark share what they know
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
        _OFFERED.add(session)


@dataclass(frozen=True)
class Feed:
    """The feed of one table or view of a lake."""

    lake: str
    name: str

    def schema(self) -> StructType:
        log = LakeLog.open(self.lake)
        entry = Names(log.state(), log.path).entry(self.name)
        snapshot = table_of(log, entry).snapshot(current_version(log, entry))
        return feed_schema(types.nullable(types.rename(types.from_json(snapshot.schema_json), columns_of(entry))))

    def position(self) -> dict[str, Any]:
        """The newest version, and the folder that its number counts in: a view that is built again begins anew."""
        log = LakeLog.open(self.lake)
        entry = Names(log.state(), log.path).entry(self.name)
        return {"version": current_version(log, entry), "built": entry.parts["data"].path}

    def read(self, since: int, upto: int, built: str | None) -> Iterator[pa.RecordBatch]:
        """The changes after one version and up to another; after the one before all, the rows that there are then."""
        log = LakeLog.open(self.lake)
        state = log.state()
        entry = Names(state, log.path).entry(self.name)
        if built is not None and built != entry.parts["data"].path:
            raise NablaError(
                "NABLA_STREAM_CHANGED",
                f'"{entry.name}" was built again, and its versions began anew',
                place=f'stream of "{entry.name}"',
                remedy="Start the stream with a new checkpoint.",
            )
        table = table_of(log, entry)
        shape = types.arrow_schema(self.schema())
        first = since + 1
        if since == _BEFORE_ALL:
            rows = bags.counted(reading.read(table.snapshot(upto)))
            yield from _batches(rows, upto, table.timestamp(upto), shape)
            first = upto + 1
        for version in range(first, upto + 1):
            rows = make_source(log, entry.name, state, version - 1, version).change_rows()
            yield from _batches(rows, version, table.timestamp(version), shape)


def _batches(signed: pa.Table, version: int, stamp: int, shape: pa.Schema) -> Iterator[pa.RecordBatch]:
    when = datetime.datetime.fromtimestamp(stamp / 1000, datetime.UTC)
    rows = feed_rows(signed, version, when).rename_columns(shape.names)
    yield from rows.cast(shape).to_batches()


@dataclass(frozen=True)
class _Versions(InputPartition):
    since: int
    upto: int
    built: str | None


class LakeFeed(DataSource):
    """Options: `lake`, the folder of the lake; the table or view, as the path or `table`; `since`, the version after which
    changes are wanted. Without it, the first rows are all that there are, as inserted."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return self._feed().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(self._feed(), self._since())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(self._feed(), self._since())

    def _feed(self) -> Feed:
        lake, name = self.options.get("lake"), self.options.get("table") or self.options.get("path")
        if not lake or not name:
            raise NablaError(
                "NABLA_ARGUMENT",
                "the format needs a lake and a table or view",
                place='format("nabla")',
                remedy='Write spark.read.format("nabla").option("lake", lake.path).load("orders").',
            )
        return Feed(lake, name)

    def _since(self) -> int:
        text = self.options.get("since", str(_BEFORE_ALL))
        if not text.removeprefix("-").isdecimal() or int(text) < _BEFORE_ALL:
            raise NablaError(
                "NABLA_NO_VERSION", f"there is no version {text}", place="since", remedy="Versions begin with 0."
            )
        return int(text)


class _BatchReader(DataSourceReader):
    def __init__(self, feed: Feed, since: int) -> None:
        self._feed, self._since = feed, since

    def partitions(self) -> list[_Versions]:
        now = self._feed.position()
        return [_Versions(self._since, now["version"], now["built"])]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return self._feed.read(partition.since, partition.upto, partition.built)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, feed: Feed, since: int) -> None:
        self._feed, self._since = feed, since

    def initialOffset(self) -> dict[str, Any]:
        return {**self._feed.position(), "version": self._since}

    def latestOffset(self, *limits: Any) -> dict[str, Any]:
        return self._feed.position()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Versions]:
        return [_Versions(start["version"], end["version"], start["built"])]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return self._feed.read(partition.since, partition.upto, partition.built)
