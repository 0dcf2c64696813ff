"""Streaming tables and sinks of a project: their flows are loaded by Spark's Structured Streaming, as far as there is something
new, each batch in one commit of the lake."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType

from nabla.cli.expectations import ExpectationReport, check_conditions, meet
from nabla.cli.reading import Reading, Reads
from nabla.engine import types
from nabla.errors import NablaError
from nabla.frontends.pipelines.capture import check_events, events_table, project_events, target_query
from nabla.frontends.pipelines.elements import Element, Flow
from nabla.frontends.pipelines.project import python_error
from nabla.lake.streams.batches import Progress, add_batch, progress_of, restart
from nabla.lake.streams.checkpoints import Checkpoint, checkpoint_of, forget, newest_generation
from nabla.storage.delta_sink import append_to_delta

if TYPE_CHECKING:
    from nabla.lake.facade import Lake


@dataclass(frozen=True)
class Streamed:
    """What the flows into a target have done: rows that it has more or less, batches, and expectations."""

    inserted: int
    deleted: int
    batches: int
    created: bool
    expectations: tuple[ExpectationReport, ...] = ()


class Target:
    """A streaming table or sink with its flows. `events` is the table that a change stream is kept in; otherwise the rows go to
    the streaming table itself."""

    def __init__(self, lake: Lake, reading: Reading, element: Element, refresh: Callable[[set[str]], None]) -> None:
        self.lake = lake
        self.reading = reading
        self.element = element
        self.refresh = refresh
        self.flows = _flows(element)
        self.capture = self.flows[0].capture if self.flows else None
        self.table = events_table(element.name) if self.capture is not None else element.name
        self.failed: dict[str, int] = {}
        self.batches = 0

    # ------------------------------------------------------ shape

    def shape(self) -> StructType:
        """The columns of the table that batches go to: the declared ones, or those of all flows together."""
        if self.element.schema is not None and self.capture is None:
            given = self.element.schema
            return given if isinstance(given, StructType) else types.parse(given)
        fields: dict[str, StructField] = {}
        for flow in self.flows:
            frame, _ = self.frame(flow, None)
            for found in frame.schema:
                fields.setdefault(found.name.lower(), StructField(found.name, found.dataType, True))
        if not fields:
            raise NablaError(
                "NABLA_FLOW",
                f'"{self.element.name}" has no schema, and no flow writes to it',
                place=self.element.place,
                remedy="Declare its columns, or add a flow to it.",
            )
        return StructType(list(fields.values()))

    def visible_shape(self) -> StructType:
        """The columns that readers of the target see."""
        shape = self.shape()
        if self.capture is None:
            return shape
        return self.reading.shape_of(
            target_query(self.capture, self.table, shape.names, self.flows[0].place), self.table, shape
        )

    def check(self) -> None:
        """Evaluate the flows, and run none."""
        for flow in self.flows:
            self.frame(flow, None)

    def frame(self, flow: Flow, checkpoint: Checkpoint | None) -> tuple[DataFrame, Reads]:
        """The rows or events of a flow, as the table takes them, and what it reads."""
        query = flow.query
        if query is None:
            assert flow.capture is not None
            assert flow.capture.source is not None
            query = "SELECT * FROM STREAM " + ".".join(
                f"`{part}`" for part in flow.capture.source.replace("`", "").split(".")
            )
        try:
            frame, reads = self.reading.evaluate(query, checkpoint)
        except NablaError:
            raise
        except PySparkException as error:
            if isinstance(query, str):
                raise
            if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":  # it may be made later in this run
                raise
            raise python_error(error, self._file(flow), str(flow.file)) from error
        except Exception as error:
            raise python_error(error, self._file(flow), str(flow.file)) from error
        self._check_frame(flow, frame)
        check_conditions(self.element.expectations, frame, self.element.place)
        return frame if flow.capture is None else project_events(flow.capture, frame, flow.place), reads

    def _file(self, flow: Flow) -> Path:
        return Path(os.path.normpath(self.reading.registry.spec.folder / flow.file))

    def _check_frame(self, flow: Flow, frame: Any) -> None:
        if not isinstance(frame, DataFrame):
            raise NablaError(
                "NABLA_PROJECT_PYTHON",
                f'the function of "{flow.name}" returns {type(frame).__name__}, not a DataFrame',
                place=flow.place,
                remedy="Return a DataFrame.",
            )
        if frame.isStreaming == flow.once:
            raise NablaError(
                "NABLA_FLOW",
                f'the flow "{flow.name}" is to run once, and reads a stream'
                if flow.once
                else f'the flow "{flow.name}" into "{self.element.name}" reads no stream',
                place=flow.place,
                remedy="Read with spark.read or a query without STREAM."
                if flow.once
                else "Read a stream, or say once=True.",
            )

    @property
    def _remedy(self) -> str:
        return f"Load the table again from the beginning with `nabla run --full-refresh {self.element.name}`."

    # ------------------------------------------------------ loading

    def load(self, full: bool) -> Streamed:
        """Bring the target up to date with its flows; `full` begins anew."""
        created = self._make()
        if full and not created:
            self._restart()
        before = self._rows()
        for flow in self.flows:
            self._load(flow)
        more = self._rows() - before
        reports = tuple(
            ExpectationReport(one.name, one.action, self.failed.get(one.name, 0)) for one in self.element.expectations
        )
        return Streamed(max(more, 0), max(-more, 0), self.batches, created, reports)

    def pass_by(self) -> str:
        """What an environment says of the target: streams are loaded into the lake alone, and read from it."""
        if self.element.kind != "sink" and self.element.name not in self.lake.status():
            raise NablaError(
                "NABLA_STREAMING",
                f'the lake has no "{self.element.name}", and environments load no streams',
                place=self.element.place,
                remedy="Run the project without --env first.",
            )
        return "streams are loaded into the lake itself"

    def _make(self) -> bool:
        """Create the table, and for a change stream the view of its events."""
        if self.element.kind == "sink":
            found = [newest_generation(self.lake.path, self.element.name, flow.name) for flow in self.flows]
            return max(found, default=0) < 0
        names = self.lake.context.names(self.lake.context.log.state())
        entry = names.find(self.table)
        if entry is not None and entry.kind != "table":
            names.check_new(self.table)
        if entry is None:
            self.lake.create_table(self.table, self.shape(), cluster_by=list(self.element.cluster_by) or None)
        if self.capture is not None:
            self._make_view(entry is None)
        return entry is None

    def _make_view(self, new: bool) -> None:
        assert self.capture is not None
        columns = types.from_json(self.lake.context.log.state().entries[self.table].definition["schema"]).names
        query = target_query(self.capture, self.table, columns, self.flows[0].place)
        try:
            self.lake.create_view(self.element.name, query, maintain="immediate", rebuild=new)
        except NablaError as error:
            if error.code == "NABLA_DEFINITION_CHANGED":
                self.lake.create_view(self.element.name, query, maintain="immediate", rebuild=True)
            elif error.code != "NABLA_EXISTS":
                raise

    def _restart(self) -> None:
        generations = {}
        for flow in self.flows:
            newest = newest_generation(self.lake.path, self.element.name, flow.name)
            generations[flow.name] = max(newest, self._progress(flow).generation) + 1
        if self.element.kind == "sink":
            for flow in self.flows:
                self._checkpoint(flow, Progress(generations[flow.name])).folder.mkdir(parents=True, exist_ok=True)
        else:
            restart(self.lake.context, self.table, generations)
        for name, generation in generations.items():
            forget(self.lake.path, self.element.name, name, generation)

    def _rows(self) -> int:
        if self.element.kind == "sink":
            return 0
        return int(self.lake.context.log.state().entries[self.element.name].facts.get("rows") or 0)

    def _progress(self, flow: Flow) -> Progress:
        if self.element.kind == "sink":
            return Progress(max(0, newest_generation(self.lake.path, self.element.name, flow.name)))
        return progress_of(self.lake.context.log.state().entries[self.table], flow.name)

    def _checkpoint(self, flow: Flow, progress: Progress) -> Checkpoint:
        state = self.lake.context.log.state()
        sink = self.element.kind == "sink"
        owner = f"sink {self.element.name}" if sink else state.entries[self.table].parts["data"].path
        return checkpoint_of(self.lake.path, self.element.name, flow.name, progress.generation, owner)

    def _load(self, flow: Flow) -> None:
        progress = self._progress(flow)
        checkpoint = self._checkpoint(flow, progress)
        with _settings(self.lake.spark, {**self.element.settings, **flow.settings}):
            if flow.once:
                self._load_once(flow, progress, checkpoint)
                return
            checkpoint.open(progress, self._remedy)
            _, reads = self.frame(flow, None)
            self.refresh(reads.names)
            frame, reads = self.frame(flow, checkpoint)
            for source in reads.inputs.values():
                source.export(self.lake.context, self._remedy)
            self._run(flow, progress.generation, checkpoint, frame)
            for source in reads.inputs.values():
                source.clear()

    def _load_once(self, flow: Flow, progress: Progress, checkpoint: Checkpoint) -> None:
        if self.element.kind == "sink":
            if checkpoint.recall("done") is None:
                writer: Any = (
                    self._accept(flow, self.frame(flow, None)[0]).write.mode("append").format(str(self.element.format))
                )
                writer.options(**self.element.options).save()
                checkpoint.remember("done", "yes")
            return
        if progress.batch < 0:
            rows = self._accept(flow, self.frame(flow, None)[0])
            first = replace(progress, batch=0)
            self.batches += add_batch(self.lake.context, self.table, flow.name, first, self._completed(rows))

    def _run(self, flow: Flow, generation: int, checkpoint: Checkpoint, frame: DataFrame) -> None:
        errors: list[NablaError] = []
        writer = frame.writeStream.option("checkpointLocation", checkpoint.state.as_uri())
        writer = self._directed(writer, flow, generation, checkpoint, errors)
        try:
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            if self.element.kind == "sink":
                self.batches += sum(1 for progress in query.recentProgress if progress["numInputRows"])
        except PySparkException as error:
            if errors:
                raise errors[0] from error
            raise self._failed(flow, error) from error

    def _failed(self, flow: Flow, error: PySparkException) -> NablaError:
        known = self.lake.context.translate(error, flow.place)
        if known.code == "NABLA_QUERY_FAILED":
            lines = [line for line in str(error).splitlines() if line.strip()]
            return NablaError(
                "NABLA_STREAM_FAILED",
                f'the flow "{flow.name}" failed: {lines[0]}',
                place=flow.place,
                remedy="Repeat the run; it goes on after the last batch.",
            )
        return known

    def _directed(
        self, writer: DataStreamWriter, flow: Flow, generation: int, checkpoint: Checkpoint, errors: list[NablaError]
    ) -> DataStreamWriter:
        """The writer, to the table or to the sink."""
        sink, kind = self.element, (self.element.format or "").lower()

        def add(rows: DataFrame, number: int) -> None:
            try:
                self._add(flow, Progress(generation, number), checkpoint, rows)
            except NablaError as error:
                errors.append(error)
                raise

        if sink.kind != "sink" or kind == "delta" or self.element.expectations:
            return writer.foreachBatch(add)
        if sink.handler is not None:
            return writer.foreachBatch(sink.handler)
        given = {key: value for key, value in sink.options.items() if key.lower() != "checkpointlocation"}
        return writer.format(str(sink.format)).options(**given).outputMode("append")

    def _add(self, flow: Flow, progress: Progress, checkpoint: Checkpoint, rows: DataFrame) -> None:
        """One batch."""
        self.batches += self.element.kind != "sink"
        kept = rows.persist() if self.element.expectations or flow.capture is not None else rows
        try:
            if flow.capture is not None:
                check_events(flow.capture, kept, flow.place)
            accepted = self._accept(flow, kept)
            if self.element.kind == "sink":
                append_to_delta(self.element.options, accepted.toArrow(), str(checkpoint.folder), progress.batch)
            else:
                add_batch(self.lake.context, self.table, flow.name, progress, self._completed(accepted))
        finally:
            if kept is not rows:
                kept.unpersist()

    def _completed(self, rows: DataFrame) -> DataFrame:
        """The rows with NULL in the columns of the table that this flow does not give."""
        schema = types.from_json(self.lake.context.log.state().entries[self.table].definition["schema"])
        given = {name.lower() for name in rows.columns}
        missing = {f.name: F.lit(None).cast(f.dataType) for f in schema if f.name.lower() not in given}
        return rows.withColumns(missing) if missing else rows

    def _accept(self, flow: Flow, rows: DataFrame) -> DataFrame:
        exempt = None if flow.capture is None else "__operation <> 'upsert'"
        what = f'the flow "{flow.name}" into "{self.element.name}"'
        rows, failed = meet(self.element.expectations, rows, what, self.element.place, exempt)
        for name, count in failed.items():
            self.failed[name] = self.failed.get(name, 0) + count
        return rows


def _flows(element: Element) -> tuple[Flow, ...]:
    """The flows of a target, with the one of its own query."""
    if element.query is None:
        return element.flows
    own = Flow(element.name, element.name, element.query, element.file, element.line, element.settings)
    return (own, *element.flows)


@contextlib.contextmanager
def _settings(spark: SparkSession, settings: Any) -> Iterator[None]:
    """Settings of a flow, while it runs."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)
