"""Tables and views of the lake as inputs of streams: their rows and then their changes, as files that Spark's file stream
reads. Each export goes from one version to a later one, and appears in one step."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from nabla.algebra.nodes.base import Node
from nabla.algebra.nodes.operators import Filter, Generate, Join, Project, Scan, UnionAll
from nabla.engine.feed import FEED_COLUMNS, FEED_KIND, FEED_VERSION
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.sources import current_version
from nabla.lake.objects.view import load_view
from nabla.lake.read import read, read_changes
from nabla.storage.catalog import Entry, LakeState

Form = Literal["rows", "inserted", "changes"]
"""What a stream gets: rows, and an error once some are deleted; inserted rows alone; or all changes, with their type."""
_NOTE = ".nabla.json"


@dataclass(frozen=True)
class LakeInput:
    """A table or view that a stream reads, with the folder of its exports."""

    name: str
    form: Form
    folder: Path

    def frame(self, session: SparkSession, schema: StructType) -> DataFrame:
        """The stream of the exports."""
        self.folder.mkdir(parents=True, exist_ok=True)
        columns = StructType([*schema.fields, StructField(FEED_KIND, StringType())]) if self.typed else schema
        reader = session.readStream.schema(columns).option("recursiveFileLookup", True)
        return reader.parquet(self.folder.as_uri())

    @property
    def typed(self) -> bool:
        return self.form == "changes"

    def export(self, context: LakeContext, remedy: str) -> None:
        """Write what has happened since the last export."""
        entry = context.names(context.log.state()).entry(self.name)
        self._check_source(entry, remedy)
        version, last = current_version(context.log, entry), self._exported()
        if last is not None and version <= last:
            return
        if last is None:
            rows = read(context, entry.name, None if entry.kind == "registered" else version, False)
            rows = rows.withColumn(FEED_KIND, F.lit("insert")) if self.typed else rows
        else:
            rows = self._changes(context, entry, last, version, remedy)
        new = self.folder / f".new-{os.getpid()}"
        shutil.rmtree(new, ignore_errors=True)
        with context.translating(f'stream of "{entry.name}"'):
            rows.write.parquet(new.as_uri())
        os.replace(new, self.folder / f"{0 if last is None else last + 1}-{version}")

    def clear(self) -> None:
        """Delete the rows of exports that the stream has read; the folder of the last one stays, to say how far it went."""
        last = self._exported()
        for one in self.folder.iterdir() if self.folder.is_dir() else ():
            if not one.is_dir():
                continue
            if one.name.endswith(f"-{last}"):
                for file in one.iterdir():
                    file.unlink()
            else:
                shutil.rmtree(one, ignore_errors=True)

    def _changes(self, context: LakeContext, entry: Entry, last: int, version: int, remedy: str) -> DataFrame:
        found = read_changes(context, entry.name, last, False).where(F.col(FEED_VERSION) <= version)
        names = [column for column in found.columns if column not in FEED_COLUMNS]
        columns = [F.col(f"`{name.replace('`', '``')}`") for name in names]
        if self.typed:
            return found.select(*columns, FEED_KIND)
        if self.form == "rows" and (deleted := found.where(F.col(FEED_KIND) == "delete").count()):
            raise NablaError(
                "NABLA_STREAM_CHANGED",
                f'{deleted} rows were deleted from "{entry.name}", and a stream of rows cannot say so',
                place=f'"{entry.name}" after version {last}',
                remedy='Read it with .option("readChangeFeed", "true") to get changes with their type, or with '
                f'.option("skipChangeCommits", "true") to leave deletions out. {remedy}',
            )
        return found.where(F.col(FEED_KIND) == "insert").select(*columns)

    def _exported(self) -> int | None:
        """The version that the newest export goes up to."""
        names = [one.name for one in self.folder.iterdir()] if self.folder.is_dir() else []
        versions = [int(name.rpartition("-")[2]) for name in names if name[:1].isdecimal()]
        return max(versions, default=None)

    def _check_source(self, entry: Entry, remedy: str) -> None:
        """Refuse a source that was built again, or is read in another form: its versions have another meaning."""
        note, said = self.folder / _NOTE, {"path": entry.parts["data"].path, "form": self.form}
        if not note.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            note.write_text(json.dumps(said), encoding="utf-8")
        elif json.loads(note.read_text(encoding="utf-8")) != said:
            raise NablaError(
                "NABLA_STREAM_CHANGED",
                f'"{entry.name}" was built again, or is now read in another form',
                place=f'stream of "{entry.name}"',
                remedy=remedy,
            )


def form_of(state: LakeState, name: str) -> Form:
    """Rows, where nothing but insertions can happen or has happened; else changes."""
    return "rows" if _only_grows(state, name) else "changes"


def _only_grows(state: LakeState, name: str) -> bool:
    """Whether the rows of a table or view stay once they are there: a table's for all that is known, those of a view by its
    query."""
    entry = state.entries[name]
    if not is_derived(entry):
        return True
    view = load_view(name, entry.definition)
    if view.clock or view.recursive or view.opaque:
        return False
    return _grows(view.plan) and all(_only_grows(state, source) for source in view.sources)


def _grows(plan: Node) -> bool:
    if isinstance(plan, Join) and plan.kind != "inner":
        return False
    return isinstance(plan, Scan | Filter | Project | UnionAll | Generate | Join) and all(map(_grows, plan.inputs))
