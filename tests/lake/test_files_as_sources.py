"""Folders of files as tables of a lake: files arrive, are replaced and go, and views follow exactly what changed."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from comparing import bag, refreshed

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


def put(folder: Path, name: str, *rows: object) -> Path:
    """Put a file of JSON rows into place, whole, as writers should."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".{path.name}.tmp"
    scratch.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.replace(scratch, path)
    return path


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing" / "clicks"
    put(folder, "1.json", {"id": 1, "page": "a"}, {"id": 2, "page": "b"}, {"id": 2, "page": "b"})
    return folder


@pytest.fixture
def clicks(lake: Lake, landing: Path) -> Lake:
    lake.register("clicks", files=landing / "*.json", schema="id INT, page STRING")
    lake.create_view("pages", "SELECT page, COUNT(*) AS n FROM clicks GROUP BY page")
    return lake


def test_files_that_arrive_are_replaced_and_go_are_followed(clicks: Lake, landing: Path) -> None:
    assert bag(clicks.read("pages")) == {("a", 1): 1, ("b", 2): 1}
    put(landing, "2.json", {"id": 3, "page": "a"})
    assert clicks.status()["pages"].stale
    report = refreshed(clicks, mode="incremental")["pages"]
    assert (report.inserted, report.deleted) == (1, 1)
    put(landing, "1.json", {"id": 2, "page": "b"}, {"id": 9, "page": "c"})
    refreshed(clicks, mode="incremental")
    assert bag(clicks.read("pages")) == {("a", 1): 1, ("b", 1): 1, ("c", 1): 1}
    changes = clicks.changes("clicks", since=1).select("id", "page", "_change_type").collect()
    assert Counter(map(tuple, changes)) == {(1, "a", "delete"): 1, (2, "b", "delete"): 1, (9, "c", "insert"): 1}
    os.remove(landing / "1.json")
    refreshed(clicks, mode="incremental")
    assert bag(clicks.read("clicks")) == {(3, "a"): 1}
    assert bag(clicks.read("clicks", version=0)) == {(1, "a"): 1, (2, "b"): 2}
    assert clicks.fsck().sound


def test_files_that_only_moved_or_were_touched_are_no_change(clicks: Lake, landing: Path) -> None:
    put(landing, "2.json", {"id": 3, "page": "a"})
    clicks.refresh()
    before = clicks.status()["clicks"].version
    os.utime(landing / "1.json", (1, 1))
    assert refreshed(clicks)["pages"].mode == "skip"
    assert clicks.status()["clicks"].version == before
    os.rename(landing / "1.json", landing / "renamed.json")
    put(landing, "2.json", {"page": "a", "id": 3})
    assert refreshed(clicks)["pages"].deleted == 0
    assert clicks.changes("clicks", since=before).count() == 0
    os.utime(landing / "renamed.json", (1, 1))
    os.utime(landing / "2.json", (1, 1))
    clicks.refresh()
    version = clicks.context.log.state().version
    clicks.refresh()
    assert clicks.context.log.state().version == version  # nothing was looked at but names and times


def test_views_equal_their_query_after_every_step_of_a_random_history(clicks: Lake, landing: Path) -> None:
    clicks.create_view("pairs", "SELECT l.id, r.page FROM clicks l JOIN clicks r ON l.id = r.id")
    chance = random.Random(7)
    held: dict[str, list[dict[str, object]]] = {}
    for path in landing.iterdir():
        held[path.name] = [json.loads(line) for line in path.read_text().splitlines()]
    states = {0: Counter((r["id"], r["page"]) for rows in held.values() for r in rows)}
    for _ in range(7):
        for _ in range(chance.randint(1, 3)):
            rows = [{"id": chance.randint(0, 4), "page": chance.choice("abc")} for _ in range(chance.randint(0, 5))]
            match chance.choice(["put", "put", "remove", "merge"]):
                case "put":
                    name = f"{chance.randint(0, 5)}.json"
                    held[name] = rows
                    put(landing, name, *rows)
                case "remove" if held:
                    name = chance.choice(sorted(held))
                    del held[name]
                    os.remove(landing / name)
                case "merge" if len(held) > 1:  # a compaction
                    one, two = chance.sample(sorted(held), 2)
                    held["merged.json"] = held.pop(one) + held.pop(two) + held.pop("merged.json", [])
                    for name in (one, two):
                        (landing / name).unlink()
                    put(landing, "merged.json", *held["merged.json"])
        refreshed(clicks, mode="incremental")
        now = Counter((r["id"], r["page"]) for rows in held.values() for r in rows)
        assert bag(clicks.read("clicks")) == now
        states[clicks.status()["clicks"].version] = now
    clicks.optimize()
    versions = sorted(states)
    for old, new in pairwise(versions):
        assert bag(clicks.read("clicks", version=old)) == states[old]
        change = Counter()
        for row in clicks.changes("clicks", since=old).where(f"_version <= {new}").collect():
            change[row[0], row[1]] += 1 if row["_change_type"] == "insert" else -1
        change.subtract(states[new] - states[old])
        change.update(states[old] - states[new])
        assert not any(change.values())


