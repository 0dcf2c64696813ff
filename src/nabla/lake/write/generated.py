"""Values that columns have without being given any: defaults, which are expressions, and numbers of identity columns.

A table's definition has the texts of its defaults and the steps of its identities; its facts have the last number of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.write.table_change import TableChange
from nabla.storage import locations

DEFAULTS, IDENTITIES, LAST = "defaults", "identities", "last_numbers"
_NULL = "NULL"


@dataclass(frozen=True)
class Identity:
    """`GENERATED … AS IDENTITY`: numbers from `start` on. Rows may bring their own unless it is `always` generated."""

    start: int = 1
    step: int = 1
    always: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def defaults_of(change: TableChange) -> Mapping[str, str]:
    return change.entry.definition.get(DEFAULTS) or {}


def identities_of(change: TableChange) -> dict[str, Identity]:
    return {name: Identity(**said) for name, said in (change.entry.definition.get(IDENTITIES) or {}).items()}


def is_generated(change: TableChange) -> bool:
    """Whether a row may leave out columns that are then not NULL."""
    return bool(defaults_of(change) or identities_of(change))


def default_text(change: TableChange, name: str) -> str:
    """The expression for a column that is given no value. NULL stands for the number that a row gets later, too."""
    return defaults_of(change).get(name, _NULL)


def default_of(change: TableChange, name: str) -> Column:
    return F.expr(default_text(change, name))


def append_defaults(context: LakeContext, change: TableChange, rows: pa.Table) -> pa.Table:
    """Rows under visible names with columns for the defaults that they lack. Spark computes these, for each row its own."""
    known = {name.casefold() for name in rows.column_names}
    missing = [name for name in defaults_of(change) if name.casefold() not in known]
    if not missing:
        return rows
    shape = StructType([change.visible[name] for name in missing])
    frame = (
        context.spark.session.range(rows.num_rows)
        .coalesce(1)
        .select(*(default_of(change, name).alias(name) for name in missing))
    )
    values = intake.fit_frame(frame, shape, change.name).toArrow()
    values = types.conform(values, types.to_stored(shape, missing))
    for name in missing:
        rows = rows.append_column(values.schema.field(name), values[name])
    return rows


def append_missing(context: LakeContext, change: TableChange, rows: pa.Table) -> pa.Table:
    """Rows with all columns that have values by themselves: those of identities are still NULL."""
    rows = append_defaults(context, change, rows)
    known = {name.casefold() for name in rows.column_names}
    for name in identities_of(change):
        if name.casefold() not in known:
            kind = types.arrow_schema(StructType([StructField(name, change.visible[name].dataType)])).field(0)
            rows = rows.append_column(kind, pa.nulls(rows.num_rows, kind.type))
    return rows


def append_nulls(change: TableChange, rows: pa.Table) -> pa.Table:
    """Rows with NULL in all columns that they do not have."""
    known = {name.casefold() for name in rows.column_names}
    shape = StructType([StructField(f.name, f.dataType) for f in change.visible.fields])
    for column in types.arrow_schema(types.to_stored(shape, shape.names)):
        if column.name.casefold() not in known:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    return rows


def complete_frame(change: TableChange, frame: DataFrame) -> DataFrame:
    """The same for a DataFrame."""
    refuse_given(change, frame.columns)
    known = {name.casefold() for name in frame.columns}
    missing = [name for name in (*defaults_of(change), *identities_of(change)) if name.casefold() not in known]
    return frame.select("*", *(default_of(change, name).alias(name) for name in missing)) if missing else frame


def refuse_given(change: TableChange, columns: Sequence[str]) -> None:
    """Refuse columns whose numbers are always generated."""
    known = {name.casefold() for name in columns}
    for name, identity in identities_of(change).items():
        if identity.always and name.casefold() in known:
            raise _given(change, name)


def number_rows(change: TableChange, rows: pa.Table, *, strict: bool = True) -> pa.Table:
    """Rows under visible names with numbers where an identity column is NULL. If it is always generated, it has to be."""
    for name, identity in identities_of(change).items():
        place = rows.column_names.index(name)
        given = rows.column(place).combine_chunks()
        if strict and identity.always and given.null_count < len(given):
            raise _given(change, name)
        if not given.null_count:
            continue
        first = _next(change, name, identity)
        count = given.null_count
        _advance(change, name, first + (count - 1) * identity.step)
        missing = pc.is_null(given)
        numbers = pa.array(range(first, first + count * identity.step, identity.step), pa.int64())
        filled = pc.replace_with_mask(given, missing, numbers.cast(given.type))
        rows = rows.set_column(place, rows.schema.field(place), filled)
    return rows


def write_numbered(change: TableChange, frame: DataFrame, folder: str) -> None:
    """Let Spark write a DataFrame, under visible names, with numbers where an identity column is NULL."""
    firsts = {name: _next(change, name, identity) for name, identity in identities_of(change).items()}
    row = F.row_number().over(Window.orderBy(F.monotonically_increasing_id())) - 1
    for name, identity in identities_of(change).items():
        number = (row * identity.step + firsts[name]).cast(change.visible[name].dataType)
        frame = frame.withColumn(name, F.coalesce(F.col(quote(name)), number))
    frame.toDF(*change.stored.names).write.parquet(folder)
    if firsts:
        count = sum(locations.parquet_footer(path).num_rows for path in locations.parquet_files(folder))
        for name, identity in identities_of(change).items():
            if count:
                _advance(change, name, firsts[name] + (count - 1) * identity.step)


def last_numbers(change: TableChange) -> dict[str, Any]:
    """The facts of a table about its identities, after its change."""
    before = change.entry.facts.get(LAST) or {}
    return {LAST: {**before, **change.numbers}} if change.numbers else {}


def _next(change: TableChange, name: str, identity: Identity) -> int:
    stored = (change.entry.facts.get(LAST) or {}).get(name)
    last = change.numbers.get(name, stored)
    return identity.start if last is None else int(last) + identity.step


def _advance(change: TableChange, name: str, last: int) -> None:
    change.numbers[name] = last


def _given(change: TableChange, name: str) -> NablaError:
    return NablaError(
        "NABLA_IDENTITY",
        f'column "{name}" is GENERATED ALWAYS AS IDENTITY, and rows bring values for it',
        place=f'table "{change.name}"',
        remedy="Leave the column out, or make the table with GENERATED BY DEFAULT AS IDENTITY.",
    )
