"""Where the rows stand that a condition holds for, and values that are computed from them: answered by DuckDB, without a job.

Files whose statistics rule the condition out are not opened. Of the others DuckDB reads the columns of the condition, several
row groups at a time, and of these only the ones whose statistics leave room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from nabla.algebra.expressions import Apply, Expr, Literal, Ref
from nabla.algebra.nodes import At, Constant, Filter, Node, Scan
from nabla.algebra.traverse import map_nodes
from nabla.algebra.types import INTEGRAL, parse_type
from nabla.engine.driver.driver_query import answer
from nabla.engine.driver.file_scan import FileScan, scan_version
from nabla.engine.marked_rows import FILE, PLACE
from nabla.rewrite.prune import prune
from nabla.storage.files import DataFile, Snapshot

_Room = Callable[[Any, Any, Any], bool]
"""Whether a column between two values leaves room for a comparison with a third."""
_ROOM: Mapping[str, _Room] = {
    "EqualTo": lambda low, high, value: (low is None or low <= value) and (high is None or value <= high),
    "LessThan": lambda low, high, value: low is None or low < value,
    "LessThanOrEqual": lambda low, high, value: low is None or low <= value,
    "GreaterThan": lambda low, high, value: high is None or high > value,
    "GreaterThanOrEqual": lambda low, high, value: high is None or high >= value,
}
_TURNED = {
    "EqualTo": "EqualTo",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}


def find_places(
    query: Node, snapshot: Snapshot, stored: Mapping[str, str], schema: pa.Schema, most: int
) -> pa.Table | None:
    """The rows of a query over one table, whose first two columns are the path of the file and the place there; one row too
    many where there are more than `most`. None where Spark is to be asked.

    The query reads the table as a `Constant` with its columns and two more: `FILE`, as a number, and `PLACE`. `stored` has the
    names of the columns by those that users know.
    """
    over = _over_scan(query, list(stored))
    if over is None:
        return None
    files = tuple(file for file in snapshot.files if _may_match(over, file, stored))
    if not files:
        return _named(_numbered(schema).empty_table(), ())
    rest = replace(snapshot, files=files)

    def held(scan: Scan) -> FileScan | None:
        fields = {field: stored[field] for field in scan.fields if field not in (FILE, PLACE)}
        return scan_version(rest, fields, "target", placed=(FILE, PLACE))

    found = answer(over, held, _numbered(schema), most=most)
    return None if found is None else _named(found, [file.path for file in files])


def find_in_rows(query: Node, rows: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """The same for rows at hand, under the names that users know: the place of a row is its number, and `FILE` is zero."""
    over = _over_scan(query, rows.column_names)
    if over is None:
        return None
    zeros = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    numbered = rows.append_column(FILE, zeros).append_column(PLACE, pa.arange(0, rows.num_rows))
    return answer(over, lambda scan: numbered.select(list(scan.fields)), _numbered(schema))


def _over_scan(query: Node, names: Sequence[str]) -> Node | None:
    """The query over a scan in place of the constant that it has for the table."""
    leaves = [node for node in query.walk() if not node.inputs]
    constant = leaves[0] if len(leaves) == 1 else None
    if not isinstance(constant, Constant) or len(constant.columns) != len(names) + 2:
        return None
    scan = Scan("target", At.NEW, constant.columns, (*names, FILE, PLACE))
    return prune(map_nodes(query, lambda node: scan if node is constant else node))


def _numbered(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(FILE, pa.int64()), pa.field(PLACE, pa.int64()), *list(schema)[2:]])


def _named(found: pa.Table, paths: Sequence[str]) -> pa.Table:
    """The rows with the paths of their files instead of numbers."""
    return found.set_column(0, FILE, pa.array(paths, pa.string()).take(found[FILE]))


def _may_match(query: Node, file: DataFile, stored: Mapping[str, str]) -> bool:
    """Whether the statistics of a file leave room for all filters right above the scan."""
    for node in query.walk():
        if isinstance(node, Filter) and isinstance(node.input, Scan):
            scan = node.input
            columns = {c.name: stored.get(field, "") for c, field in zip(scan.output, scan.fields, strict=True)}
            return all(_has_room(conjunct, file, columns) for conjunct in node.conjuncts)
    return True


def _has_room(condition: Expr, file: DataFile, columns: Mapping[str, str]) -> bool:
    if not isinstance(condition, Apply):
        return True
    if condition.function == "Or":
        return any(_has_room(part, file, columns) for part in condition.arguments)
    if condition.function == "And":
        return all(_has_room(part, file, columns) for part in condition.arguments)
    if condition.function == "In":
        column, *values = condition.arguments
        return any(_compares(file, columns, "EqualTo", column, value) for value in values)
    if condition.function in _ROOM:
        left, right = condition.arguments
        if isinstance(left, Literal):
            return _compares(file, columns, _TURNED[condition.function], right, left)
        return _compares(file, columns, condition.function, left, right)
    return True


def _compares(file: DataFile, columns: Mapping[str, str], function: str, column: Expr, value: Expr) -> bool:
    """Whether a file may have a row for which a comparison of a column and a constant of the same type is true."""
    if not isinstance(column, Ref) or not isinstance(value, Literal) or column.type != value.type:
        return True
    name = columns.get(column.name, "")
    known = _value(value)
    if known is None:
        return True
    try:
        return _ROOM[function](file.minimum.get(name), file.maximum.get(name), known)
    except TypeError:
        return True


def _value(literal: Literal) -> Any:
    """A constant as the statistics of files have it; None where that is not certain."""
    text, kind = literal.value, literal.type
    if text is None:
        return None
    try:
        if parse_type(kind) in INTEGRAL:
            return int(text)
        if kind == "date":
            return date.fromisoformat(text)
        if kind.startswith("decimal"):
            return Decimal(text)
    except (ValueError, InvalidOperation):
        return None
    return text if kind == "string" else None
