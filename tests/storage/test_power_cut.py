"""What was committed survives a power cut at any moment, and what was not committed is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable
from lake_story import ROWS, STEPS, check, create, rows, step
from power_cut import FailingPower, PowerCut

from nabla.storage import files, machine
from nabla.storage.catalog import Entry
from nabla.storage.lakelog import LakeLog
from nabla.storage.machine import Machine
from nabla.storage.table import StoredTable


def tell(path: Path, power: FailingPower) -> int:
    """How many steps of the story were done when the power went."""
    done = -1
    with machine.use(power):
        try:
            lake = LakeLog.create(path)
            done = 0
            while done < STEPS + 1:
                step(lake, done)
                done += 1
        except PowerCut:
            power.lose()
    return done


def test_a_power_cut_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    whole = FailingPower()
    tell(tmp_path / "whole", whole)
    for last in range(5, len(whole.operations), 9):
        path = tmp_path / str(last)
        done = tell(path, FailingPower(last))
        if done < 0:
            continue
        lake = LakeLog.open(path)
        assert lake.state().version in (done, done + 1)
        while lake.state().version < STEPS + 1:
            step(lake, lake.state().version)
        check(lake)


def test_what_a_commit_names_is_synced_before_it(tmp_path: Path) -> None:
    power = FailingPower()
    tell(tmp_path, power)
    synced: set[str] = set()
    for operation, path in power.operations:
        if operation.startswith("sync"):
            synced.add(path)
        elif operation == "link":
            version = int(Path(path).stem)
            folder = Path(path).parents[1]
            named = [folder / file for file in _named(folder, version)]
            assert {str(file) for file in named} <= synced
            assert {str(file.parent) for file in named} <= synced
        elif operation == "write":
            synced -= {path, os.path.dirname(path)}


def _named(folder: Path, version: int) -> list[str]:
    table = StoredTable(folder)
    return [file for commit in table.commits(version - 1, version) if commit for file in commit.adds]


def test_a_small_commit_takes_few_syncs(tmp_path: Path) -> None:
    power = FailingPower()
    lake = LakeLog.create(tmp_path)
    part = create(lake, "orders", ROWS, rows(1))
    state = lake.commit({"orders": Entry("orders", "table", {}, {"data": part})}, lake.state(), "create table")
    with machine.use(power):
        moved = part.advanced(files.write(lake.folder(part), rows(2)))
        lake.commit({"orders": Entry("orders", "table", {}, {"data": moved})}, state, "insert")
    # The file of the table, the catalog and the two commits, each with its folder.
    assert sum(operation == "sync" for operation, _ in power.operations) == 4
    assert sum(operation == "sync folder" for operation, _ in power.operations) == 4


def test_syncing_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with machine.use(Machine(syncs=False)):
        LakeLog.create(tmp_path / "quick")
    assert synced == []
    with machine.use(Machine()):
        LakeLog.create(tmp_path / "safe")
    assert synced


def test_deltalake_reads_what_is_written_here_with_and_without_checkpoints(tmp_path: Path) -> None:
    lake = LakeLog.create(tmp_path)
    part = create(lake, "orders", ROWS, rows(0))
    table = lake.table(part)
    for version in range(1, 25):
        table.commit(files.write(table.folder, rows(version)), table.snapshot().files[:1], {"n": version}, version - 1)
    for version in (0, 8, 9, 10, 19, 24):
        read = DeltaTable(table.folder, version=version)
        assert read.to_pyarrow_table()["id"].to_pylist() == [version]
    history = DeltaTable(table.folder).history(1)[0]
    assert (history["version"], history["nabla"]) == (24, {"n": 24})
    names = sorted(os.listdir(os.path.join(table.folder, "_delta_log")))
    assert [name for name in names if not name.endswith(".json")] == [
        f"{9:020d}.checkpoint.parquet",
        f"{19:020d}.checkpoint.parquet",
        "_last_checkpoint",
    ]
