"""Stored data as Spark DataFrames: explicit schemas and file lists, so that Spark starts no job to find out either."""

from __future__ import annotations

import itertools
import os
import re
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from nabla.engine import types
from nabla.engine.spark.meaning import Settings
from nabla.planner.steps import Size
from nabla.storage import locations
from nabla.storage.reading import refuse_empty_files

_SETTINGS = {
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.ui.explainMode": "simple",  # every query describes itself to listeners; the default is elaborate
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the old default has no statistics
    # Stored texts mean what they say: ${env:HOME} in a literal stays as it is, and a lake of somebody else learns no secret.
    "spark.sql.variable.substitute": "false",
}

FEW_ROWS = 10_000
"""So many rows are quicker handed to Spark as values than read from a file, whose scan has costs of its own."""
_PLAIN = re.compile(r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|string|binary|date")

_BY_SIZE: dict[Size, dict[str, str]] = {
    # A tiny query is over before compiled code pays for its compilation, and adaptive execution runs every exchange as
    # a job of its own. One task does it all, without exchanges and broadcasts: see `Workspace.fit`.
    "tiny": {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    },
    # Parquet is read in batches with compiled code only, and adaptive execution leaves out the scan of a table that an
    # empty change is joined with.
    "small": {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.codegen.wholeStage": "true",
    },
    # A few megabytes after an exchange may still be much work: every core gets a share of it.
    "large": {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
        "spark.sql.codegen.wholeStage": "true",
    },
}
PARTITIONS = 16
"""Of an exchange of large tables, at least: a share of one has to fit a core's memory. Adaptive execution merges small ones."""


def engine_session(spark: SparkSession, size: Size, settings: Settings) -> SparkSession:
    """A session beside the user's: its own temporary names, and settings that decide what queries mean; the same Spark."""
    session = spark.newSession()
    for key, value in (dict(settings) | _SETTINGS | _BY_SIZE[size]).items():
        session.conf.set(key, value)
    if size == "large":
        session.conf.set("spark.sql.shuffle.partitions", str(_partitions(spark)))
    return session


def copy_session(spark: SparkSession) -> SparkSession:
    """A session with the same settings, functions and temporary views, in which new ones stay unknown to the other."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def _partitions(spark: SparkSession) -> int:
    """Enough for every core of a cluster; users know their cluster, but the default for one is too many on a machine."""
    context = spark.sparkContext
    fitting = max(PARTITIONS, 2 * context.defaultParallelism)
    asked = int(spark.conf.get("spark.sql.shuffle.partitions") or 0)
    return fitting if str(context.master).startswith("local") else max(fitting, asked)


def empty(session: SparkSession, schema: StructType) -> DataFrame:
    """No rows, known to Spark's planner as such. The schema may be somebody else's, so it does not become a text of SQL;
    nor would Spark's parser ever end with a type of many levels."""
    java: Any = session._jsparkSession
    rows = cast(Any, session._jvm).java.util.ArrayList()
    return DataFrame(java.createDataFrame(rows, java.parseDataType(types.nullable(schema).json())), session)


def read_parquet(session: SparkSession, paths: Sequence[str], schema: StructType, base: str | None = None) -> DataFrame:
    if not paths:
        return empty(session, schema)
    refuse_empty_files(paths)
    reader = session.read.schema(schema)
    if base:
        reader = reader.option("basePath", base)
    return reader.parquet(*paths)


def plain(schema: StructType) -> bool:
    """Whether rows can be handed over as values."""
    return all(_PLAIN.fullmatch(f.dataType.simpleString()) for f in schema.fields)


def _values(session: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The frame that `createDataFrame` would make. That function would also make this session the active one, in place of the
    user's."""
    return session._create_from_arrow_table(rows, schema, "UTC", False, False, FEW_ROWS)


@dataclass(frozen=True)
class Sessions:
    """Workspaces for each size of query: `shared` keeps stored tables registered between refreshes, `workspace` all else.
    `separate` makes one with a session of its own."""

    workspace: Callable[[Size], Workspace]
    shared: Callable[[Size], Workspace]
    separate: Callable[[Size], Workspace]


TextCheck = Callable[[SparkSession, str], None]


def no_check(session: SparkSession, text: str) -> None:
    """Check nothing, for texts that come only from the user and Nabla."""


class Workspace:
    """The names under which relations are registered in an engine session, and a scratch folder for small ones.

    A relation is registered once for its key. With `most`, the ones that were not asked for longest are forgotten when
    there are more. `check` looks at each text before the session does, and raises where it must not run.
    """

    _numbers = itertools.count()

    def __init__(
        self,
        session: SparkSession,
        folder: str,
        size: Size | None = None,
        most: int | None = None,
        check: TextCheck = no_check,
    ) -> None:
        self.session = session
        self.size = size
        self.most = most
        self.check = check
        self.folder = folder
        locations.make_folder(folder)
        self._names: dict[Hashable, str] = {}
        self._lock = threading.Lock()
        self._cleanup = weakref.finalize(self, locations.remove_folder, folder)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names.values():
            self.session.catalog.dropTempView(name)
        self._cleanup()

    def sql(self, text: str) -> DataFrame:
        """A query over the relations of this workspace: the one way in which stored definitions become queries."""
        self.check(self.session, text)
        return self.session.sql(text)

    def name(self, key: Hashable, make: Callable[[], DataFrame]) -> str:
        """The temporary view for a key; `make` is called for its DataFrame the first time."""
        with self._lock:
            if key not in self._names:
                name = f"nabla_{next(self._numbers)}"
                self.fit(make()).createOrReplaceTempView(name)
                self._names[key] = name
            self._names[key] = self._names.pop(key)  # the most recent one comes last
            self._forget()
            return self._names[key]

    def fit(self, frame: DataFrame) -> DataFrame:
        """The frame, for a tiny query as one partition: Spark needs no exchange to join and group such relations."""
        return frame.coalesce(1) if self.size == "tiny" else frame

    def _forget(self) -> None:
        while self.most is not None and len(self._names) > self.most:
            self.session.catalog.dropTempView(self._names.pop(next(iter(self._names))))

    def hold(self, table: pa.Table, schema: StructType) -> DataFrame:
        """An Arrow table of the driver as a DataFrame: a few plain rows as part of the query, others in a Parquet file."""
        if table.num_rows <= FEW_ROWS and plain(schema):
            # One chunk: PySpark leaves out all that follows a chunk without rows.
            rows = types.conform(table, schema).combine_chunks()
            return _values(self.session, rows, schema) if rows.num_rows else empty(self.session, schema)
        return read_parquet(self.session, [self.store(table, schema)], schema)

    def store(self, table: pa.Table, schema: StructType) -> str:
        """The file that a small Arrow table was written to."""
        path = os.path.join(self.folder, f"{next(self._numbers)}.parquet")
        locations.write_parquet(types.conform(table, schema), path)
        return path

    def path(self) -> str:
        return os.path.join(self.folder, f"{next(self._numbers)}")


class Workspaces:
    """A workspace for each size of query, made when it is first needed, gone when all are."""

    def __init__(self, make: Callable[[Size], Workspace]) -> None:
        self._make = make
        self._made: dict[Size, Workspace] = {}
        self._lock = threading.Lock()

    def __call__(self, size: Size) -> Workspace:
        with self._lock:
            if size not in self._made:
                self._made[size] = self._make(size)
            return self._made[size]

    def __enter__(self) -> Workspaces:
        return self

    def __exit__(self, *_: object) -> None:
        for workspace in self._made.values():
            workspace.__exit__()
