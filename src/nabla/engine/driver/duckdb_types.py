"""Spark's types, names and literals as DuckDB writes them, where both engines have the same values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nabla.algebra.expressions import Literal
from nabla.algebra.types import INTEGRAL, parse_type

TYPES: Mapping[str, str] = {
    "void": "INTEGER",
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "string": "VARCHAR",
    "binary": "BLOB",
    "float": "FLOAT",
    "double": "DOUBLE",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
DAY = re.compile(r"\d{4}-\d\d-\d\d")
NUMBER = re.compile(r"-?\d+(?:\.(\d+))?")
_DOUBLE = re.compile(r"-?\d+(?:\.\d+)?(?:E-?\d+)?")
FLOATING = ("float", "double")


class NotExact(Exception):
    """DuckDB may compute this in another way than Spark, or cannot compute it at all."""


def quote(name: str) -> str:
    """A name as DuckDB writes it, whatever characters it has."""
    if "\0" in name:
        raise NotExact("DuckDB's texts end at a NUL character")
    return '"' + name.replace('"', '""') + '"'


def spell_type(ddl: str) -> str:
    """DuckDB's name of a Spark type."""
    if ddl in TYPES:
        return TYPES[ddl]
    if decimal := _DECIMAL.fullmatch(ddl):
        return f"DECIMAL({decimal[1]}, {decimal[2]})"
    raise NotExact(f"values of type {ddl}")


def is_key_type(ddl: str) -> bool:
    """Whether equal values of a type are the same value: grouping may keep any of them. 0.0 and -0.0 are not."""
    return ddl not in FLOATING and (ddl in TYPES or _DECIMAL.fullmatch(ddl) is not None)


def spell_literal(literal: Literal) -> str:
    """A literal as DuckDB SQL; `NotExact` where its text may be read in another way."""
    value, kind = literal.value, literal.type
    if value is None:
        return f"CAST(NULL AS {spell_type(kind)})"
    if kind == "string" and "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    plain = (
        (kind == "boolean" and value in ("true", "false"))
        or (kind == "date" and DAY.fullmatch(value))
        or (parse_type(kind) in INTEGRAL and NUMBER.fullmatch(value))
        or (_DECIMAL.fullmatch(kind) and NUMBER.fullmatch(value))
        or (kind == "double" and _DOUBLE.fullmatch(value))  # both engines take the double that is nearest to the text
    )
    if not plain:
        raise NotExact(f"{literal}")
    return f"CAST('{value}' AS {spell_type(kind)})"
