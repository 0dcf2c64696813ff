"""CREATE TABLE and CREATE MATERIALIZED VIEW, as Spark's parser reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import StructField, StructType, _parse_datatype_json_string

from nabla.errors import NablaError
from nabla.frontends.spark_sql.statements import kind_of, list_of, option_of, refused


@dataclass(frozen=True)
class Numbers:
    """An identity column: where its numbers start, their step, and whether rows may bring their own."""

    start: int
    step: int
    always: bool


@dataclass(frozen=True)
class CreateTable:
    """A table to be made from columns, or from the rows of a `query`."""

    name: str
    schema: StructType | None
    query: Any = None
    if_absent: bool = False
    replaces: bool = False
    key: tuple[str, ...] = ()
    foreign_keys: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    identities: Mapping[str, Numbers] = field(default_factory=dict)
    cluster_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateView:
    name: str
    query: str
    if_absent: bool


def read_create_table(plan: Any) -> CreateTable:
    """The table that CREATE TABLE, with or without AS, is to make."""
    kind, name = kind_of(plan), name_of(plan.name())
    spec = plan.tableSpec()
    _refuse_options(spec, name)
    clusters = _clusters(plan.partitioning())
    if kind in ("CreateTableAsSelect", "ReplaceTableAsSelect"):
        if kind == "CreateTableAsSelect":
            return CreateTable(name, None, plan.query(), plan.ignoreIfExists(), cluster_by=clusters)
        return CreateTable(name, None, plan.query(), replaces=True, cluster_by=clusters)
    columns = list_of(plan.columns())
    found = _constraints(spec, name)
    identities, defaults, fields = {}, {}, []
    for column in columns:
        label = str(column.name())
        if option_of(column.generationExpression()) is not None:
            raise refused("a generated column", "Compute it in a view, or give it a DEFAULT.")
        if (default := option_of(column.defaultValue())) is not None:
            defaults[label] = str(default.originalSQL())
        if (numbers := option_of(column.identityColumnSpec())) is not None:
            identities[label] = Numbers(numbers.getStart(), numbers.getStep(), not numbers.isAllowExplicitInsert())
        metadata = json.loads(column.metadata().json())
        if (comment := option_of(column.comment())) is not None:
            metadata["comment"] = str(comment)
        kept = bool(column.nullable()) or label in identities
        fields.append(StructField(label, _parse_datatype_json_string(column.dataType().json()), kept, metadata))
    return CreateTable(
        name,
        StructType(fields),
        if_absent=kind == "CreateTable" and plan.ignoreIfExists(),
        replaces=kind == "ReplaceTable",
        defaults=defaults,
        identities=identities,
        cluster_by=clusters,
        **found,
    )


def read_create_view(plan: Any) -> CreateView:
    """The view that CREATE MATERIALIZED VIEW is to make."""
    if list_of(plan.columns()):
        raise refused("a list of columns in CREATE MATERIALIZED VIEW", "Name them in the query, with AS.")
    if list_of(plan.partitioning()):
        raise refused("PARTITIONED BY in CREATE MATERIALIZED VIEW", "Leave it out.")
    name = name_of(plan.name())
    _refuse_options(plan.tableSpec(), name)
    return CreateView(name, str(plan.originalText()), plan.ifNotExists())


def name_of(identifier: Any) -> str:
    """The name that a plan such as UnresolvedIdentifier or UnresolvedTable holds."""
    kind = kind_of(identifier)
    parts = identifier.nameParts() if kind == "UnresolvedIdentifier" else identifier.multipartIdentifier()
    return ".".join(str(part) for part in list_of(parts))


def _refuse_options(spec: Any, name: str) -> None:
    provider = option_of(spec.provider())
    given = {
        "USING": provider if provider is not None and str(provider).lower() != "delta" else None,
        "LOCATION": option_of(spec.location()),
        "COMMENT": option_of(spec.comment()),
        "TBLPROPERTIES": str(spec.properties().toString()) if spec.properties().size() else None,
        "ROW FORMAT or STORED AS": option_of(spec.serde()),
    }
    for word, value in given.items():
        if value is not None:
            raise NablaError(
                "NABLA_STATEMENT",
                f"a lake would not keep {word}",
                place=f'definition of "{name}"',
                remedy="Leave it out: tables of a lake are Delta tables in its folder.",
            )


def _clusters(transforms: Any) -> tuple[str, ...]:
    names: list[str] = []
    for transform in list_of(transforms):
        if str(transform.name()) != "cluster_by":
            raise refused("PARTITIONED BY", "Tables of a lake have no partitions; CLUSTER BY sorts their rows.")
        names += [".".join(reference.fieldNames()) for reference in transform.references()]
    return tuple(names)


def _constraints(spec: Any, table: str) -> dict[str, Any]:
    key: tuple[str, ...] = ()
    foreign: dict[str, str] = {}
    checks: dict[str, str] = {}
    for number, one in enumerate(list_of(spec.constraints()), 1):
        kind = kind_of(one)
        if kind == "CheckConstraint":
            given = one.userProvidedName()
            checks[str(given) if given is not None else f"{table}_check_{number}"] = str(one.condition())
        elif kind == "PrimaryKeyConstraint":
            key = tuple(str(column) for column in list_of(one.columns()))
        elif kind == "ForeignKeyConstraint":
            parent = ".".join(str(part) for part in list_of(one.parentTableId()))
            own, theirs = (list_of(columns) for columns in (one.childColumns(), one.parentColumns()))
            if len(own) != 1 or len(theirs) != 1:
                raise refused(
                    "a foreign key of several columns or without them", "Write it as a constraint of the lake."
                )
            foreign[str(own[0])] = f"{parent}.{theirs[0]}"
        else:
            raise refused("UNIQUE", "Declare a PRIMARY KEY, or use lake.create_constraint with nabla.constraints.key.")
    return {"key": key, "foreign_keys": foreign, "checks": checks}
