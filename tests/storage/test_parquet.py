"""Small and large Parquet files are read in different ways, with the same result."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nabla.errors import NablaError
from nabla.storage import locations, parquet

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [{"d": 1, "e": "p"}, None, {"d": 3, "e": None}]})


@pytest.fixture(params=["small", "large"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "large":
        monkeypatch.setattr(parquet, "_SMALL", 0)
        monkeypatch.setattr(parquet, "_FEW_ROWS", 0)
    path = str(tmp_path / "rows.parquet")
    assert locations.write_parquet(ROWS, path).equals(pq.read_metadata(path))
    return path


def test_all_rows_are_read(file: str) -> None:
    assert locations.read_parquet(file).equals(ROWS)


def test_columns_are_read_in_the_order_that_is_asked_for(file: str) -> None:
    assert locations.read_parquet(file, ["c", "a"]).equals(ROWS.select(["c", "a"]))
    assert locations.read_parquet(file, []).num_columns == 0


def test_columns_that_a_file_does_not_have_are_left_out_where_that_is_expected(file: str) -> None:
    with locations.parquet_file(file) as opened:
        assert parquet.read_columns(opened, ["a", "other"]).equals(ROWS.select(["a"]))


def test_a_missing_column_is_an_error_with_a_code(file: str) -> None:
    with pytest.raises(NablaError, match="NABLA_READ_FAILED"):
        locations.read_parquet(file, ["other"])


def test_a_damaged_file_is_an_error_with_a_code(file: str) -> None:
    Path(file).write_bytes(Path(file).read_bytes()[:-20])
    with pytest.raises(NablaError, match="NABLA_READ_FAILED"):
        locations.read_parquet(file)
    with pytest.raises(NablaError, match="NABLA_READ_FAILED"), locations.parquet_file(file):
        pass
