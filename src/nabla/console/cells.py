"""Values of a lake as texts for a page."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

LONGEST = 200
"""Characters of a value that are shown."""


def cell(value: Any) -> str | None:
    """A value as text, None for NULL."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray):
        text = f"0x{bytes(value[:LONGEST]).hex()}"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = f"{value:.12g}" if math.isfinite(value) else str(value)
    elif isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ")
    else:
        text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def cells(table: pa.Table) -> list[list[str | None]]:
    """The rows of a table, as texts."""
    columns = [column_cells(column) for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def column_cells(column: pa.ChunkedArray) -> Iterable[str | None]:
    """The values of a column. Python has no type for some of Arrow's values, such as times before the year 1; these are shown
    as Arrow writes them."""
    try:
        return [cell(value) for value in column.to_pylist()]
    except (ValueError, OverflowError, ArithmeticError):
        return [cell(text) for text in column.cast(pa.string()).to_pylist()]
