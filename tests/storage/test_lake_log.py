"""The lake's log: one commit point for everything, for any number of threads and processes."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import forks
import lake_story
import pyarrow as pa
import pytest
from delta_foreign import actions, commit_file, write_actions
from deltalake import DeltaTable, write_deltalake
from lake_story import ROWS, create, rows
from storage_oracle import bag

from nabla.errors import Conflict, NablaError
from nabla.storage import files
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.lakelog import LOG, LakeLog
from nabla.storage.table import StoredTable


def entry(name: str, part: Part, **definition: Any) -> Entry:
    return Entry(name, "table", definition, {"data": part})


def add(lake: LakeLog, state: LakeState, name: str, *ids: int) -> dict[str, Entry | None]:
    """The change that appends rows to a table."""
    part = state.entries[name].parts["data"]
    return {name: entry(name, part.advanced(files.write(lake.folder(part), rows(*ids))))}


@pytest.fixture
def lake(tmp_path: Path) -> LakeLog:
    log = LakeLog.create(tmp_path / "lake")
    made: dict[str, Entry | None] = {name: entry(name, create(log, name, ROWS), key="id") for name in ("a", "b")}
    log.commit(made, log.state(), "create tables")
    return log


def test_a_lake_remembers_what_was_committed(lake: LakeLog) -> None:
    state = lake.commit(add(lake, lake.state(), "a", 1, 2), lake.state(), "insert")
    assert (state.version, state.entries["a"].parts["data"].version) == (2, 1)
    again = LakeLog.open(lake.path)
    assert again.state() == state
    assert again.state().entries["b"].definition == {"key": "id"}
    assert lake_story.content(again, state.entries["a"].parts["data"]) == {(1,): 1, (2,): 1}


def test_an_older_state_can_be_looked_at(lake: LakeLog) -> None:
    lake.commit(add(lake, lake.state(), "a", 1), lake.state(), "insert")
    assert lake.state(1).entries["a"].parts["data"].version == 0
    assert lake.state(0).entries == {}
    with pytest.raises(NablaError, match="NABLA_NO_VERSION"):
        lake.state(7)


def test_the_catalog_is_a_delta_table_that_anybody_can_read(lake: LakeLog) -> None:
    lake.commit({"b": None}, lake.state(), "drop")
    assert DeltaTable(os.path.join(lake.path, LOG)).to_pyarrow_table()["name"].to_pylist() == ["a"]


def test_a_stale_commit_on_the_same_object_is_refused(lake: LakeLog) -> None:
    other = LakeLog.open(lake.path)
    stale = other.state()
    lake.commit(add(lake, lake.state(), "a", 1), lake.state(), "insert")
    with pytest.raises(Conflict):
        other.commit(add(other, stale, "a", 2), stale, "insert")
    with pytest.raises(Conflict):
        other.commit({"a": None}, stale, "drop")
    with pytest.raises(Conflict):
        other.commit(add(other, stale, "b", 2), stale, "insert", reads=lambda _: ["a"])
    assert other.state().version == 2


def test_a_stale_commit_on_another_object_goes_on_top(lake: LakeLog) -> None:
    other = LakeLog.open(lake.path)
    stale = other.state()
    lake.commit(add(lake, lake.state(), "a", 1), lake.state(), "insert")
    state = other.commit(add(other, stale, "b", 2), stale, "insert", reads=lambda _: ["b"])
    assert state.version == 3
    assert {name: e.parts["data"].version for name, e in state.entries.items()} == {"a": 1, "b": 1}


def test_parts_that_do_not_change_stay_as_they_are(lake: LakeLog) -> None:
    view = Entry("v", "view", {}, {"data": create(lake, "v", ROWS), "feed": create(lake, "v-feed", ROWS)})
    state = lake.commit({"v": view}, lake.state(), "create view")
    for number in range(3):
        parts = dict(state.entries["v"].parts)
        for name in ("data", "feed")[: 1 + number % 2]:
            parts[name] = parts[name].advanced(files.write(lake.folder(parts[name]), rows(number)))
        state = lake.commit({"v": Entry("v", "view", {}, parts)}, state, "refresh")
    assert {name: part.version for name, part in state.entries["v"].parts.items()} == {"data": 3, "feed": 1}
    assert LakeLog.open(lake.path).state() == state
    assert all(part.pending is None for part in lake.state(3).entries["v"].parts.values())


def test_an_object_created_twice_is_a_conflict(lake: LakeLog) -> None:
    stale = lake.state()
    lake.commit({"c": entry("c", create(lake, "c", ROWS))}, stale, "create")
    with pytest.raises(Conflict):
        lake.commit({"c": entry("c", create(lake, "c", ROWS))}, stale, "create")


def append(path: str, name: str, first: int, times: int) -> None:
    """Append numbered rows one by one, repeating each until it got in."""
    lake = LakeLog.open(path)
    for number in range(first, first + times):
        while True:
            state = lake.state()
            try:
                lake.commit(add(lake, state, name, number), state, "insert", {name: {"row": number}})
                break
            except Conflict:
                continue


@pytest.mark.parametrize("names", ["aaa", "aab"])
def test_processes_lose_no_commit(lake: LakeLog, names: str) -> None:
    workers = [forks.start(append, lake.path, name, i * 100, 4) for i, name in enumerate(names)]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    state = lake.state()
    assert state.version == 1 + 12
    for name in "ab":
        expected = {(i * 100 + k,): 1 for i, n in enumerate(names) for k in range(4) if n == name}
        assert lake_story.content(lake, state.entries[name].parts["data"]) == expected
    assert len({record.transaction for record in lake.history()}) == state.version + 1


def test_threads_of_one_lake_lose_no_commit(lake: LakeLog) -> None:
    def work(name: str) -> None:
        for number in range(5):
            state = lake.state()
            lake.commit(add(lake, state, name, number), state, "insert")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, "ab"))
    for name in "ab":
        assert lake_story.content(lake, lake.state().entries[name].parts["data"]) == {(n,): 1 for n in range(5)}


def test_a_promise_is_kept_once_by_whoever_comes(lake: LakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LakeLog, "_keep_promise", lambda *_: None)  # as if killed right after the lake's commit
        lake.commit(add(lake, lake.state(), "a", 1), lake.state(), "insert")
    assert lake.table(lake.state().entries["a"].parts["data"]).latest() == 0
    with ThreadPoolExecutor(4) as pool:
        states = list(pool.map(lambda _: LakeLog.open(lake.path).state(), range(4)))
    assert [state.entries["a"].parts["data"].version for state in states] == [1] * 4
    table = StoredTable(lake.folder(states[0].entries["a"].parts["data"]))
    assert table.latest() == 1
    assert table.metadata(1)["lake_version"] == 2
    assert bag(rows(1)) == lake_story.content(lake, states[0].entries["a"].parts["data"])


def test_the_commit_of_a_table_says_what_it_belongs_to(lake: LakeLog) -> None:
    part = lake.state().entries["a"].parts["data"]
    changed = {"a": entry("a", part.advanced(metadata={"sources": {"x": 3}}))}
    lake.commit(changed, lake.state(), "refresh")
    (record, *_) = lake.history()
    said = lake.table(part).metadata(1)
    assert said == {"sources": {"x": 3}, "transaction": record.transaction, "lake_version": 2}


def test_history_is_told_by_object_newest_first(lake: LakeLog) -> None:
    before = time.time() * 1000
    lake.commit(add(lake, lake.state(), "a", 1), lake.state(), "insert", {"a": {"inserted": 1}})
    lake.commit({"b": None}, lake.state(), "drop")
    assert [(r.version, r.operation) for r in lake.history()] == [
        (3, "drop"), (2, "insert"), (1, "create tables"), (0, "create")
    ]  # fmt: skip
    assert [r.operation for r in lake.history("a")] == ["insert", "create tables"]
    (insert,) = lake.history("a", limit=1)
    assert insert.objects == {"a": {"inserted": 1}}
    assert before - 1 <= insert.timestamp <= time.time() * 1000


def test_a_registered_table_may_lie_anywhere(lake: LakeLog, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "events", rows(1))
    part = Part(str(tmp_path / "events"), 0)
    state = lake.commit({"events": Entry("events", "registered", {}, {"data": part})}, lake.state(), "register")
    assert lake_story.content(lake, state.entries["events"].parts["data"]) == {(1,): 1}


def test_a_write_past_the_lake_is_noticed_before_anything_is_committed(lake: LakeLog) -> None:
    state = lake.state()
    write_deltalake(lake.folder(state.entries["a"].parts["data"]), rows(1), mode="append")
    with pytest.raises(NablaError, match="NABLA_FOREIGN_WRITE"):
        lake.commit(add(lake, state, "a", 2), state, "insert")
    assert lake.state() == state
    lake.commit(add(lake, state, "b", 2), state, "insert")
    # It can be adopted: the version that somebody else made becomes the one that counts.
    adopted = Part(state.entries["a"].parts["data"].path, 1)
    state = lake.commit({"a": entry("a", adopted)}, lake.state(), "adopt")
    assert lake_story.content(lake, adopted) == {(1,): 1}
    assert lake.commit(add(lake, state, "a", 2), state, "insert").entries["a"].parts["data"].version == 2


def test_a_file_vacuumed_before_its_commit_is_noticed(lake: LakeLog) -> None:
    state = lake.state()
    changes = add(lake, state, "a", 1)
    written = changes["a"].parts["data"].pending.adds[0]  # type: ignore[union-attr]
    os.remove(os.path.join(lake.folder(state.entries["a"].parts["data"]), written.path))
    with pytest.raises(NablaError, match="NABLA_VACUUMED"):
        lake.commit(changes, state, "insert")
    assert lake.state() == state


def test_looking_for_news_is_cheap(lake: LakeLog) -> None:
    lake.state()
    start = time.process_time()
    for _ in range(100):
        lake.state()
    assert (time.process_time() - start) / 100 < 0.001


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for attempt in (LakeLog.open, LakeLog.create):
        with pytest.raises(NablaError, match="NABLA_NOT_A_LAKE"):
            attempt(tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"], "nothing was created"
    (tmp_path / "other" / "tables" / "mine-01234567").mkdir(parents=True)
    with pytest.raises(NablaError, match="NABLA_NOT_A_LAKE"):
        LakeLog.create(tmp_path / "other")
    for place in (tmp_path / "nothing", tmp_path / "notes.txt"):
        with pytest.raises(NablaError, match="NABLA_NOT_A_LAKE"):
            LakeLog.open(place)
    with pytest.raises(NablaError, match="NABLA_NOT_A_LAKE"):
        LakeLog.create(tmp_path / "notes.txt")


def test_creating_a_lake_that_exists_opens_it(lake: LakeLog) -> None:
    assert set(LakeLog.create(lake.path).state().entries) == {"a", "b"}


def test_a_lake_of_a_newer_nabla_is_refused(lake: LakeLog) -> None:
    log = Path(lake.path) / LOG
    lines = actions(log, 1)
    lines[0]["commitInfo"]["nabla"]["format"] = 99
    write_actions(log, 1, lines)
    with pytest.raises(NablaError, match=r"NABLA_FORMAT.*99"):
        LakeLog.open(lake.path)


def _no_format(log: Path) -> None:
    lines = actions(log, 1)
    del lines[0]["commitInfo"]["nabla"]
    write_actions(log, 1, lines)


def _no_catalog(log: Path) -> None:
    for file in log.glob("*.parquet"):
        file.unlink()


def _bad_catalog(log: Path) -> None:
    for file in log.glob("*.parquet"):
        file.write_bytes(b"garbage")


def _strange_catalog(log: Path) -> None:
    for file in log.glob("*.parquet"):
        pa.parquet.write_table(pa.table({"name": ["x"]}), file)


def _bad_parts(log: Path) -> None:
    for file in log.glob("*.parquet"):
        row = {"name": "x", "kind": "table", "definition": "{}", "parts": "{", "facts": "{}"}
        pa.parquet.write_table(pa.Table.from_pylist([row]), file)


@pytest.mark.parametrize(
    "damage",
    [
        lambda log: commit_file(log, 1).write_text("garbage"),
        lambda log: write_actions(log, 1, [line for line in actions(log, 1) if "add" not in line]),
        _no_format,
        _no_catalog,
        _bad_catalog,
        _strange_catalog,
        _bad_parts,
    ],
)
def test_a_damaged_log_is_named(lake: LakeLog, damage: Any) -> None:
    damage(Path(lake.path) / LOG)
    with pytest.raises(NablaError, match="NABLA_CORRUPT"):
        LakeLog.open(lake.path)


def test_a_table_that_lost_its_folder_is_named_when_used(lake: LakeLog) -> None:
    part = lake.state().entries["a"].parts["data"]
    os.rename(lake.folder(part), lake.folder(part) + "-moved")
    with pytest.raises(NablaError, match="NABLA_NOT_DELTA"):
        LakeLog.open(lake.path).table(part).snapshot()


def test_definitions_of_all_sorts_survive(lake: LakeLog) -> None:
    definition = json.loads('{"sql": "SELECT \\"ä\\"", "deep": [1, 2.5, null, {"x": true}]}')
    made = Entry("v", "view", definition, {}, {"sources": {"a": 1}})
    lake.commit({"v": made}, lake.state(), "create")
    assert LakeLog.open(lake.path).state().entries["v"] == made


def test_a_promise_to_a_table_that_is_away_is_kept_when_it_is_back(
    lake: LakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lake.folder(lake.state().entries["a"].parts["data"])
    with monkeypatch.context() as dying:
        dying.setattr(LakeLog, "_settle", lambda self, state: state)  # committed, and nothing after that
        lake.commit(add(lake, lake.state(), "a", 7), lake.state(), "insert")
    os.rename(folder, f"{folder}-away")
    other = LakeLog.open(lake.path)
    other.commit(add(other, other.state(), "b", 8), other.state(), "insert")
    os.rename(f"{folder}-away", folder)
    state = other.state()
    assert {name: entry.parts["data"].version for name, entry in state.entries.items()} == {"a": 1, "b": 1}
    assert all(part.pending is None for entry in state.entries.values() for part in entry.parts.values())
    assert lake.table(state.entries["a"].parts["data"]).latest() == 1


def test_a_commit_that_comes_while_another_is_checked_is_a_conflict(
    lake: LakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no foreign write, although the table has a version that the other did not expect."""
    other = LakeLog.open(lake.path)
    change, state = add(lake, lake.state(), "a", 1), lake.state()
    check = LakeLog._check_parts

    def late(self: LakeLog, changes: dict[str, Entry | None], *rest: Any) -> None:
        if self is lake:
            monkeypatch.setattr(LakeLog, "_check_parts", check)
            other.commit(add(other, other.state(), "a", 2), other.state(), "insert")
        check(self, changes, *rest)

    monkeypatch.setattr(LakeLog, "_check_parts", late)
    with pytest.raises(Conflict):
        lake.commit(change, state, "insert")
