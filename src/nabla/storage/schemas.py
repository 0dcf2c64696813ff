"""Table schemas in Spark's and Delta's JSON form: as Arrow types, as stored in files, and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import DeltaError

from nabla.errors import NablaError

_PHYSICAL = "delta.columnMapping.physicalName"


@lru_cache(maxsize=256)
def arrow(schema_json: str) -> pa.Schema:
    """The Arrow schema of a table. NABLA_TYPE where a column has a type that Delta does not know, or too many levels."""
    try:
        return pa.schema(_parsed(schema_json).to_arrow())
    except pa.ArrowException as error:
        raise _not_storable(str(error)) from error


def storable(schema_json: str) -> Schema:
    """The schema for a new table. NABLA_TYPE where a column has a type that cannot be stored."""
    for field in json.loads(schema_json)["fields"]:
        # deltalake 1.6 overlooks these when it declares the features of a new table, which makes the table unreadable.
        if _has(field["type"], "timestamp_ntz", in_map=False):
            raise _not_storable(f'column "{field["name"]}" has TIMESTAMP_NTZ inside of a MAP')
    arrow(schema_json)  # a schema that cannot be read again is not written
    return _parsed(schema_json)


def same_type(one: Any, other: Any) -> bool:
    """Whether two types of a schema are alike: the same columns inside in the same order, whatever may be NULL."""
    return bool(_shape(one) == _shape(other))


def physical_name(field: Mapping[str, Any]) -> str:
    """The name of a column in the files, which stays when the column is renamed under a column mapping."""
    return str((field.get("metadata") or {}).get(_PHYSICAL, field["name"]))


@lru_cache(maxsize=256)
def stored_names(schema_json: str, mode: str, place: str) -> Mapping[str, str]:
    """The name in the files of each column, under the column mapping `mode` of a table (`none` or `name`)."""
    fields = json.loads(schema_json)["fields"]
    if mode == "none":
        return {field["name"]: field["name"] for field in fields}
    unreadable = next((f["name"] for f in fields if mode != "name" or _renames(f["type"])), None)
    if unreadable is not None:
        raise NablaError(
            "NABLA_COLUMN_MAPPING",
            f'column "{unreadable}" is stored under names that cannot be followed (column mapping by {mode})',
            place=place,
            remedy="Copy the table into one without column mapping and register that.",
        )
    return {field["name"]: field["metadata"].get(_PHYSICAL, field["name"]) for field in fields}


def _parsed(schema_json: str) -> Schema:
    try:
        return Schema.from_json(schema_json)
    except (DeltaError, ValueError, TypeError) as error:
        raise _not_storable(str(error)) from error


def _not_storable(why: str) -> NablaError:
    return NablaError("NABLA_TYPE", f"Delta cannot store this: {why}", remedy="Cast the column to another type.")


def _inner(kind: Any) -> list[Any]:
    """The types that a type is directly made of."""
    fields = [field["type"] for field in kind.get("fields", ())]
    return fields + [kind[role] for role in ("elementType", "keyType", "valueType") if role in kind]


def _has(kind: Any, name: str, *, in_map: bool) -> bool:
    """Whether a simple type occurs somewhere inside of a map."""
    if not isinstance(kind, dict):
        return in_map and kind == name
    return any(_has(part, name, in_map=in_map or kind["type"] == "map") for part in _inner(kind))


def _renames(kind: Any) -> bool:
    """Whether fields inside of this type have other names in the files."""
    if not isinstance(kind, dict):
        return False
    renamed = (f.get("metadata", {}).get(_PHYSICAL, f["name"]) != f["name"] for f in kind.get("fields", ()))
    return any(renamed) or any(map(_renames, _inner(kind)))


def _shape(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if "fields" in kind:
        return [(field["name"], _shape(field["type"])) for field in kind["fields"]]
    return kind["type"], [_shape(part) for part in _inner(kind)]
