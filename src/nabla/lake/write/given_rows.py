"""Rows that users hand over to be put into a table by its key: which columns each of them has, and which keys are to go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NullType, Row, StructField, StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.engine.spark.frames import Workspace, read_parquet
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.write.generated import append_missing, append_nulls
from nabla.lake.write.table_change import TableChange
from nabla.storage import bags, locations

NUMBER, _GONE = "_nabla_row", "_nabla_gone"


@dataclass(frozen=True)
class Given:
    """Rows by key, each key once: `groups` are rows to put in place, under visible names, those with the same columns together;
    `gone` are keys of rows to delete."""

    groups: tuple[pa.Table, ...]
    gone: pa.Table


@dataclass(frozen=True)
class StoredFrame:
    """The rows of a DataFrame, computed once: `frame` has its columns, and their number last."""

    frame: DataFrame
    count: int


def read_given(
    context: LakeContext, change: TableChange, key: Sequence[str], rows: intake.Data, delete_when: str | None
) -> Given:
    """The rows for a table with this key. Columns that it lacks are for the condition `delete_when` only."""
    if isinstance(rows, DataFrame):
        with context.spark.workspace_in(rows.sparkSession) as workspace:
            return _from_frame(change, key, store_frame(workspace, rows).frame, delete_when)
    tables = [table for table in _tables(change, rows, delete_when) if table.num_rows]
    if delete_when is not None and tables:
        parts = [_told_apart(context, change, key, table, delete_when) for table in tables]
    else:
        parts = [Given((_fitted(change, key, table),), _no_keys(change, key)) for table in tables]
    groups = tuple(group for part in parts for group in part.groups)
    return Given(groups, pa.concat_tables([_no_keys(change, key), *(part.gone for part in parts)]))


def read_incomplete(context: LakeContext, change: TableChange, rows: intake.Data) -> pa.Table:
    """Rows to insert that may leave out columns with defaults, and numbers that they get later. Dicts may leave out any."""
    is_arrow = intake.arrow_table(rows, f'table "{change.name}"') is not None
    pieces = []
    for table in _tables(change, rows, None):
        completed = append_missing(context, change, table)
        every = completed if is_arrow else append_nulls(change, completed)
        pieces.append(intake.arrow_rows(every, change.visible, change.name))
    none = types.arrow_schema(types.to_stored(change.visible, change.visible.names)).empty_table()
    return pa.concat_tables([none, *pieces])


def store_frame(workspace: Workspace, frame: DataFrame) -> StoredFrame:
    """Compute a DataFrame once, whatever it reads or calls. Its rows live as long as the workspace."""
    fields = frame.schema.fields
    names = [f"c{place}" for place in range(len(fields))]
    real = [
        (name, field) for name, field in zip(names, fields, strict=True) if not isinstance(field.dataType, NullType)
    ]
    folder = workspace.path()
    renamed = frame.toDF(*names)
    renamed.select(F.monotonically_increasing_id().alias(NUMBER), *(name for name, _ in real)).write.parquet(folder)
    paths = locations.parquet_files(folder)
    schema = StructType([StructField(NUMBER, types.type_of("bigint"))])
    shape = StructType([*schema, *(StructField(name, field.dataType) for name, field in real)])
    stored = read_parquet(workspace.session, paths, shape)
    held = {name for name, _ in real}
    columns = [
        (F.col(name) if name in held else F.lit(None)).alias(field.name)
        for name, field in zip(names, fields, strict=True)
    ]
    count = sum(locations.parquet_footer(path).num_rows for path in paths)
    return StoredFrame(stored.select(*columns, F.col(NUMBER)), count)


def _tables(change: TableChange, rows: intake.Data, delete_when: str | None) -> list[pa.Table]:
    """The rows as Arrow tables: dicts with the same columns are one table."""
    arrow = intake.arrow_table(rows, f'table "{change.name}"')
    if arrow is not None:
        return [arrow]
    if isinstance(rows, Mapping | str | bytes) or not isinstance(rows, Iterable):
        return [intake.arrow_rows(rows, change.visible, change.name)]  # which refuses it
    plain: list[Any] = []
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        named = row.asDict(recursive=False) if isinstance(row, Row) and hasattr(row, "__fields__") else row
        if isinstance(named, Mapping):
            groups.setdefault(tuple(sorted(map(str, named))), []).append(named)
        else:
            plain.append(named)
    tables = [intake.arrow_rows(plain, change.visible, change.name)] if plain else []
    return tables + [_from_dicts(change, group, delete_when) for group in groups.values()]


def _from_dicts(change: TableChange, rows: list[Mapping[str, Any]], delete_when: str | None) -> pa.Table:
    """Dicts that have the same columns. The types of columns that the table lacks are those of their values."""
    if not rows[0]:
        return intake.arrow_rows(rows, change.visible, change.name)  # which refuses rows without columns
    known = {field.name.casefold(): field for field in change.visible.fields}
    mine = [known[name.casefold()] for name in map(str, rows[0]) if name.casefold() in known]
    more = [name for name in map(str, rows[0]) if name.casefold() not in known]
    if delete_when is None and more:
        raise _unknown(change, more)
    optional = StructType([StructField(field.name, field.dataType) for field in mine])
    given = [{name: value for name, value in row.items() if name not in more} for row in rows]
    table = intake.arrow_rows(given, optional, change.name) if mine else pa.table({})
    for name in more:
        try:
            values = pa.array([row[name] for row in rows])
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise NablaError(
                "NABLA_ROWS",
                f'the values of column "{name}" are of no one type: {error}',
                place=f'table "{change.name}"',
                remedy="Pass values of one type.",
            ) from None
        table = table.append_column(name, values)
    return table


def _told_apart(
    context: LakeContext, change: TableChange, key: Sequence[str], table: pa.Table, delete_when: str
) -> Given:
    """Rows for which a condition holds, and others. Spark answers it."""
    with context.spark.workspace_in(context.spark.session) as workspace:
        shape = intake.schema_of(table, f'table "{change.name}"')
        real = [field.name for field in shape.fields if not isinstance(field.dataType, NullType)]
        stored = workspace.hold(table.select(real), StructType([shape[name] for name in real]))
        for name in shape.names:
            if name not in real:
                stored = stored.withColumn(name, F.lit(None))
        return _from_frame(change, key, stored.withColumn(NUMBER, F.lit(0)), delete_when)


def _from_frame(change: TableChange, key: Sequence[str], frame: DataFrame, delete_when: str | None) -> Given:
    """The rows of a stored frame."""
    names = _checked_names(change, key, frame.columns[:-1], delete_when)
    gone: Column = F.lit(False) if delete_when is None else F.coalesce(F.expr(delete_when), F.lit(False))
    flagged = frame.withColumn(_GONE, gone)
    some = StructType([change.visible[name] for name in names])
    kept = intake.fit_frame(flagged.where(~F.col(_GONE)).select(*map(quote, names)), some, change.name).toArrow()
    keys = StructType([StructField(name, change.visible[name].dataType) for name in key])
    groups = (types.conform(kept, types.to_stored(some, names)),)
    if delete_when is None:
        return Given(groups, _no_keys(change, key))
    went = intake.fit_frame(flagged.where(_GONE).select(*map(quote, key)), keys, change.name).toArrow()
    return Given(groups, types.conform(went, types.to_stored(keys, key)))


def _fitted(change: TableChange, key: Sequence[str], table: pa.Table) -> pa.Table:
    names = _checked_names(change, key, table.column_names, None)
    some = StructType([change.visible[name] for name in names])
    return intake.arrow_rows(table, some, change.name)


def _checked_names(change: TableChange, key: Sequence[str], given: Sequence[str], delete_when: str | None) -> list[str]:
    """The columns of the table that are among the given ones, in its order. The key has to be."""
    known = {name.casefold() for name in change.visible.names}
    unknown = [name for name in given if name.casefold() not in known]
    if unknown and delete_when is None:
        raise _unknown(change, unknown)
    folded = [name.casefold() for name in given]
    twice = [name for name in given if folded.count(name.casefold()) > 1]
    missing = [name for name in key if name.casefold() not in folded]
    if missing or twice:
        what = f"lack {', '.join(missing)}, which is part of the key" if missing else f"have {twice[0]} twice"
        raise NablaError(
            "NABLA_COLUMNS",
            f"the rows {what}",
            place=f'table "{change.name}"',
            remedy=f"Give each row its key: {', '.join(key)}.",
        )
    return [name for name in change.visible.names if name.casefold() in folded]


def _no_keys(change: TableChange, key: Sequence[str]) -> pa.Table:
    keys = StructType([StructField(name, change.visible[name].dataType) for name in key])
    return types.arrow_schema(types.to_stored(keys, key)).empty_table()


def _unknown(change: TableChange, names: Sequence[str]) -> NablaError:
    return NablaError(
        "NABLA_COLUMNS",
        f"the table has no column {', '.join(names)}",
        place=f'table "{change.name}"',
        remedy=f"It has the columns {', '.join(change.visible.names)}; others may be there for delete_when=.",
    )


def distinct_keys(given: Given, key: Sequence[str], table: str) -> pa.Table:
    """All keys, each of which has to come once: rows that are equal in all columns count once."""
    every = pa.concat_tables([given.gone.select(key), *(group.select(key) for group in given.groups)])
    counts = bags.consolidate(bags.counted(every))
    twice = counts.filter(pc.greater(counts[bags.N], pa.scalar(1, pa.int64())))
    if twice.num_rows:
        shown = ", ".join(str(tuple(row.values())[:-1]) for row in twice.slice(0, 3).to_pylist())
        raise NablaError(
            "NABLA_CARDINALITY",
            f"{twice.num_rows} keys are given more than once, with different rows: {shown}",
            place=f'table "{table}"',
            remedy="Give one row for each key.",
        )
    return counts.drop_columns([bags.N])


def without_copies(given: Given) -> Given:
    """Equal rows count once."""

    def once(table: pa.Table) -> pa.Table:
        found = bags.consolidate(bags.counted(table)).drop_columns([bags.N])
        return table if found.num_rows == table.num_rows else found

    return Given(tuple(map(once, given.groups)), once(given.gone))
