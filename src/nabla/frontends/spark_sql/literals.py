"""Constants of a Catalyst plan, read from the text that Spark writes for them."""

from __future__ import annotations

import re

from nabla.algebra.expressions import Expr, Foreign, Literal, is_literal_type
from nabla.frontends.spark_sql.tree import Expression


def literal(e: Expression) -> Expr:
    """A constant as Spark writes it: `5L`, `2.50BD`, `'it\\'s'`, `DATE '2024-01-01'`."""
    assert e.sql is not None
    if e.sql == "NULL" or e.sql.upper().startswith("CAST(NULL AS"):
        return Literal(None, e.type)
    value = _value(e.sql, e.type) if is_literal_type(e.type) else None
    return Foreign(e.sql, (), e.type, e.nullable) if value is None else Literal(value, e.type)


def _value(sql: str, type_: str) -> str | None:
    """The value inside of the text of a constant; None if the text has another form."""
    kind = type_.partition("(")[0]
    match kind:
        case "boolean":
            return sql.lower()
        case "tinyint" | "smallint" | "int" | "bigint":
            found = re.fullmatch(r"(-?\d+)[YSL]?", sql)
            return found[1] if found else None
        case "decimal":
            found = re.fullmatch(r"(-?\d+(?:\.\d+)?(?:E[+-]?\d+)?)BD", sql)
            return found[1] if found else None
        case "double":
            found = re.fullmatch(r"(-?\d+(?:\.\d+)?(?:E[+-]?\d+)?)D|CAST\('(NaN|-?Infinity)' AS DOUBLE\)", sql)
            return found[1] or found[2] if found else None
        case "float":
            found = re.fullmatch(r"CAST\('?([\w.+-]+)'? AS FLOAT\)", sql)
            return found[1] if found else None
        case "string":
            return re.sub(r"\\(.)", r"\1", sql[1:-1]) if sql.startswith("'") else None
        case "date" | "timestamp" | "timestamp_ntz" | "binary":
            found = re.fullmatch(r"(?:DATE|TIMESTAMP|TIMESTAMP_NTZ|X) ?'([^']*)'", sql)
            return found[1] if found else None
    return sql if kind.startswith("interval") else None
