"""How the queries of a project read: names of datasets in any of their forms, streams of the lake's tables, files."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from nabla.cli.expectations import guarded
from nabla.cli.files import CloudFiles, read_files
from nabla.errors import NablaError
from nabla.frontends.pipelines.elements import Element
from nabla.frontends.pipelines.names import split_name
from nabla.frontends.pipelines.project import running
from nabla.frontends.pipelines.references import FilesRead, rewrite
from nabla.frontends.pipelines.registry import Registry
from nabla.lake.streams.checkpoints import Checkpoint
from nabla.lake.streams.inputs import Form, LakeInput, form_of

if TYPE_CHECKING:
    from nabla.lake.facade import Lake

_TABLE, _READ_TABLE, _SQL = SparkSession.table, DataFrameReader.table, SparkSession.sql
_STREAM_TABLE, _STREAM_FORMAT, _STREAM_OPTION = DataStreamReader.table, DataStreamReader.format, DataStreamReader.option


class Waits(BaseException):
    """A query reads a dataset of the project that this run has not brought up to date yet. It is no Exception, so that code of
    users does not catch it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class Reads:
    """What the evaluation of one query has found out: the datasets that it reads, and the inputs of its stream."""

    checkpoint: Checkpoint | None = None
    names: set[str] = field(default_factory=set)
    inputs: dict[str, LakeInput] = field(default_factory=dict)


