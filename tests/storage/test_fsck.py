"""A damaged lake is looked through, and mended from what its catalogs know."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lake_story import ROWS, check, content, create, rows, step
from storage_oracle import bag

from nabla.errors import NablaError
from nabla.storage import bags, changes, files
from nabla.storage.catalog import Entry
from nabla.storage.fsck import examine_lake
from nabla.storage.lakelog import LakeLog
from nabla.storage.reading import read_file

LAST = 4


@pytest.fixture
def lake(tmp_path: Path) -> LakeLog:
    log = LakeLog.create(tmp_path / "lake")
    for number in range(LAST):
        step(log, number)
    return log


def commit_file(lake: LakeLog, name: str, version: int) -> Path:
    folder = lake.folder(lake.state().entries[name].parts["data"])
    return Path(folder) / "_delta_log" / f"{version:020d}.json"


def lake_commit(lake: LakeLog, version: int) -> Path:
    return Path(lake.path) / "_nabla" / "log" / "_delta_log" / f"{version:020d}.json"


def go_on(path: str) -> None:
    """The story continues as if nothing had happened."""
    lake = LakeLog.open(path)
    check(lake)
    step(lake, lake.state().version)
    check(LakeLog.open(path))
    assert examine_lake(path).damages == ()


def test_a_sound_lake_has_no_damage(lake: LakeLog) -> None:
    found = examine_lake(lake.path)
    assert found.sound
    assert (found.tables, found.damages) == (3, ())
    assert str(found) == f"3 tables with {found.files} files: no damage"
    assert examine_lake(lake.path, quick=True) == found


def test_a_folder_without_a_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NablaError, match="NABLA_NOT_A_LAKE"):
        examine_lake(str(tmp_path))


@pytest.mark.parametrize("left", [None, 0.0, 0.6])
@pytest.mark.parametrize("version", [1, 2])
def test_a_damaged_commit_of_a_table_is_made_again(lake: LakeLog, version: int, left: float | None) -> None:
    path = commit_file(lake, "orders", version)
    if left is None:
        path.unlink()
    else:
        os.truncate(path, int(path.stat().st_size * left))
    before = examine_lake(lake.path)
    if (version, left) == (2, None):  # whoever opens the lake makes it: the newest commit of the lake has promised it
        assert before.sound
        go_on(lake.path)
        return
    assert not before.sound
    assert before.damages[0].place == str(path)
    assert "--repair" in str(before)
    after = examine_lake(lake.path, repair=True)
    assert after.sound
    assert "Repaired" in str(after)
    go_on(lake.path)


def test_the_newest_commit_of_a_table_is_made_again_when_the_lake_has_moved_on(lake: LakeLog) -> None:
    part = create(lake, "other", ROWS, rows(0))
    lake.commit({"other": Entry("other", "table", {}, {"data": part})}, lake.state(), "create table")
    commit_file(lake, "orders", 2).unlink()
    assert not examine_lake(lake.path).sound
    assert examine_lake(lake.path, repair=True).sound
    assert examine_lake(lake.path).damages == ()


def test_a_commit_that_no_catalog_knows_is_reported(lake: LakeLog) -> None:
    commit_file(lake, "orders", 0).write_text("")
    found = examine_lake(lake.path, repair=True)
    assert not found.sound
    assert "restore it from a copy" in str(found)


def test_a_damaged_commit_of_the_lake_is_made_again_from_its_catalog(lake: LakeLog) -> None:
    lake_commit(lake, LAST).write_text("")
    with pytest.raises(NablaError, match="NABLA_CORRUPT"):
        LakeLog.open(lake.path)
    assert examine_lake(lake.path, repair=True).sound
    assert next(LakeLog.open(lake.path).history()).operation == "repair"
    go_on(lake.path)


def test_a_commit_of_the_lake_whose_catalog_is_lost_is_taken_back(lake: LakeLog) -> None:
    (Path(lake.path) / "_nabla" / "log" / lake.state().file.path).unlink()
    lake_commit(lake, LAST).write_text("")
    found = examine_lake(lake.path, repair=True)
    assert found.sound
    assert "goes back" in str(found)
    assert "was lost" in str(found)
    go_on(lake.path)


def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path) -> None:
    lake = LakeLog.create(tmp_path)
    part = create(lake, "a", ROWS, rows(0))
    lake.commit({"a": Entry("a", "table", {}, {"data": part})}, lake.state(), "create table")
    for number in range(1, 12):
        part = lake.state().entries["a"].parts["data"]
        moved = part.advanced(files.write(lake.folder(part), rows(number)))
        lake.commit({"a": Entry("a", "table", {}, {"data": moved})}, lake.state(), "insert")
    for path in tmp_path.rglob("*.checkpoint.parquet"):
        path.write_bytes(b"")
    assert len(examine_lake(lake.path).damages) >= 2
    assert examine_lake(lake.path, repair=True).sound
    again = LakeLog.open(lake.path)
    assert content(again, again.state().entries["a"].parts["data"]) == bag(rows(*range(12)))
    assert examine_lake(lake.path).damages == ()


def test_no_flipped_bit_changes_rows_without_being_found(lake: LakeLog) -> None:
    part = lake.state().entries["orders"].parts["data"]
    snapshot = lake.snapshot(part)
    file = snapshot.files[0]
    path, whole = Path(snapshot.path(file)), Path(snapshot.path(file)).read_bytes()
    known, unnoticed = read_file(snapshot, file), 0
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x81]) + whole[place + 1 :])
        found = examine_lake(lake.path)
        if found.sound:
            unnoticed += 1
            assert read_file(snapshot, file).equals(known), f"byte {place}"
        else:
            assert [damage.place for damage in found.damages] == [str(path)]
    assert unnoticed < len(whole) / 3, "no damage was found at all"


def test_a_damaged_record_of_a_change_is_set_aside(tmp_path: Path) -> None:
    lake = LakeLog.create(tmp_path)
    part = create(lake, "a", ROWS, rows(0))
    lake.commit({"a": Entry("a", "table", {}, {"data": part})}, lake.state(), "create table")
    folder, more = lake.folder(part), rows(1)
    (record,) = changes.record(folder, bags.counted(more))
    moved = part.advanced(files.write(folder, more), (), {changes.KEY: [record.to_json()]})
    lake.commit({"a": Entry("a", "table", {}, {"data": moved})}, lake.state(), "insert")
    assert examine_lake(lake.path).damages == ()
    path = Path(folder) / record.path
    path.write_bytes(b"PAR1")
    found = examine_lake(lake.path)
    assert [damage.place for damage in found.damages] == [str(path)]
    assert examine_lake(lake.path, repair=True).sound
    assert examine_lake(lake.path).damages == ()
    table = lake.table(lake.state().entries["a"].parts["data"])
    assert bag(changes.signed(changes.between(table, 0, 1))) == bag(bags.counted(more))


def test_a_bit_that_flipped_is_found(lake: LakeLog) -> None:
    (file, *_) = lake.snapshot(lake.state().entries["orders"].parts["data"]).files
    path = Path(lake.folder(lake.state().entries["orders"].parts["data"])) / file.path
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 4] ^= 1
    path.write_bytes(whole)
    found = examine_lake(lake.path)
    assert [damage.place for damage in found.damages] == [str(path)]
    path.write_bytes(b"")
    assert [damage.place for damage in examine_lake(lake.path, quick=True).damages] == [str(path)]
    path.unlink()
    assert not examine_lake(lake.path).sound
