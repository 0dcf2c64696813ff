"""Statistics of a replayed log are those that deltalake gives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
from delta_foreign import actions, write_actions
from deltalake import write_deltalake
from two_readers import expected, ordered

from nabla.errors import NablaError
from nabla.storage.log_replay import Uncertain, replay


def test_a_table_of_many_columns_has_at_least_the_statistics_that_deltalake_gives(tmp_path: Path) -> None:
    write_deltalake(
        tmp_path,
        pa.table({f"c{i}": [1, 2] for i in range(40)}),
        configuration={"delta.dataSkippingNumIndexedCols": "40"},
    )
    (file,), (wanted,) = replay(str(tmp_path), 0).files, expected(str(tmp_path), 0).files
    assert wanted.minimum.items() <= file.minimum.items()
    assert wanted.maximum.items() <= file.maximum.items()
    assert wanted.nulls.items() <= file.nulls.items()
    assert len(file.minimum) == 40


KINDS = {
    "byte": pa.int8(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "flag": pa.bool_(),
    "date": pa.date32(),
    "instant": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "decimal": pa.decimal128(12, 2),
    "long_decimal": pa.decimal128(38, 8),
    "list": pa.list_(pa.int64()),
    "struct": pa.struct([("x", pa.int64())]),
}
UNBOUNDED = ("binary", "flag", "list", "long_decimal", "struct")
TEXTS = (
    *("0", "-0", "1", "-128", "128", "300", "2147483648", "9223372036854775807", "9223372036854775808", "1e2"),
    *("0.0", "-0.0", "1.5", "0.1", "1e308", "1e400", "123456789.12", "12345678901.5", "1.005", "0.10000000149011612"),
    *("16777217.000000001", "3.4028235e38", "3.5e38", "true", "null", "[]", "[1]", "{}", '{"x":1}', "NaN", "Infinity"),
    *('""', '"a"', '"NaN"', '"1"', '"1.50"', '"\\u00e4"', '"\\ud800"', '"2026-01-02"', '"2026-02-30"', '"0000-01-01"'),
    *('"9999-12-31"', '"+12026-01-02"', '"2026-01-02T03:04:05.678Z"', '"2026-01-02T03:04:05.678901Z"'),
    *('"2026-01-02T03:04:05.678901234Z"', '"2026-01-02T03:04:05.678-08:00"', '"2026-01-02T03:04:05"'),
    *(
        '"2026-01-02T03:04:05.678"',
        '"2026-01-02 03:04:05.678"',
        '"2026-01-02 03:04:05Z"',
        '"0001-01-01T00:00:00+08:00"',
    ),
    *('"9999-12-31T23:59:59.999Z"', '"9999-12-31T23:59:59.999-08:00"', '"2026-01-02T24:00:00Z"', '"2026-01-02T03:04Z"'),
)


def statistics_texts() -> Iterator[tuple[str, str]]:
    """Every value under every column, as a minimum, a maximum and a count."""
    for name in KINDS:
        for text in TEXTS:
            for group in ("minValues", "maxValues", "nullCount"):
                yield f"{name} {group} {text}", f'{{"numRecords":3,"{group}":{{"{name}":{text}}}}}'
    for text in ("", "{}", "null", "[]", "{", '{"numRecords":"3"}', '{"numRecords":3.0}', '{"numRecords":null}'):
        yield f"all {text}", text
    yield "unknown column", '{"numRecords":3,"minValues":{"nobody":1},"nullCount":{"nobody":0}}'
    yield "other form", '{"numRecords":3,"minValues":[1]}'


def test_statistics_are_read_as_deltalake_does_or_left_to_it(tmp_path: Path) -> None:
    """deltalake refuses a table for malformed statistics of columns of which no bounds are kept; a replay does not look."""
    write_deltalake(tmp_path, pa.schema(list(KINDS.items())).empty_table())
    described = actions(tmp_path, 0)
    certain = 0
    for what, text in islice(statistics_texts(), 0, None, 2):
        add = {"path": "x.parquet", "size": 9, "partitionValues": {}, "dataChange": True, "modificationTime": 1}
        write_actions(
            tmp_path, 0, [*(line for line in described if "add" not in line), {"add": {**add, "stats": text}}]
        )
        try:
            found = replay(str(tmp_path), 0)
        except (Uncertain, FileNotFoundError):
            continue
        certain += 1
        try:
            wanted = expected(str(tmp_path), 0)
        except NablaError:
            assert what.split()[0] in UNBOUNDED, what
            known = found.files[0]
            assert (known.minimum, known.maximum, known.nulls) == ({}, {}, {}), what
        else:
            assert ordered(found) == wanted, what
    assert certain > 150
