"""Random tables of all types, and bags of rows as plain Python: what the storage layer is compared with."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from nabla.storage.bags import N

# Examples that write files take longer than others: as a share of what the profile asks for.
some, few = (settings(max_examples=settings().max_examples // share) for share in (2, 5))

_SIMPLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])),
    (pa.int32(), st.integers(-2, 2)),
    (pa.int8(), st.integers(-2, 2)),
    (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf])),
    (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, math.nan])),
    (pa.string(), st.sampled_from(["", "a", "b", "a" * 40, "a" * 40 + "b", "\U0010ffff" * 33, "ä,:", "NULL"])),
    (pa.binary(), st.sampled_from([b"", b"\0", b"a"])),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.sampled_from([datetime.date(1, 1, 1), datetime.date(2026, 2, 28), datetime.date(9999, 12, 31)])),
    (pa.decimal128(12, 2), st.sampled_from([Decimal("0.00"), Decimal("-1.50"), Decimal("1234567890.12")])),
    (pa.decimal128(38, 8), st.sampled_from([Decimal("0E-8"), Decimal("123456789012345678901234567890.12345678")])),
    (
        pa.timestamp("us"),
        st.sampled_from([datetime.datetime(1970, 1, 1), datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)]),
    ),
    (
        pa.timestamp("us", "UTC"),
        st.sampled_from([datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)])
        | st.datetimes(datetime.datetime(1, 1, 2), timezones=st.just(datetime.UTC)),
    ),
]


def _nested(kind: pa.DataType, values: st.SearchStrategy[Any]) -> list[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    maybe = st.none() | values
    struct = pa.struct([("x", kind), ("y", pa.int64())])
    return [
        (pa.list_(kind), st.lists(maybe, max_size=3)),
        (struct, st.fixed_dictionaries({"x": maybe, "y": st.none() | st.just(7)})),
        # Timestamps without zone inside of maps cannot be stored.
        (
            pa.map_(pa.string(), pa.int64() if "timestamp[us]" in str(kind) else kind),
            st.lists(
                st.tuples(st.sampled_from("abc"), st.none() if "timestamp[us]" in str(kind) else maybe),
                max_size=3,
                unique_by=lambda entry: entry[0],
            ),
        ),
    ]


@st.composite
def _column(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    kind, values = draw(st.sampled_from(_SIMPLE))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        kind, values = draw(st.sampled_from(_nested(kind, values)))
    return kind, values


@st.composite
def tables(draw: st.DrawFn, *, number: int = 1, max_rows: int = 12, max_columns: int = 3) -> tuple[pa.Table, ...]:
    """Tables of one random schema whose rows collide often."""
    columns = draw(st.lists(_column(), min_size=1, max_size=max_columns))
    schema = pa.schema([(f"c{i}", kind) for i, (kind, _) in enumerate(columns)])
    row = st.tuples(*(st.none() | values for _, values in columns))
    # Few different rows, many copies: that is where bags differ from sets.
    pool = draw(st.lists(row, min_size=1, max_size=5))
    rows = [draw(st.lists(st.sampled_from(pool), max_size=max_rows)) for _ in range(number)]
    return tuple(from_rows(these, schema) for these in rows)


def from_rows(rows: Iterable[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def with_counts(table: pa.Table, counts: Iterable[int]) -> pa.Table:
    return table.append_column(N, pa.array(list(counts)[: table.num_rows], pa.int64()))


def bag(table: pa.Table) -> Counter[Any]:
    """A table, counted or not, as a bag of Python rows that are equal where SQL says so; zeros left out."""
    total: Counter[Any] = Counter()
    kinds = [(field.name, field.type) for field in table.schema if field.name != N]
    for row in table.to_pylist():
        total[tuple(_key(row[name], kind) for name, kind in kinds)] += row.get(N, 1)
    return Counter({row: n for row, n in total.items() if n})


def _key(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return frozenset((_key(k, kind.key_type), _key(v, kind.item_type)) for k, v in value)
    if pa.types.is_list(kind):
        return tuple(_key(item, kind.value_type) for item in value)
    if pa.types.is_struct(kind):
        return tuple(_key(value[kind.field(i).name], kind.field(i).type) for i in range(kind.num_fields))
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