def test_every_format_is_read_with_its_partitions(lake: Lake, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", "b,\n"]})
    for kind in ("parquet", "orc", "csv"):
        (tmp_path / kind / "day=1").mkdir(parents=True)
    pq.write_table(rows, tmp_path / "parquet" / "day=1" / "x.parquet")
    orc.write_table(rows, str(tmp_path / "orc" / "day=1" / "x.orc"))
    (tmp_path / "csv" / "day=1" / "x y+%41.csv").write_text("id,name\n1,a\n2,b\n")
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    for kind in ("parquet", "orc", "csv"):
        lake.register(kind, files=tmp_path / kind)
        assert lake.read(kind).columns == ["id", "name", "day"]
    lake.register("notes", files=tmp_path / "*.txt")
    assert bag(lake.read("notes")) == {("one",): 1, ("two",): 1}
    assert bag(lake.read("orc")) == {(1, "a", "1"): 1, (2, "b,\n", "1"): 1}
    (tmp_path / "csv" / "day=2").mkdir()
    (tmp_path / "csv" / "day=2" / "x.csv").write_text("id,name\n3,c\n")
    lake.refresh()
    assert bag(lake.read("csv")) == {(1, "a", "1"): 1, (2, "b", "1"): 1, (3, "c", "2"): 1}
    lake.register("typed", files=tmp_path / "csv", schema="id INT, name STRING, day INT")
    assert bag(lake.read("typed")) == {(1, "a", 1): 1, (2, "b", 1): 1, (3, "c", 2): 1}


def test_a_bad_row_holds_the_views_until_it_is_mended(clicks: Lake, landing: Path) -> None:
    clicks.create_table("own", "id INT", [(1,)])
    clicks.create_view("total", "SELECT COUNT(*) AS n FROM own")
    with clicks.transaction() as tx:
        tx.insert("own", [(2,)])
    bad = put(landing, "bad.json", {"id": "no number", "page": "x"})
    report = clicks.refresh()
    assert (report["pages"].mode, report["total"].mode) == ("held", "incremental")
    assert "NABLA_BAD_ROW" in report["pages"].reason
    assert "bad.json" in report["pages"].reason
    with pytest.raises(NablaError, match="NABLA_BAD_ROW"):
        clicks.refresh("pages")
    os.remove(bad)
    put(landing, "good.json", {"id": 5, "page": "x"})
    refreshed(clicks)
    assert bag(clicks.sql("SELECT n FROM pages WHERE page = 'x'")) == {(1,): 1}


def test_bad_rows_are_rescued_as_text(lake: Lake, landing: Path, tmp_path: Path) -> None:
    put(landing, "bad.json", {"id": "no number", "page": "x"}, {"id": 7, "page": "y"})
    lake.register("clicks", files=str(landing), schema="id INT, page STRING", bad_rows="rescue")
    found = lake.sql("SELECT id, _rescued FROM clicks WHERE id = 7 OR _rescued IS NOT NULL")
    assert bag(found) == {(7, None): 1, (None, '{"id": "no number", "page": "x"}'): 1}
    (tmp_path / "c.csv").write_text("page,id\nx,1\n")
    with pytest.raises(NablaError, match="NABLA_BAD_FILE"):
        lake.register("other", files=tmp_path / "c.csv", schema="id INT, page STRING", bad_rows="rescue")
    assert "other" not in lake.status()


def test_a_folder_that_is_away_is_not_an_empty_one(clicks: Lake, landing: Path, tmp_path: Path) -> None:
    shutil.move(landing, tmp_path / "elsewhere")
    report = clicks.refresh()
    assert report["pages"].mode == "held"
    assert "NABLA_AWAY" in report["pages"].reason
    assert "NABLA_AWAY" in clicks.status()["clicks"].problem
    shutil.move(tmp_path / "elsewhere", landing)
    assert refreshed(clicks)["pages"].mode == "skip"
    os.remove(landing / "1.json")
    refreshed(clicks)
    assert clicks.read("pages").count() == 0


def test_what_cannot_be_registered_leaves_nothing_behind(lake: Lake, landing: Path, tmp_path: Path) -> None:
    lake.create_table("own", "id INT", [(1,)])
    (tmp_path / "odd.xyz").write_text("?")
    refused = [
        ("NABLA_ARGUMENT", {}),
        ("NABLA_ARGUMENT", {"files": str(landing), "query": "SELECT 1 AS x"}),
        ("NABLA_ARGUMENT", {"query": "SELECT 1 AS x", "schema": "x INT"}),
        ("NABLA_ARGUMENT", {"files": str(landing), "bad_rows": "ignore"}),
        ("NABLA_SOURCE", {"files": str(tmp_path / "odd.xyz")}),
        ("NABLA_SOURCE", {"files": str(landing), "format": "xlsx"}),
        ("NABLA_SOURCE", {"files": str(landing), "options": {"mode": "DROPMALFORMED"}}),
        ("NABLA_AWAY", {"files": str(tmp_path / "nowhere" / "*.json"), "schema": "id INT"}),
        ("NABLA_NO_SCHEMA", {"files": str(landing / "*.csv")}),
        ("NABLA_SCHEMA", {"files": str(landing), "schema": "id WHAT"}),
        ("NABLA_DUPLICATE_COLUMN", {"files": str(landing), "schema": "id INT, ID INT"}),
        ("NABLA_KEY", {"files": str(landing), "schema": "id INT", "key": "nope"}),
        ("NABLA_PATH", {"files": os.path.join(lake.path, "tables")}),
        ("NABLA_PATH", {"files": str(tmp_path / "lake" / "**" / "*.parquet")}),
        ("NABLA_PATH", {"files": str(tmp_path / "**" / "*.parquet")}),
        ("NABLA_NAME", {"files": str(landing), "name": "no name"}),
        ("NABLA_EXISTS", {"files": str(landing), "name": "own"}),
    ]
    version = lake.context.log.state().version
    for code, arguments in refused:
        arguments = {"name": "clicks", **arguments}
        with pytest.raises(NablaError) as error:
            lake.register(**arguments)
        assert error.value.code == code, arguments
        assert error.value.place
        assert error.value.remedy
    assert lake.context.log.state().version == version


def test_a_copy_is_nobodys_to_write_and_cannot_be_undone(clicks: Lake, landing: Path) -> None:
    with pytest.raises(NablaError, match="NABLA_NOT_WRITABLE"), clicks.transaction() as tx:
        tx.insert("clicks", [(1, "x")])
    clicks.create_table("own", "id INT", [(1,)])
    before = clicks.context.log.state().version
    put(landing, "2.json", {"id": 3, "page": "a"})
    clicks.refresh()
    clicks.revert(before)
    refreshed(clicks)
    assert bag(clicks.read("clicks")) == {(1, "a"): 1, (2, "b"): 2, (3, "a"): 1}


def test_another_process_follows_the_files_of_a_lake_that_it_trusts(clicks: Lake, landing: Path) -> None:
    put(landing, "2.json", {"id": 3, "page": "a"})
    other = nabla.open(clicks.path, spark=clicks.spark, trust=False)
    with pytest.raises(NablaError, match="NABLA_UNTRUSTED"):
        other.refresh()
    assert bag(other.read("clicks")) == {(1, "a"): 1, (2, "b"): 2}
    mine = nabla.open(clicks.path, spark=clicks.spark)
    refreshed(mine)
    assert mine.read("clicks").count() == 4


def test_files_are_registered_again_with_more_columns(clicks: Lake, landing: Path) -> None:
    put(landing, "2.json", {"id": 3, "page": "a", "user": "u"})
    clicks.register("clicks", files=landing / "*.json", schema="id INT, page STRING, user STRING")
    refreshed(clicks)
    assert bag(clicks.sql("SELECT user FROM clicks WHERE id = 3")) == {("u",): 1}
    with pytest.raises(NablaError, match="NABLA_SCHEMA_CHANGED"):
        clicks.register("clicks", files=landing / "*.json", schema="id INT")
    clicks.drop_view("pages")
    clicks.drop_table("clicks")
    assert clicks.vacuum() is not None
