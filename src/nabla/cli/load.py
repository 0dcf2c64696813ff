"""Tables that a project loads into its lake from outside: files named in its specification, and queries that read files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.engine import types
from nabla.errors import NablaError
from nabla.frontends.pipelines.specification import TableSource
from nabla.lake.environments.environments import settle
from nabla.lake.environments.log import EnvironmentLog
from nabla.storage.table import StoredTable

if TYPE_CHECKING:
    from nabla.lake.facade import Lake

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}


@dataclass(frozen=True)
class Loaded:
    """The way in which a table was made equal to a query: `load` the first time, `reload` when it differed, else `skip`."""

    mode: str
    inserted: int
    deleted: int


def load_table(lake: Lake, source: TableSource) -> None:
    """Create a table of the specification: register a Delta table, load files of any other kind."""
    if (source.path / "_delta_log").is_dir():
        lake.register(source.name, source.path, key=source.key or None)
    else:
        lake.create_table(source.name, source.schema, _read_files(lake, source), key=source.key or None)


def columns_of_source(lake: Lake, source: TableSource) -> StructType:
    """The columns that a table of the specification will have. Nothing is loaded."""
    if (source.path / "_delta_log").is_dir():
        return types.from_json(StoredTable(source.path).snapshot().schema_json)
    if source.schema is not None:
        return types.parse(source.schema)
    return _read_files(lake, source).schema


def load_query(lake: Lake, name: str, frame: DataFrame) -> Loaded:
    """Make a table hold what a query returns now, by its difference: the views that read the table see only that."""
    if name not in lake.status():
        lake.create_table(name, data=frame)
        return Loaded("load", lake.status()[name].rows or 0, 0)
    now = frame.localCheckpoint()  # computed once, whatever it reads or calls
    before = lake.read(name)
    if isinstance(log := lake.context.log, EnvironmentLog) and log.is_shared(name):
        if before.exceptAll(now).isEmpty() and now.exceptAll(before).isEmpty():
            return Loaded("skip", 0, 0)
        settle(log, [name], ())  # the environment gets a table of its own
        lake.create_table(name, data=now)
        return Loaded("load", lake.status()[name].rows or 0, 0)
    version = lake.status()[name].version
    with lake.transaction() as tx:
        tx.delete(name, rows=before.exceptAll(now))
        tx.insert(name, now.exceptAll(before))
    if lake.status()[name].version == version:
        return Loaded("skip", 0, 0)
    event = lake.history(name)[0]
    return Loaded("reload", event.inserted, event.deleted)


def reads_lake(lake: Lake, frame: DataFrame) -> bool:
    return any(lake.path in file for file in frame.inputFiles())


def _read_files(lake: Lake, source: TableSource) -> DataFrame:
    files = [source.path] if source.path.is_file() else sorted(source.path.glob("*"))
    kinds = {FORMATS[file.suffix] for file in files if file.suffix in FORMATS}
    if len(kinds) != 1:
        raise NablaError(
            "NABLA_PROJECT",
            f'the files of table "{source.name}" are missing or of more than one kind',
            place=str(source.path),
            remedy="Name a .csv, .json or .parquet file, a folder of them or a Delta table.",
        )
    kind = kinds.pop()
    reader = lake.spark.read.format(kind)
    if kind == "csv":
        reader = reader.option("header", True).option("inferSchema", source.schema is None)
    if source.schema is not None:
        declared = types.parse(source.schema)
        reader = reader.schema(types.to_stored(declared, declared.names))
        # Otherwise Spark reads what does not fit as NULL, and takes the columns of a CSV file in any order.
        reader = reader.option("mode", "FAILFAST").option("enforceSchema", False)
    return reader.load(source.path.as_uri())
