"""Answers as sqllogictest writes them: a line a value, sorted as the query asks, hashed where there are many."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from nabla.dev.logic_tests.records import Query


def agrees(query: Query, rows: Iterable[tuple[Any, ...]]) -> bool:
    """Whether rows are the answer of a test. A stored view has no order, so one that the query asks for is not compared."""
    written = [tuple(_written(value, kind) for value, kind in zip(row, query.types, strict=True)) for row in rows]
    if query.hashed is None:
        width = len(query.types)
        lines = query.answer
        if query.order == "valuesort":
            return sorted(value for row in written for value in row) == sorted(lines)
        return sorted(written) == sorted(tuple(lines[i : i + width]) for i in range(0, len(lines), width))
    count, digest = query.hashed
    values = [value for row in sorted(written) for value in row]
    if query.order == "valuesort":
        values.sort()
    if query.order == "nosort" and len(written) > 1:
        return len(values) == count
    return len(values) == count and hashlib.md5("".join(f"{v}\n" for v in values).encode()).hexdigest() == digest


def _written(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind == "I" and not isinstance(value, str):
        return str(int(value))
    if kind == "R" and not isinstance(value, str):
        return f"{value:.3f}"
    return str(value) or "(empty)"
