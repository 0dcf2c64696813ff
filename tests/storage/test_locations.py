"""Files and folders by path and by URL: the same answers to the same questions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from nabla.errors import NablaError
from nabla.storage import locations


@pytest.fixture(params=["path", "url"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "path" else tmp_path.as_uri()


def test_files_come_and_go(home: str) -> None:
    folder = f"{home}/a/b"
    locations.make_folder(folder)
    rows = pa.table({"x": [1, 2, 3]})
    locations.write_parquet(rows, f"{folder}/one.parquet")
    assert locations.is_folder(folder)
    assert not locations.is_folder(f"{folder}/one.parquet")
    assert locations.is_file(f"{folder}/one.parquet")
    assert locations.exists(f"{folder}/one.parquet")
    assert not locations.exists(f"{folder}/two.parquet")
    assert locations.read_parquet(f"{folder}/one.parquet").equals(rows)
    assert locations.read_parquet(f"{folder}/one.parquet", ["x"]).equals(rows)
    assert locations.parquet_footer(f"{folder}/one.parquet").num_rows == 3
    with locations.parquet_file(f"{folder}/one.parquet") as file:
        assert file.read().equals(rows)
    assert locations.size(f"{folder}/one.parquet") > 100
    assert locations.modified(f"{folder}/one.parquet") > 1e9
    locations.move(f"{folder}/one.parquet", f"{home}/a/two.parquet")
    assert locations.names(folder) == []
    assert sorted(locations.names(f"{home}/a")) == ["b", "two.parquet"]
    assert locations.parquet_files(f"{home}/a") == [f"{home}/a/two.parquet"]
    assert [(f, sorted(s), n) for f, s, n in locations.tree(f"{home}/a")] == [
        (f"{home}/a", ["b"], ["two.parquet"]),
        (f"{home}/a/b", [], []),
    ]
    locations.remove(f"{home}/a/two.parquet")
    assert not locations.exists(f"{home}/a/two.parquet")
    locations.remove_folder(f"{home}/a")
    assert not locations.exists(f"{home}/a")


def test_what_is_missing_is_not_there(home: str) -> None:
    assert not locations.exists(f"{home}/nothing")
    assert not locations.is_folder(f"{home}/nothing")
    with pytest.raises(NablaError, match="NABLA_VACUUMED"):
        locations.parquet_files(f"{home}/nothing")
    locations.remove_folder(f"{home}/nothing")
    for look in (locations.names, locations.remove, locations.modified, locations.open_text, locations.parquet_footer):
        with pytest.raises(FileNotFoundError):
            look(f"{home}/nothing")


def test_texts_are_read(home: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "Ὅμηρος"}\n', encoding="utf-8")
    with locations.open_text(f"{home}/a.json") as file:
        assert file.read() == '{"name": "Ὅμηρος"}\n'


def test_names_are_absolute() -> None:
    assert locations.named("s3a://bucket/lake/") == "s3a://bucket/lake"
    assert locations.named("lake") == str(Path.cwd() / "lake")
    assert locations.is_absolute("s3a://bucket/lake")
    assert locations.is_absolute("/lake")
    assert not locations.is_absolute("tables/orders-12345678")
