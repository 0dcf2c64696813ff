"""Vacuum deletes what nobody needs and nothing else."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path

import lake_story
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lake_story import ROWS, create, rows
from storage_oracle import bag

from nabla.errors import NablaError
from nabla.storage import changes, files, reading
from nabla.storage.catalog import Entry, Part
from nabla.storage.changes import between, signed
from nabla.storage.lakelog import STAGING, LakeLog
from nabla.storage.table import StoredTable
from nabla.storage.vacuum import vacuum


@pytest.fixture
def lake(tmp_path: Path) -> LakeLog:
    """A lake whose table "orders" has versions 0 to 3, each with one file."""
    log = LakeLog.create(tmp_path / "lake")
    for number in range(5):
        lake_story.step(log, number)
    return log


def data(lake: LakeLog, name: str = "orders") -> Part:
    return lake.state().entries[name].parts["data"]


def make_old(path: str, seconds: float = 3600) -> None:
    """Give everything below a folder the age that time would give it, commits included."""
    then = time.time() - seconds
    for folder, _, names in os.walk(path):
        for name in [".", *names]:
            os.utime(os.path.join(folder, name), (then, then))
            if name.endswith(".json") and "_delta_log" in folder:
                _backdate(os.path.join(folder, name), seconds)


def _backdate(path: str, seconds: float) -> None:
    text = Path(path).read_text()
    Path(path).write_text(
        re.sub(r'"timestamp":(\d+)', lambda m: f'"timestamp":{int(m[1]) - int(seconds * 1000)}', text)
    )
    os.utime(path, (time.time() - seconds,) * 2)


def readable(lake: LakeLog, part: Part) -> list[int]:
    return [
        version for version in range(part.version + 1) if _is_readable(LakeLog.open(lake.path).table(part), version)
    ]


def _is_readable(table: StoredTable, version: int) -> bool:
    try:
        return table.snapshot(version).version == version
    except NablaError as error:
        if error.code != "NABLA_VERSION_GONE":
            raise
        return False


def test_only_the_current_version_is_kept_unless_asked(lake: LakeLog) -> None:
    assert readable(lake, data(lake)) == [0, 1, 2, 3]
    done = vacuum(lake, {}, grace=0)
    assert done.bytes > 0
    assert readable(lake, data(lake)) == [3]
    lake_story.check(LakeLog.open(lake.path))
    assert {os.path.dirname(path) for path in vacuum(lake, {}, grace=0).paths} == {"_nabla/log"}  # of the first vacuum
    assert vacuum(lake, {}, grace=0).paths == ()


def test_versions_that_a_view_refers_to_are_kept_with_the_changes_since(lake: LakeLog) -> None:
    part = data(lake)
    table = lake.table(part)
    expected = bag(signed(between(table, 1, 3)))
    vacuum(lake, {part.path: 1}, grace=0)
    assert readable(lake, part) == [1, 2, 3]
    change = between(LakeLog.open(lake.path).table(part), 1, 3)
    assert len(change.recorded) == 2, "recorded changes after the kept version stay"
    assert bag(signed(change)) == expected
    assert len(os.listdir(os.path.join(table.folder, changes.FOLDER))) == 2


def test_what_was_needed_a_moment_ago_is_kept(lake: LakeLog) -> None:
    assert vacuum(lake, {}, grace=3600).paths == ()
    make_old(lake.path)
    lake = LakeLog.open(lake.path)
    lake_story.step(lake, 5)
    vacuum(lake, {}, grace=1800)
    # Half an hour ago version 3 was current.
    assert readable(lake, data(lake)) == [3, 4]


def test_a_dry_run_deletes_nothing(lake: LakeLog) -> None:
    would = vacuum(lake, {}, grace=0, dry_run=True)
    assert readable(lake, data(lake)) == [0, 1, 2, 3]
    assert vacuum(lake, {}, grace=0) == would
    assert not any(os.path.exists(os.path.join(lake.path, path)) for path in would.paths)


def test_files_that_were_never_committed_go_when_they_are_old(lake: LakeLog) -> None:
    part = data(lake)
    (orphan,) = files.write(lake.folder(part), rows(99))
    path = os.path.join(part.path, orphan.path)
    assert path not in vacuum(lake, {}, grace=3600).paths
    make_old(lake.folder(part))
    assert path in vacuum(lake, {}, grace=1800).paths
    assert not os.path.exists(os.path.join(lake.path, path))


def test_folders_of_dropped_and_never_committed_objects_go(lake: LakeLog) -> None:
    dropped = [lake.folder(part) for part in lake.state().entries["doubled"].parts.values()]
    orphan = lake.folder(create(lake, "orphan", ROWS))
    staging = lake.new_staging()
    files.write(staging, rows(1))
    lake.commit({"doubled": None}, lake.state(), "drop")
    assert vacuum(lake, {}, grace=3600).paths == ()
    vacuum(lake, {}, grace=0)
    assert not any(map(os.path.exists, [*dropped, orphan, staging]))
    assert os.path.isdir(os.path.join(lake.path, STAGING))
    assert lake_story.content(lake, data(lake)) == {(3,): 1, (4,): 1, (1,): 1}


def test_folders_that_the_lake_did_not_make_stay(lake: LakeLog) -> None:
    for place in ("tables/notes", "_nabla/staging/notes", "mine"):
        os.makedirs(os.path.join(lake.path, place))
    vacuum(lake, {}, grace=0)
    assert all(
        os.path.isdir(os.path.join(lake.path, place)) for place in ("tables/notes", "_nabla/staging/notes", "mine")
    )


def test_an_object_dropped_a_moment_ago_can_still_be_read(lake: LakeLog) -> None:
    part = data(lake, "doubled")
    make_old(lake.path)
    lake = LakeLog.open(lake.path)
    lake.commit({"doubled": None}, lake.state(), "drop")
    vacuum(lake, {}, grace=1800)
    assert os.path.isdir(lake.folder(part))
    vacuum(lake, {}, grace=0)
    assert not os.path.isdir(lake.folder(part))


def test_registered_tables_are_never_touched(lake: LakeLog, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", Path(lake.path) / "tables" / "events-0123abcd"
    for place in (outside, inside):
        write_deltalake(place, rows(1))
        write_deltalake(place, rows(2), mode="overwrite")
        (place / "notes.txt").write_text("mine")
        entry = Entry(place.name, "registered", {}, {"data": Part(str(place), 1)})
        lake.commit({place.name: entry}, lake.state(), "register")
    before = {place: sorted(place.rglob("*")) for place in (outside, inside)}
    vacuum(lake, {}, grace=0)
    assert {place: sorted(place.rglob("*")) for place in (outside, inside)} == before


def test_the_log_keeps_its_history_but_not_its_old_catalogs(lake: LakeLog) -> None:
    vacuum(lake, {}, grace=0)
    fresh = LakeLog.open(lake.path)
    assert len(list(fresh.history())) == 7  # the vacuum is one, too
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        fresh.state(2)


def test_asking_for_a_version_that_is_gone_keeps_what_is_left(lake: LakeLog) -> None:
    vacuum(lake, {}, grace=0)
    lake = LakeLog.open(lake.path)
    lake_story.step(lake, 5)
    vacuum(lake, {data(lake).path: 0}, grace=0)
    assert readable(lake, data(lake)) == [3, 4]
    assert reading.read(lake.table(data(lake)).snapshot()).num_rows == 3


def test_a_writer_that_was_thought_dead_is_refused_before_its_files_are_deleted(lake: LakeLog) -> None:
    """A vacuum has decided to delete its files, and has not begun. The writer wakes up and finds all of them."""
    state = lake.state()
    view = state.entries["doubled"]
    said = pa.table({"id": [9], "_change_type": ["insert"], "_version": [9]}, schema=lake_story.FEED)
    fed = files.write(lake.folder(view.parts["feed"]), said)
    moved = replace(view, parts={**view.parts, "feed": view.parts["feed"].advanced(fed)})
    LakeLog.open(lake.path).fence(state, time.time() + 1)
    with pytest.raises(NablaError) as refused:
        lake.commit({"doubled": moved}, state, "move")
    assert refused.value.code == "NABLA_VACUUMED"
    assert lake.state().entries["doubled"] == view
