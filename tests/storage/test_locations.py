"""Files and folders by path and by URL: the same answers to the same questions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from nabla.errors import NablaError
from nabla.storage import locations


@pytest.fixture(params=["path", "url"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "path" else f"memory://{tmp_path.name}"


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
    assert not locations.exists(f"{folder}/one.parquet")
    assert sorted(locations.names(f"{home}/a"))[-1] == "two.parquet"
    assert locations.parquet_files(f"{home}/a") == [f"{home}/a/two.parquet"]
    # Where there are only objects, an empty folder is none.
    folders = [] if locations.is_url(home) else ["b"]
    below = [(f"{home}/a/{name}", [], []) for name in folders]
    found = [(f, sorted(s), n) for f, s, n in locations.tree(f"{home}/a")]
    assert found == [(f"{home}/a", folders, ["two.parquet"]), *below]
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
    for look in (locations.names, locations.modified, locations.open_text, locations.parquet_footer):
        with pytest.raises(FileNotFoundError):
            look(f"{home}/nothing")
    if not locations.is_url(home):  # stores do not tell
        with pytest.raises(FileNotFoundError):
            locations.remove(f"{home}/nothing")


def test_texts_are_read(home: str) -> None:
    locations.write_text(f"{home}/a.json", '{"name": "Ὅμηρος"}\n')
    with locations.open_text(f"{home}/a.json") as file:
        assert file.read() == '{"name": "Ὅμηρος"}\n'


def test_a_file_that_must_be_new_is_made_once(home: str) -> None:
    locations.put_text(f"{home}/1.json", "mine")
    with pytest.raises(FileExistsError):
        locations.put_text(f"{home}/1.json", "yours")
    assert locations.read_text(f"{home}/1.json") == "mine"
    locations.put_text(f"{home}/1.json", "ours", overwrite=True)
    assert locations.read_range(f"{home}/1.json", 1, 2) == b"ur"
    assert locations.names_after(home, "0.json") == ["1.json"]
    assert locations.first_missing([f"{home}/1.json", f"{home}/2.json"]) == f"{home}/2.json"


def test_names_are_absolute() -> None:
    assert locations.named("s3a://bucket/lake/") == "s3a://bucket/lake"
    assert locations.named("file:///lake") == "/lake"
    assert locations.named("lake") == str(Path.cwd() / "lake")
    assert locations.is_absolute("s3a://bucket/lake")
    assert locations.is_absolute("/lake")
    assert not locations.is_absolute("tables/orders-12345678")
