"""New tables: the declarations of users are checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.errors import NablaError, wrong_argument
from nabla.frontends.nested.schema import check_order
from nabla.lake.constraints.constraints import ConstraintDefinition, check_action, declared_constraints
from nabla.lake.context import LakeContext
from nabla.lake.objects.names import check_columns, key_of, shape_of
from nabla.lake.objects.sources import count_keys
from nabla.lake.refresh.create import Built, Definition, create
from nabla.lake.write import nested_tables as nests
from nabla.lake.write.generated import DEFAULTS, IDENTITIES, Identity
from nabla.lake.write.new_table import new_table
from nabla.storage.catalog import CLUSTER_BY, DELTA_FEED, MARKS_ROWS, LakeState


@dataclass(frozen=True)
class Storing:
    """How a table is stored: see `Lake.create_table`."""

    deletion_vectors: bool | None = None
    feed: str | None = None
    cluster_by: str | Sequence[str] | None = None


@dataclass(frozen=True)
class Declared:
    """What SQL may declare beside keys: texts of defaults by column, identity columns, and conditions by constraint."""

    defaults: Mapping[str, str] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableDefinition:
    """A table of the lake with its first rows."""

    name: str
    shape: StructType
    data: intake.Data
    definition: Mapping[str, Any]

    def build(self, context: LakeContext, state: LakeState) -> Built:
        context.names(state).check_new(self.name)
        with context.translating(f'table "{self.name}"'):
            entry = new_table(context, self.name, self.shape, self.data, self.definition)
        return Built({self.name: entry}, {self.name: {"inserted": entry.facts["rows"], "deleted": 0}})


def create_table(
    context: LakeContext,
    name: str,
    schema: str | StructType | None,
    data: intake.Data,
    key: str | Sequence[str] | None,
    foreign_keys: Mapping[str, str] | None,
    enforce: bool | str,
    storing: Storing,
    more: Declared | None = None,
) -> None:
    """Create a table, and with `enforce` the constraints that its key and foreign keys stand for."""
    more = more or Declared()
    state = context.log.state()
    shape = _new_shape(context, state, name, schema, data)
    what = f'table "{name}"'
    keys = key_of(key, shape, what)
    foreign = context.names(state).check_foreign_keys(foreign_keys, shape, what)
    declared = {"schema": shape.json(), "key": keys, "foreign_keys": foreign, "enforced": True}
    definition = {**declared, **_stored_as(context, storing, shape, what), **_generated(context, more, shape, name)}
    definitions: list[Definition] = [TableDefinition(name, shape, data, definition)]
    if enforce is not False:
        action = check_action("reject" if enforce is True else enforce)
        queries = declared_constraints(name, keys, foreign)
        definitions += [ConstraintDefinition(constraint, query, action) for constraint, query in queries.items()]
    definitions += [ConstraintDefinition(check, violating(name, text), "reject") for check, text in more.checks.items()]
    create(context, state, "create table", definitions)
    count_keys(context.log, name, context.log.state().entries[name].facts["rows"])


def create_nested(context: LakeContext, name: str, schema: str | StructType | None, data: intake.Data) -> None:
    """Create a table in partitioned normal form."""
    state = context.log.state()
    shape = _new_shape(context, state, name, schema, data)
    _refuse_declarations(shape, name)
    check_order(shape)
    definition = {
        "schema": shape.json(),
        "key": nests.nested_key(shape),
        "foreign_keys": {},
        "nested": True,
        **_stored_as(context, Storing(), shape, f'table "{name}"'),
    }
    if data is not None:
        data = nests.canonical(data, shape, name)
    create(context, state, "create table", [TableDefinition(name, shape, data, definition)])


def check_feed(feed: str | None) -> bool:
    """Whether a table or view is to have Delta's change data feed."""
    if feed not in (None, "delta"):
        raise wrong_argument("feed", feed, '"delta", or nothing')
    return feed is not None


def _stored_as(context: LakeContext, storing: Storing, shape: StructType, what: str) -> dict[str, Any]:
    """What the definition of a table says of its files."""
    clusters = key_of(storing.cluster_by, shape, what)
    marks_rows = context.log.marks_rows if storing.deletion_vectors is None else storing.deletion_vectors
    said = {MARKS_ROWS: marks_rows, DELTA_FEED: check_feed(storing.feed), CLUSTER_BY: clusters}
    return {option: value for option, value in said.items() if value}


def violating(table: str, condition: str) -> str:
    """The query for rows that a CHECK refuses: like Spark, it takes what is NULL for fulfilled."""
    return f"SELECT * FROM {quote(table)} WHERE NOT ({condition})"


def _generated(context: LakeContext, more: Declared, shape: StructType, name: str) -> dict[str, Any]:
    """What the definition of a table says of values that rows need not bring."""
    identities = {column: identity.to_json() for column, identity in more.identities.items()}
    for column, identity in more.identities.items():
        if not isinstance(shape[column].dataType, IntegralType) or identity.step == 0:
            raise NablaError(
                "NABLA_IDENTITY",
                "numbers of an identity column are integers, with a step that is not zero",
                place=f'column "{column}" of table "{name}"',
                remedy="Declare it as BIGINT GENERATED ALWAYS AS IDENTITY.",
            )
    if more.defaults:
        _check_defaults(context, more.defaults, shape, name)
    said: dict[str, Any] = {DEFAULTS: dict(more.defaults), IDENTITIES: identities}
    return {option: value for option, value in said.items() if value}


def _check_defaults(context: LakeContext, defaults: Mapping[str, str], shape: StructType, name: str) -> None:
    """Refuse defaults that read columns, or that their column cannot take."""
    for column, text in defaults.items():
        with context.translating(f'default of column "{column}" of table "{name}"'):
            one = context.spark.session.range(1).drop("id").select(F.expr(text).alias(column))
            intake.fit_frame(one, StructType([shape[column]]), name).collect()


def _refuse_declarations(shape: StructType, name: str) -> None:
    for column in shape.fields:
        if not column.nullable or types.has_declarations(column.dataType):
            raise NablaError(
                "NABLA_NESTED_SCHEMA",
                "a nested table has neither NOT NULL nor lengths: NULLs are keys like others",
                place=f'column "{column.name}" of table "{name}"',
                remedy="Leave out NOT NULL, and declare texts as STRING.",
            )


def _new_shape(
    context: LakeContext, state: LakeState, name: str, schema: str | StructType | None, data: intake.Data
) -> StructType:
    """The schema of a new table whose name is free."""
    context.names(state).check_new(name)
    what = f'table "{name}"'
    shape = shape_of(schema, data, what, lambda: context.spark.session)
    types.check_storable(shape, what)
    check_columns(shape.names, what)
    return shape
