"""A folder where files arrive, are replaced and go: each file is a piece, known by its name, size, times and checksum."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from nabla.engine import types
from nabla.engine.spark.frames import Workspace
from nabla.errors import NablaError, wrong_argument
from nabla.sources.port import Definition, Piece, Position, away, bad_file, bad_row, moving
from nabla.storage import foreign_files, locations
from nabla.storage.copied_table import PIECE
from nabla.storage.foreign_files import FRESH, FilePattern
from nabla.storage.names import safe

Format = Literal["csv", "json", "orc", "parquet", "text"]

_BY_ENDING: Mapping[str, Format] = {
    **dict.fromkeys(("csv", "tsv"), "csv"),
    **dict.fromkeys(("json", "jsonl", "ndjson"), "json"),
    **dict.fromkeys(("parquet", "pq", "parq"), "parquet"),
    "orc": "orc",
    **dict.fromkeys(("txt", "text", "log"), "text"),
}
_PACKED = re.compile(r"\.(?:gz|bz2|zst|lz4|snappy|deflate)$", re.I)
_ENDING = re.compile(r"\.([A-Za-z0-9]+)$")

RESCUED = "_rescued"
"""The column for the text of rows that do not have the registered columns."""
_WITH_BAD_ROWS = ("csv", "json")
_TEXT = StructType([StructField("value", StringType())])
_SET_HERE = (
    *("mode", "columnnameofcorruptrecord", "basepath", "path", "paths", "recursivefilelookup", "pathglobfilter"),
    *("modifiedbefore", "modifiedafter", "ignorecorruptfiles", "ignoremissingfiles", "enforceschema", "inferschema"),
)
"""Options of Spark's readers that would make files or rows vanish, or that Nabla sets itself."""
_PATTERN_SIGN = re.compile(r"[*?\[\]{}\\]")
_ONE_TASK = 32 << 20
"""Bytes that one task reads: a few small files become one file of the copy."""
_FILE_IN_ERROR = re.compile(r"(?:while reading file|read footer for file:?) *([^\s,]+?)\.? *(?:SQLSTATE|\s|$)")
_ROW_IN_ERROR = re.compile(r"record parsing: (.*?)\.\s+Parse Mode", re.S)


