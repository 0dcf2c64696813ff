"""Files as Databricks reads them, `read_files` and the source `cloudFiles`, by Spark's own readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

from nabla.errors import NablaError
from nabla.frontends.pipelines.references import FilesRead
from nabla.lake.streams.checkpoints import Checkpoint

RESCUED = "_rescued_data"
"""The column that has the text of records which do not fit the columns."""
_KINDS = {"csv", "json", "parquet", "orc", "text", "avro", "xml", "binaryfile"}
_OWN = ("format", "schema", "schemahints", "inferschema", "infercolumntypes", "schemaevolutionmode", "schemalocation")
_FORMAT = DataStreamReader.format


class CloudFiles:
    """`spark.readStream.format("cloudFiles")`: new files of a folder, read once each."""

    def __init__(self, reader: DataStreamReader, checkpoint: Checkpoint | None) -> None:
        self._spark = reader._spark  # noqa: SLF001 - the reader has no other way to its session
        self._checkpoint = checkpoint
        self._options: dict[str, str] = {}
        self._schema: StructType | str | None = None

    def option(self, key: str, value: Any) -> CloudFiles:
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> CloudFiles:
        for key, value in options.items():
            self.option(key, value)
        return self

    def schema(self, schema: StructType | str) -> CloudFiles:
        self._schema = schema
        return self

    def format(self, source: str) -> CloudFiles:
        return self

    def load(self, path: str | None = None, *_: Any, **options: Any) -> DataFrame:
        self.options(**options)
        place = path or self._options.pop("path", "")
        plain = {key.removeprefix("cloudFiles."): value for key, value in self._options.items()}
        return _load(self._spark, place, plain, self._schema, True, self._checkpoint)


def read_files(spark: SparkSession, read: FilesRead, streaming: bool, checkpoint: Checkpoint | None) -> DataFrame:
    """The frame that read_files or cloud_files stands for. Types are inferred unless the call says otherwise."""
    options = {"inferColumnTypes": "true", "header": "true", **read.options}
    return _load(spark, read.path, options, read.options.get("schema"), streaming, checkpoint)


def _load(
    spark: SparkSession,
    path: str,
    given: Mapping[str, str],
    schema: StructType | str | None,
    streaming: bool,
    checkpoint: Checkpoint | None,
) -> DataFrame:
    options = {key: value for key, value in given.items() if key.lower() not in _OWN}
    asked = {key.lower(): value for key, value in given.items()}
    kind = asked.get("format", "").lower()
    if kind not in _KINDS:
        raise NablaError(
            "NABLA_FILES",
            f'files of the format "{kind}" cannot be read' if kind else "the format of the files is not said",
            place=path,
            remedy=f"Set cloudFiles.format or format to one of {', '.join(sorted(_KINDS))}.",
        )
    if schema is None:
        schema = _recalled(checkpoint, path) or _inferred(spark, path, kind, options, asked)
        if checkpoint is not None:
            checkpoint.remember(f"schema of {path}", schema.json())
    if isinstance(schema, StructType) and RESCUED in schema.names and kind in ("csv", "json"):
        options["columnNameOfCorruptRecord"] = RESCUED
    if streaming:
        return _FORMAT(spark.readStream, kind).schema(schema).options(**options).load(path)
    return spark.read.format(kind).schema(schema).options(**options).load(path)


def _recalled(checkpoint: Checkpoint | None, path: str) -> StructType | None:
    """The columns that a stream began with: files that come later do not change them."""
    text = checkpoint.recall(f"schema of {path}") if checkpoint is not None else None
    return StructType.fromJson(json.loads(text)) if text else None


def _inferred(
    spark: SparkSession, path: str, kind: str, options: Mapping[str, str], asked: Mapping[str, str]
) -> StructType:
    """The columns of the files that are there, with a column for what does not fit."""
    types = asked.get("infercolumntypes", asked.get("inferschema", "false")).lower() == "true"
    reader = spark.read.format(kind).options(**options)
    if kind in ("csv", "json"):
        reader = reader.option("inferSchema" if kind == "csv" else "primitivesAsString", types == (kind == "csv"))
    found = reader.load(path).schema
    if "schemahints" in asked:
        hints = cast(StructType, StructType.fromDDL(asked["schemahints"]))
        known = {field.name.lower(): field for field in hints}
        fields = [known.pop(field.name.lower(), field) for field in found]
        found = StructType([*fields, *known.values()])
    if (
        kind in ("csv", "json")
        and RESCUED not in found.names
        and asked.get("schemaevolutionmode", "").lower() != "none"
    ):
        found = StructType([*found.fields, StructField(RESCUED, StringType())])
    return found
