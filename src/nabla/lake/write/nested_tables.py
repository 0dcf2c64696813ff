"""Nested tables of a lake: rows are in PNF and in canonical order before they are written, and change by ⊕ and ⊖."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, Row, StructType

from nabla.algebra.expressions import Ref, quote
from nabla.algebra.sql import to_sql
from nabla.engine import intake, types
from nabla.engine.apply import Replacement
from nabla.engine.sources import snapshot_frame
from nabla.errors import NablaError
from nabla.frontends.nested import expressions, language, model
from nabla.frontends.nested.equations import Sign
from nabla.frontends.nested.language import Nested
from nabla.frontends.nested.meaning import NestedSource, is_by_key, schema_of
from nabla.frontends.nested.notes import forms
from nabla.frontends.nested.plans import to_plan
from nabla.frontends.nested.schema import Schema, atoms_only, is_prime
from nabla.frontends.nested.updates import CHANGE, change, updated_plan
from nabla.lake.context import LakeContext
from nabla.lake.objects.names import is_nested
from nabla.lake.objects.view import View, load_view
from nabla.lake.write.nested_checks import check_written, near, stored_key
from nabla.lake.write.table_change import TableChange
from nabla.storage import bags, files
from nabla.storage.bags import N
from nabla.storage.catalog import Entry, LakeState


def shape_of(entry: Entry) -> StructType:
    """The schema of a table or view as users see it."""
    if entry.kind != "view":
        return types.from_json(entry.definition["schema"])
    view = load_view(entry.name, entry.definition)
    return StructType([types.field_like(f, n) for f, n in zip(view.schema.fields, view.outputs, strict=True)])


def define(name: str, expression: Nested, context: LakeContext, state: LakeState) -> View:
    """The view that a nested expression over the lake's tables and views makes."""
    sources: dict[str, NestedSource] = {}
    for leaf in expression.walk():
        if isinstance(leaf, language.Table | language.Nest):
            entry = context.names(state).entry(leaf.name)
            flat = isinstance(leaf, language.Nest)
            schema = atoms_only(shape_of(entry)) if flat else Schema.of(shape_of(entry))
            sources[entry.name] = NestedSource(schema, pnf=is_nested(entry))
    plan, schema = to_plan(expression, sources), schema_of(expression, sources)
    notes, key = forms(expression, sources), schema.key if is_by_key(expression, sources) else ()
    return View.of(name, plan, schema.names, None, notes, str(expression), key=key)


# Rows in canonical form


def canonical_rows(data: intake.Data, visible: StructType, table: str) -> pa.Table:
    """Rows of any form in canonical order; NABLA_PNF where a key is there twice at a level."""
    return _arrow(read(data, visible, table), visible, table)


def read(data: intake.Data, visible: StructType, table: str) -> model.Relation:
    """Rows as a nested relation. Names are checked in the rows as given, since Arrow would not check them inside of structs;
    keys are checked after Arrow has given the values their types."""
    schema = Schema.of(visible)
    if isinstance(data, DataFrame):
        data = data.toArrow()
    if isinstance(data, pa.Table | pa.RecordBatch):
        data = data.to_pylist()
    if isinstance(data, Iterable) and not isinstance(data, Mapping | str | bytes):
        data = list(_named(data, visible, schema, table))
    return model.relation(intake.arrow_rows(data, visible, table).to_pylist(), schema, table)


def _named(rows: Iterable[Any], struct: StructType, schema: Schema, table: str, path: tuple[str, ...] = ()) -> Any:
    """Rows as dicts at every level; tuples are in the order of the table's schema."""
    for row in rows:
        if isinstance(row, Row) and hasattr(row, "__fields__"):
            row = row.asDict(recursive=False)
        if isinstance(row, tuple | list) and len(row) == len(struct.names):
            row = dict(zip(struct.names, row, strict=True))
        values = dict(model.attributes(row, schema, path, f'table "{table}", '))
        for name, part in schema.parts:
            kind = struct[name].dataType
            inside = values.get(name)
            if (
                isinstance(kind, ArrayType)
                and isinstance(kind.elementType, StructType)
                and isinstance(inside, list | tuple)
            ):
                values[name] = list(_named(inside, kind.elementType, part, table, (*path, name)))
        yield values