@dataclass(frozen=True)
class Files:
    """The files that a pattern names. `rescues` keeps rows that do not have the columns in `RESCUED`."""

    pattern: FilePattern
    format: Format
    options: Mapping[str, str]
    rescues: bool
    workspace: Callable[[], Workspace]

    @classmethod
    def restore(cls, definition: Definition, workspace: Callable[[], Workspace]) -> Files:
        pattern, kind = FilePattern(definition["files"]), definition["format"]
        return cls(pattern, kind, definition["options"], definition["bad_rows"] == "rescue", workspace)

    def to_json(self) -> Definition:
        said = {"kind": "files", "files": locations.named(self.pattern.text), "format": self.format}
        return {**said, "options": dict(self.options), "bad_rows": "rescue" if self.rescues else "error"}

    @property
    def place(self) -> str:
        return locations.named(self.pattern.text)

    # ------------------------------------------------------------------- looking

    def look(self, known: Mapping[str, Piece]) -> Position:
        self._check_there()
        pieces = {}
        for path in sorted(self.pattern.paths()):
            if (seen := foreign_files.stamp(path)) is None:
                continue  # it has gone since the folder was listed
            if _PATTERN_SIGN.search(path):
                raise bad_file(path, "Spark would take a sign in its name for a pattern")
            before = known.get(path)
            if before is not None and before.stamp == seen and not seen.endswith(FRESH):
                pieces[path] = before
                continue
            try:
                pieces[path] = Piece(seen, foreign_files.digest(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise away(path, str(error)) from error
        return Position("", f"{len(pieces)} files", StructType(), pieces)

    def has_moved(self, identity: str, version: str, known: Mapping[str, Piece]) -> bool | None:
        self._check_there()
        found = {path: foreign_files.stamp(path) for path in self.pattern.paths()}
        return found.keys() != known.keys() or any(
            stamp is None or stamp.endswith(FRESH) or stamp != known[path].stamp for path, stamp in found.items()
        )

    def _check_there(self) -> None:
        if not locations.is_folder(self.pattern.base):
            raise away(self.place, f"there is no folder {self.pattern.base}")

    def infer(self, position: Position) -> StructType:
        """The columns of the files that are there now."""
        if self.format == "text":
            return _TEXT
        paths = list(position.pieces or ())
        if not paths:
            raise NablaError(
                "NABLA_NO_SCHEMA",
                "there is no file yet whose columns could be taken",
                place=self.place,
                remedy='Pass schema="…".',
            )
        with self.workspace() as workspace, _reading(self.place):
            reader = self._reader(workspace).option("mergeSchema", "true")
            if self.format == "csv":
                reader = reader.option("inferSchema", "true")
            found = reader.load(paths).schema
        return types.to_stored(found, found.names)

    # ------------------------------------------------------------------- reading

    def write(self, position: Position, schema: StructType, numbers: Mapping[str, int] | None, folder: str) -> int:
        assert numbers is not None
        assert position.pieces is not None
        if not numbers:
            return 0
        paths, stored = list(numbers), types.to_stored(schema, safe(schema.names))
        size = sum(_size(position.pieces[path]) for path in paths)
        with self.workspace() as workspace, _reading(self.place):
            reader = self._reader(workspace).schema(types.to_stored(schema, schema.names))
            frame = reader.load(paths)
            columns = [frame[f"`{name.replace('`', '``')}`"] for name in schema.names]
            numbered = self._numbered(workspace, frame.select(*columns, _path().alias(PIECE)), numbers)
            frame = numbered.toDF(*stored.names, PIECE)
            (frame.coalesce(1) if size <= _ONE_TASK else frame).write.parquet(folder)
        for path in paths:
            self._check_same(path, position.pieces[path])
        return size

    def _reader(self, workspace: Workspace) -> DataFrameReader:
        reader = workspace.session.read.format(self.format).options(**self.options)
        reader = reader.option("basePath", self.pattern.base)
        reader = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
        if self.format == "csv":
            reader = reader.option("enforceSchema", "false")
        if self.format not in _WITH_BAD_ROWS:
            return reader
        if self.rescues:
            return reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", RESCUED)
        return reader.option("mode", "FAILFAST")

    def _numbered(self, workspace: Workspace, frame: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
        """The rows with the number of their file in the place of its path."""
        names = frame.columns[:-1]
        if len(numbers) == 1:
            return frame.drop(PIECE).withColumn(PIECE, F.lit(next(iter(numbers.values()))).cast("bigint"))
        shape = StructType([StructField("path", StringType()), StructField("number", LongType())])
        listed = pa.table({"path": list(numbers), "number": pa.array(numbers.values(), pa.int64())})
        files = workspace.hold(listed, shape)
        met = frame.toDF(*(f"c{i}" for i, _ in enumerate(names)), PIECE)
        met = met.join(F.broadcast(files), met[PIECE] == files["path"], "left")
        number = F.expr(f"coalesce(number, raise_error(concat('a row of no listed file: ', {PIECE})))")
        return met.select(*(f"c{i}" for i, _ in enumerate(names)), number.cast("bigint")).toDF(*names, PIECE)

    def _check_same(self, path: str, piece: Piece) -> None:
        """Raise NABLA_MOVING where a file is not the one any more that was looked at."""
        now = foreign_files.stamp(path)
        same = now is not None and now.rstrip(FRESH) == piece.stamp.rstrip(FRESH)
        if not same or (piece.stamp.endswith(FRESH) and foreign_files.digest(path) != piece.digest):
            raise moving(path)


def files_origin(
    pattern: str | os.PathLike[str],
    format: str | None,
    options: Mapping[str, str] | None,
    bad_rows: str,
    workspace: Callable[[], Workspace],
    zone: Callable[[], str],
) -> Files:
    """The files that a user registers, with checked arguments. Their format is that of their ending, unless it is given."""
    found = FilePattern(FilePattern(os.fspath(pattern)).whole)  # a folder stays one when it is away
    kind = _format_of(found, format)
    if bad_rows not in ("error", "rescue"):
        raise wrong_argument("bad_rows", bad_rows, '"error" or "rescue"')
    if bad_rows == "rescue" and kind not in _WITH_BAD_ROWS:
        raise _refused("bad_rows=", f"{kind} files have no single rows that could be bad", "Leave it out.")
    if refused := [name for name in options or () if name.lower() in _SET_HERE]:
        raise _refused("options=", f'the option "{refused[0]}" is set by Nabla', "Leave it out.")
    return Files(found, kind, _all_options(found, kind, options or {}, zone), bad_rows == "rescue", workspace)


def with_rescued(files: Files, schema: StructType) -> StructType:
    """The columns of the table: those of the files and, where bad rows are kept, one for these."""
    if not files.rescues or RESCUED in schema.names:
        return schema
    return StructType([*schema.fields, StructField(RESCUED, StringType())])


def _all_options(
    pattern: FilePattern, kind: Format, given: Mapping[str, str], zone: Callable[[], str]
) -> dict[str, str]:
    """What a file means must not depend on who reads it: the settings that would decide are options from now on."""
    own = {name.lower() for name in given}
    usual: dict[str, str] = {}
    if kind == "csv":
        usual["header"] = "true"
        if pattern.text.lower().endswith((".tsv", ".tsv.gz")):
            usual["sep"] = "\t"
    if kind in _WITH_BAD_ROWS and "timezone" not in own:
        usual["timeZone"] = zone()
    return {name: text for name, text in usual.items() if name.lower() not in own} | dict(given)


def _format_of(pattern: FilePattern, given: str | None) -> Format:
    kinds = sorted(set(_BY_ENDING.values()))
    if given is not None:
        if given.lower() not in kinds:
            raise _refused("format=", f"there is no adapter for the format {given!r}", f"Use {', '.join(kinds)}.")
        return given.lower()  # type: ignore[return-value]
    named = _by_ending(pattern.text)
    if named is not None:
        return named
    found = {_by_ending(path) for path in pattern.paths()} if locations.is_folder(pattern.base) else set()
    if len(found) == 1 and (only := found.pop()) is not None:
        return only
    raise _refused(
        "format=",
        f"the names of the files do not tell their format ({pattern.text})",
        f"Say which: {', '.join(kinds)}.",
    )


def _by_ending(path: str) -> Format | None:
    ending = _ENDING.search(_PACKED.sub("", path))
    return _BY_ENDING.get(ending[1].lower()) if ending else None


def _refused(place: str, what: str, remedy: str) -> NablaError:
    return NablaError("NABLA_SOURCE", what, place=place, remedy=remedy)


def _path() -> Column:
    """The path of the file of a row as `FilePattern` has it. Spark hands out URIs, with codes for unusual signs."""
    uri = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))
    return F.regexp_replace(F.url_decode(uri), "^file:/+", "/")


def _size(piece: Piece) -> int:
    return int(piece.stamp.split(" ")[0])


class _reading:
    """Turns errors of Spark that say something about a file into errors of the source."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if not isinstance(error, PySparkException | Py4JJavaError):
            return
        text = str(error)
        file = _FILE_IN_ERROR.search(text)
        place = file[1] if file else self._place
        if row := _ROW_IN_ERROR.search(text):
            raise bad_row(place, row[1]) from None
        if file or "header" in text.lower() or "PATH_NOT_FOUND" in text or "CONFLICTING_DIRECTORY" in text:
            raise bad_file(place, _first_line(text)) from None


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "no reason was given")
