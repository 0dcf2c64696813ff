"""The simulation is deterministic, its disk forgets what was not synced, and it finds planted faults; Nabla passes a slice."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from nabla.dev.simulate.command import make_small, run, run_block
from nabla.dev.simulate.disk import Outside, SimulatedMachine
from nabla.dev.simulate.memory import remembering
from nabla.dev.simulate.run import Stage
from nabla.dev.simulate.schedule import Actor, Fault, Schedule, Switch, random_schedule, script_of
from nabla.dev.testing.fuzz.budget import Budget
from nabla.errors import NablaError
from nabla.storage import locations

EVERYBODY = (Actor("writer", 2), Actor("refresher"), Actor("vacuum"), Actor("reader"))


@pytest.fixture
def disk(tmp_path: Path) -> SimulatedMachine:
    (tmp_path / "lake").mkdir()
    (tmp_path / "graves").mkdir()
    return SimulatedMachine(tmp_path / "lake", tmp_path / "graves", lambda *_: None)


def put(disk: SimulatedMachine, path: Path, text: str) -> str:
    disk.write(str(path), lambda place: Path(place).write_text(text) and None)
    return str(path)


def test_a_slice_of_the_simulation_violates_nothing() -> None:
    found = run(seed=1, budget=Budget(count=15), jobs=1)
    assert found.schedules == 15
    assert found.failing == {}


def test_a_schedule_gives_the_same_operations_every_time() -> None:
    with Stage() as stage:
        for number in range(3):
            schedule = random_schedule(3, number)
            played = stage.play(schedule)
            assert played.trace != ()
            assert stage.play(schedule) == played


def test_actors_take_turns_where_the_schedule_says_so() -> None:
    with Stage() as stage:
        trace = stage.play(Schedule(EVERYBODY, (Switch(0, 5, 3), Switch(3, 2, 1)))).trace
    assert [line[0] for line in trace[:6]] == ["0", "0", "0", "0", "3", "1"]


def test_a_lake_that_does_not_sync_is_found_out() -> None:
    found = run_block(seed=1, first=0, count=10, syncs=False)
    assert found.failing


def test_a_schedule_that_fails_is_made_small_and_printed_as_a_script() -> None:
    schedule = Schedule((Actor("writer", 2), Actor("reader")), (Switch(0, 5, 1),), cut_at_end=True)
    with Stage(syncs=False) as stage:
        violation = stage.play(schedule).violation
    assert "acknowledged and lost" in violation
    small = make_small(schedule, violation, syncs=False)
    assert small == Schedule((Actor("writer"),), cut_at_end=True)
    script = script_of(small, violation)
    assert "acknowledged and lost" in script
    assert f"run({small!r})" in script


def test_a_power_cut_takes_what_was_not_synced(disk: SimulatedMachine, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    kept, nameless, empty = (put(disk, lake / name, "content") for name in ("kept", "nameless", "empty"))
    disk.sync(kept)
    disk.sync_folder(str(lake))
    disk.sync(put(disk, lake / "later", "content"))
    disk.sync(nameless)
    disk.lose("everything", Random(0))
    assert sorted(os.listdir(lake)) == ["empty", "kept", "nameless"]
    assert Path(kept).read_text() == Path(nameless).read_text() == "content"
    assert len(Path(empty).read_text()) < len("content")


def test_a_power_cut_brings_back_what_was_deleted_or_moved_without_a_sync(
    disk: SimulatedMachine, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    for name in ("deleted", "moved", "target"):
        disk.sync(put(disk, lake / name, name))
    disk.sync_folder(str(lake))
    disk.remove(str(lake / "deleted"))
    disk.move(str(lake / "moved"), str(lake / "target"))
    disk.lose("everything", Random(0))
    assert {name: (lake / name).read_text() for name in os.listdir(lake)} == {
        "deleted": "deleted",
        "moved": "moved",
        "target": "target",
    }


def test_nothing_outside_of_the_lake_can_be_touched(disk: SimulatedMachine, tmp_path: Path) -> None:
    with pytest.raises(Outside):
        put(disk, tmp_path / "elsewhere", "content")
    (tmp_path / "lake" / "link").symlink_to(tmp_path)
    with pytest.raises(Outside):
        disk.remove(str(tmp_path / "lake" / "link" / "graves"))


def test_a_file_that_was_read_before_is_seen_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with remembering():
        for number in (1, 2, 1):
            locations.write_parquet(pa.table({"id": [number]}), path)
            assert locations.read_parquet(path).to_pydict() == {"id": [number]}
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(NablaError, match="NABLA_READ_FAILED"):
            locations.read_parquet(path)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            locations.read_parquet(path)


def test_a_process_that_dies_has_committed_or_not() -> None:
    with Stage() as stage:
        alone = Schedule((Actor("writer"),))
        operations = len(stage.play(alone).trace)
        for at in range(1, operations + 1, 9):
            assert stage.play(replace(alone, faults=(Fault(0, at, "die"),))).violation == ""