def _arrow(r: model.Relation, visible: StructType, table: str) -> pa.Table:
    return intake.arrow_rows(model.dicts(r, Schema.of(visible)), visible, table)


def canonical(data: intake.Data, visible: StructType, table: str) -> intake.Data:
    """The data of a new table in canonical form. Rows that Spark has are checked once they are written."""
    if not isinstance(data, DataFrame):
        return canonical_rows(data, visible, table)
    return canonical_frame(intake.fit_frame(data, visible, table))


def canonical_frame(frame: DataFrame) -> DataFrame:
    """Rows of Spark in canonical order: expressions sort the subrelations at every level."""
    schema = Schema.of(frame.schema)
    columns = [
        F.expr(expressions.canonical(Ref(name, schema[name].array), schema[name]).sql).alias(name)
        if name in schema.structured
        else F.col(quote(name))
        for name in frame.columns
    ]
    return frame.select(*columns)


# Updates


def update_rows(c: TableChange, d: model.Relation, sign: Sign) -> None:
    """r ⊕ δ or r ⊖ δ for an update at hand: rows with touched keys are read, merged in Python, and replaced."""
    schema, names = Schema.of(c.visible), c.stored.names
    if not d:
        return
    keys = _arrow({key: {name: {} for name in schema.structured} for key in d}, c.visible, c.name).rename_columns(names)
    seen = pa.concat_tables([bags.counted(near(c, keys, names)).select([*names, N]), c.net()])
    there = bags.consolidate(seen)
    there = there.filter(pc.greater(there[N], pa.scalar(0, pa.int64())))
    places: dict[model.Key, int] = {}
    rows = there.rename_columns([*c.visible.names, N]).to_pylist()
    for place, row in enumerate(rows):
        key = tuple(model.frozen(row[name]) for name in schema.key)
        if key in d:
            places[key] = place
    r = model.relation(({n: rows[place][n] for n in schema.names} for place in places.values()), schema, c.name)
    deleted, inserted = change(r, d, sign)
    c.pieces.append(bags.negated(there.take(pa.array([places[key] for key in deleted], pa.int64()))))
    c.add(_arrow(inserted, c.visible, c.name), 1)


def update_frame(context: LakeContext, c: TableChange, frame: DataFrame, sign: Sign) -> None:
    """The same by one Spark query, for a DataFrame and a table that the transaction has not changed yet."""
    if c.changed:
        update_rows(c, read(frame, c.visible, c.name), sign)
        return
    schema, update = Schema.of(c.visible), prime_subschema(frame, c)
    with context.spark.workspace_in(frame.sparkSession) as workspace:
        rows = canonical_frame(frame)
        path = workspace.path()
        rows.write.parquet(path)
        check_written(path, rows.schema, c.name)
        tables = {
            CHANGE: workspace.name("change", lambda: frame.sparkSession.read.schema(rows.schema).parquet(path)),
            "": workspace.name("table", lambda: snapshot_frame(workspace, c.snapshot, c.visible.names)),
        }
        text = to_sql(updated_plan(schema, update, sign), lambda scan: tables.get(scan.table, tables[""]))
        found = workspace.sql(text).toArrow()
        touched = files.read_folder(path, list(schema.key))
    new = types.conform(found.select([schema.names.index(name) for name in c.visible.names]), c.stored)
    names = stored_key(c)
    c.replacement = Replacement(tuple(names), touched.rename_columns(names), new)


def prime_subschema(frame: DataFrame, c: TableChange) -> Schema:
    update, schema = Schema.of(frame.schema), Schema.of(c.visible)
    if not is_prime(update, schema):
        raise NablaError(
            "NABLA_NOT_PRIME",
            f"{update.typed} is not a prime subschema of {schema.typed}",
            place=f'table "{c.name}"',
            remedy="An update has all atomic attributes of each level that it has, under the same names and types.",
        )
    return update


def not_nested(name: str) -> NablaError:
    return NablaError(
        "NABLA_NOT_NESTED",
        f'"{name}" is not a nested table',
        place=f'"{name}"',
        remedy="Make it with create_nested, or change it with insert, update and delete.",
    )


def nested_key(shape: StructType) -> list[str]:
    """The atomic columns that files can be sorted by."""
    simple = {f.name for f in shape.fields if f.dataType.typeName() not in ("array", "struct")}
    return [name for name in Schema.of(shape).key if name in simple]