class Reading:
    """Evaluates the queries of a project. `done` are the datasets that are up to date in this run, in small letters."""

    def __init__(self, lake: Lake, registry: Registry) -> None:
        self.lake = lake
        self.registry = registry
        self.elements: dict[str, Element] = {}
        self.done: set[str] = set()
        self.made: set[str] = set()
        """Temporary views of the session that stand for something else in a text."""
        self._reads = Reads()
        self._depth = 0
        self._empty = tempfile.TemporaryDirectory(prefix="nabla-")

    def begin(self, elements: Sequence[Element], done: Collection[str]) -> None:
        self.elements = {name.lower(): element for element in elements for name in element.views}
        self.done = {name.lower() for name in done}

    @contextmanager
    def around(self) -> Iterator[None]:
        """Let code of the project read, while it is imported or one of its functions runs."""
        with ExitStack() as stack:
            if self._depth == 0:
                stack.enter_context(running(self.registry))
                for owner, name, function in self._replacements():
                    stack.enter_context(_replaced(owner, name, function))
                stack.enter_context(_replaced(self.registry, "reader", self._read))
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def evaluate(self, query: str | Callable[[], Any], checkpoint: Checkpoint | None = None) -> tuple[Any, Reads]:
        """The result of a query, text or function, and what it reads."""
        _ = self.lake.spark  # the session that the query uses knows what was built before
        outer, self._reads = self._reads, Reads(checkpoint)
        try:
            with self.around():
                result = self.sql(query) if isinstance(query, str) else query()
            return result, self._reads
        finally:
            self._reads = outer

    def text(self, query: str) -> tuple[str, Reads]:
        """A query with names that the lake knows, and what it reads."""
        outer, self._reads = self._reads, Reads()
        try:
            return rewrite(query, self), self._reads
        finally:
            self._reads = outer

    def sql(self, text: str) -> DataFrame:
        return _SQL(self.lake.spark, rewrite(text, self))

    def shape_of(self, query: str, table: str, shape: StructType) -> StructType:
        """The columns of a query over a table that has these columns, and need not be there."""
        spark = self.lake.spark
        name = f"nabla_shape_of_{table}"
        spark.createDataFrame([], shape).createOrReplaceTempView(name)
        self.made.add(name)
        return _SQL(spark, query.replace(f"`{table}`", name)).schema

    # ------------------------------------------------------ names in texts

    def table(self, parts: tuple[str, ...]) -> str | None:
        name = self.registry.names.in_lake(parts)
        if name is None:
            return None
        self._note(name)
        element = self.elements.get(name.lower())
        if element is not None and self._is_stream(element):
            return self._shown(self._again(element), f"stream_{name}")
        return name

    def stream(self, parts: tuple[str, ...]) -> str | None:
        name = self.registry.names.in_lake(parts)
        if name is None:
            return None
        frame = self._stream(name, {})
        return None if frame is None else self._shown(frame, f"stream_{name}")

    def files(self, read: FilesRead, streaming: bool) -> str | None:
        key = hashlib.sha256(repr((read.path, sorted(read.options.items()), streaming)).encode()).hexdigest()[:12]
        checkpoint = self._reads.checkpoint if streaming else None
        return self._shown(read_files(self.lake.spark, read, streaming, checkpoint), f"files_{key}")

    def _shown(self, frame: DataFrame, name: str) -> str:
        """The name under which the session knows a frame."""
        made = f"nabla_{name}"
        frame.createOrReplaceTempView(f"`{made}`")
        self.made.add(made)
        return f"`{made}`"

    def forget(self) -> None:
        """Drop the temporary views that were made."""
        for name in self.made:
            self.lake.spark.catalog.dropTempView(name)
        self.made.clear()

    # ------------------------------------------------------ names in Python

    def _read(self, name: str, streaming: bool) -> DataFrame:
        return self._stream_of(name, {}) if streaming else self._table_of(self.lake.spark, name)

    def _replacements(self) -> list[tuple[type, str, Callable[..., Any]]]:
        reading = self

        def table(session: SparkSession, name: str) -> DataFrame:
            return reading._table_of(session, name)

        def read_table(reader: DataFrameReader, name: str) -> DataFrame:
            lake_name = reading.registry.names.in_lake(split_name(name))
            return _READ_TABLE(reader, name) if lake_name is None else reading._table_of(reading.lake.spark, name)

        def sql(session: SparkSession, text: str, *arguments: Any, **named: Any) -> DataFrame:
            return _SQL(session, rewrite(text, reading), *arguments, **named)

        def option(reader: DataStreamReader, key: str, value: Any) -> DataStreamReader:
            given = reader.__dict__.setdefault("nabla_options", {})
            given[str(key).lower()] = str(value).lower()
            return _STREAM_OPTION(reader, key, value)

        def stream_table(reader: DataStreamReader, name: str) -> DataFrame:
            given = reader.__dict__.get("nabla_options", {})
            if reading.registry.names.in_lake(split_name(name)) is None:
                return _STREAM_TABLE(reader, name)
            return reading._stream_of(name, given)

        def stream_format(reader: DataStreamReader, source: str) -> Any:
            if str(source).lower() != "cloudfiles":
                return _STREAM_FORMAT(reader, source)
            return CloudFiles(reader, reading._reads.checkpoint)

        return [
            (SparkSession, "table", table),
            (DataFrameReader, "table", read_table),
            (SparkSession, "sql", sql),
            (DataStreamReader, "option", option),
            (DataStreamReader, "table", stream_table),
            (DataStreamReader, "format", stream_format),
        ]

    def _table_of(self, session: SparkSession, name: str) -> DataFrame:
        lake_name = self.registry.names.in_lake(split_name(name))
        if lake_name is None:
            return _TABLE(session, name)
        self._note(lake_name)
        element = self.elements.get(lake_name.lower())
        if element is not None and self._is_stream(element):
            return self._again(element)
        return _TABLE(session, f"`{lake_name.replace('`', '``')}`")

    def _stream_of(self, name: str, options: Mapping[str, str]) -> DataFrame:
        lake_name = self.registry.names.in_lake(split_name(name)) or name
        frame = self._stream(lake_name, options)
        return _STREAM_TABLE(self.lake.spark.readStream, name) if frame is None else frame

    # ------------------------------------------------------ streams

    def _stream(self, name: str, options: Mapping[str, str]) -> DataFrame | None:
        """The stream of a dataset or of a table of the lake; None if the lake has no such name."""
        self._note(name)
        element = self.elements.get(name.lower())
        if element is not None and element.kind == "temporary_view":
            frame = self._again(element)
            if not frame.isStreaming:
                raise NablaError(
                    "NABLA_STREAMING",
                    f'"{element.name}" is read as a stream, and its query is none',
                    place=element.place,
                    remedy="Let the view read a stream, or read it as a table.",
                )
            return frame
        entry = self.lake.context.names(self.lake.context.log.state()).find(name)
        planned = entry is None and element is not None
        if entry is None and not planned:
            return None
        schema = _TABLE(self.lake.spark, f"`{name}`").schema
        form = "rows" if entry is None else self._form(entry.name, options)
        checkpoint = self._reads.checkpoint
        if checkpoint is None:  # nothing is run: the shape is all that counts
            return LakeInput(name, form, Path(self._empty.name)).frame(self.lake.spark, schema)
        known = LakeInput(entry.name if entry else name, form, checkpoint.input(name))
        self._reads.inputs[name.lower()] = known
        return known.frame(self.lake.spark, schema)

    def _form(self, name: str, options: Mapping[str, str]) -> Form:
        if options.get("readchangefeed") == "true" or options.get("readchangedata") == "true":
            return "changes"
        if "true" in (options.get("skipchangecommits"), options.get("ignorechanges"), options.get("ignoredeletes")):
            return "inserted"
        return form_of(self.lake.context.log.state(), name)

    def _is_stream(self, element: Element) -> bool:
        """Whether a temporary view is a stream. It is evaluated for each stream that reads it, which has inputs of its own."""
        if element.kind != "temporary_view":
            return False
        return bool(_TABLE(self.lake.spark, f"`{element.name}`").isStreaming)

    def _again(self, element: Element) -> DataFrame:
        assert element.query is not None
        with self.around():
            frame = self.sql(element.query) if isinstance(element.query, str) else element.query()
        assert isinstance(frame, DataFrame)
        return guarded(element.expectations, frame)

    def _note(self, name: str) -> None:
        key = name.lower()
        self._reads.names.add(key)
        if key in self.elements and key not in self.done:
            raise Waits(key)


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an object or class another attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
