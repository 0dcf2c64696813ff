"""Files and folders by path and by URL: the same answers to the same questions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from nabla.storage import places


@pytest.fixture(params=["path", "url"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "path" else tmp_path.as_uri()


def test_files_come_and_go(home: str) -> None:
    folder = f"{home}/a/b"
    places.make_folder(folder)
    rows = pa.table({"x": [1, 2, 3]})
    places.write_parquet(rows, f"{folder}/one.parquet")
    assert places.is_folder(folder)
    assert not places.is_folder(f"{folder}/one.parquet")
    assert places.is_file(f"{folder}/one.parquet")
    assert places.exists(f"{folder}/one.parquet")
    assert not places.exists(f"{folder}/two.parquet")
    assert places.read_parquet(f"{folder}/one.parquet").equals(rows)
    assert places.read_parquet(f"{folder}/one.parquet", ["x"]).equals(rows)
    assert places.parquet_footer(f"{folder}/one.parquet").num_rows == 3
    with places.parquet_file(f"{folder}/one.parquet") as file:
        assert file.read().equals(rows)
    assert places.size(f"{folder}/one.parquet") > 100
    assert places.modified(f"{folder}/one.parquet") > 1e9
    places.move(f"{folder}/one.parquet", f"{home}/a/two.parquet")
    assert places.names(folder) == []
    assert sorted(places.names(f"{home}/a")) == ["b", "two.parquet"]
    assert places.parquet_files(f"{home}/a") == [f"{home}/a/two.parquet"]
    assert [(f, sorted(s), n) for f, s, n in places.tree(f"{home}/a")] == [
        (f"{home}/a", ["b"], ["two.parquet"]),
        (f"{home}/a/b", [], []),
    ]
    places.remove(f"{home}/a/two.parquet")
    assert not places.exists(f"{home}/a/two.parquet")
    places.remove_folder(f"{home}/a")
    assert not places.exists(f"{home}/a")


def test_what_is_missing_is_not_there(home: str) -> None:
    assert not places.exists(f"{home}/nothing")
    assert not places.is_folder(f"{home}/nothing")
    assert places.parquet_files(f"{home}/nothing") == []
    places.remove_folder(f"{home}/nothing")
    for look in (places.names, places.remove, places.modified, places.open_text, places.parquet_footer):
        with pytest.raises(FileNotFoundError):
            look(f"{home}/nothing")


def test_texts_are_read(home: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"name": "Ὅμηρος"}\n', encoding="utf-8")
    with places.open_text(f"{home}/a.json") as file:
        assert file.read() == '{"name": "Ὅμηρος"}\n'


def test_names_are_absolute() -> None:
    assert places.named("s3a://bucket/lake/") == "s3a://bucket/lake"
    assert places.named("lake") == str(Path.cwd() / "lake")
    assert places.is_absolute("s3a://bucket/lake")
    assert places.is_absolute("/lake")
    assert not places.is_absolute("tables/orders-12345678")
