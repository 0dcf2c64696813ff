"""What is known about a file is true of its rows, whoever wrote it."""

from __future__ import annotations

import datetime
import json
import math
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import Schema, write_deltalake
from hypothesis import given
from storage_oracle import few, tables

from nabla.storage import files, reading
from nabla.storage.files import DataFile
from nabla.storage.statistics import decode, encode
from nabla.storage.table import StoredTable

SPARK_FILE = Path(__file__).parent / "data" / "spark-4.2.parquet"


def check(file: DataFile, table: pa.Table) -> None:
    """Every value lies within its bounds, NaN being the greatest; NULLs are counted right where they are counted."""
    for name in table.column_names:
        values = table[name].to_pylist()
        if name in file.nulls:
            assert file.nulls[name] == values.count(None)
        for value in values:
            if value is not None:
                assert name not in file.minimum or _order(file.minimum[name]) <= _order(value)
                assert name not in file.maximum or _order(value) <= _order(file.maximum[name])


def _order(value: Any) -> Any:
    return (math.isnan(value), value) if isinstance(value, float) else value


@few
@given(tables())
def test_bounds_from_footers_and_logs_hold(drawn: tuple[pa.Table, ...]) -> None:
    (table,) = drawn
    with tempfile.TemporaryDirectory() as folder:
        written = files.write(folder, table, rows=5)
        StoredTable.create(folder, Schema.from_arrow(table.schema).to_json(), written)
        snapshot = StoredTable(folder).snapshot()
        assert {file.path for file in snapshot.files} == {file.path for file in written}
        for file in (*written, *snapshot.files):
            check(file, reading.read_file(snapshot, file))
        assert sum(file.rows for file in written) == table.num_rows


@few
@given(tables())
def test_bounds_of_other_writers_hold(drawn: tuple[pa.Table, ...]) -> None:
    (table,) = drawn
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, table)
        snapshot = StoredTable(folder).snapshot()
        for file in snapshot.files:
            check(file, reading.read_file(snapshot, file))


@few
@given(tables())
def test_a_described_file_survives_json(drawn: tuple[pa.Table, ...]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for file in files.write(folder, drawn[0]):
            assert DataFile.from_json(json.loads(json.dumps(file.to_json()))) == file
            assert json.loads(file.delta_statistics)["numRecords"] == file.rows


NOON = datetime.datetime(2026, 1, 1, 12, 0, 0, 5)


@pytest.mark.parametrize(
    "value", [1, "text", 1.5, NOON.date(), Decimal("1.50"), NOON, NOON.replace(tzinfo=datetime.UTC)]
)
def test_a_bound_survives_json(value: Any) -> None:
    assert decode(json.loads(json.dumps(encode(value)))) == value


def test_a_cut_text_is_still_a_bound(tmp_path: Path) -> None:
    (file,) = files.write(tmp_path, pa.table({"x": ["b" * 40], "y": ["\ud7ff" * 40], "z": ["\U0010ffff" * 40]}))
    assert file.minimum == {"x": "b" * 32, "y": "\ud7ff" * 32, "z": "\U0010ffff" * 32}
    assert file.maximum == {"x": "b" * 31 + "c", "y": "\ud7ff" * 31 + "\ue000"}


def test_what_spark_writes_is_understood() -> None:
    file = files.describe(SPARK_FILE.parent, SPARK_FILE.name)
    assert file.rows == 5
    assert (file.minimum["id"], file.maximum["id"]) == (0, 4)
    assert (file.minimum["d38"], file.maximum["d38"]) == (Decimal("0.25"), Decimal("4.25"))
    assert file.minimum["g"] == 0.0, "a NaN in the column leaves the minimum"
    assert "g" not in file.maximum
    assert "ts" not in file.minimum, "Spark's 96-bit timestamps have no statistics"
    assert file.nulls["nn"] == 5
    assert not {"l", "st", "m", "ls"} & {*file.minimum, *file.nulls}


def test_what_spark_writes_reads_with_the_types_of_the_table(tmp_path: Path) -> None:
    columns = ["id", "g", "ts", "d38", "l", "st", "m", "ls"]
    wanted = pa.schema(
        [
            ("id", pa.int64()),
            ("g", pa.float64()),
            ("ts", pa.timestamp("us", "UTC")),
            ("d38", pa.decimal128(38, 2)),
            ("l", pa.list_(pa.int64())),
            ("st", pa.struct([("x", pa.int64()), ("y", pa.string())])),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("ls", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int32()))]))),
        ]
    )
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / "part-0.parquet").write_bytes(SPARK_FILE.read_bytes())
    (staging / "_SUCCESS").touch()
    adopted = files.adopt(staging, tmp_path / "table")
    table = StoredTable.create(tmp_path / "table", Schema.from_arrow(wanted).to_json(), adopted)
    rows = reading.read(table.snapshot())
    assert rows.column_names == columns
    assert rows.slice(2, 1).to_pylist() == [
        {
            "id": 2,
            "g": 2.0,
            "ts": datetime.datetime(2020, 1, 1, 0, 0, 0, 123456, datetime.UTC),
            "d38": Decimal("2.25"),
            "l": [2, None],
            "st": {"x": 2, "y": "y"},
            "m": [("k", 2)],
            "ls": [{"a": 1, "b": [2]}],
        }
    ]


def test_large_tables_are_cut_into_files_of_about_equal_size(tmp_path: Path) -> None:
    written = files.write(tmp_path, pa.table({"x": pa.arange(0, 1001)}), rows=500)
    assert [file.rows for file in written] == [333, 334, 334]
