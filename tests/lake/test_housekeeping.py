"""Housekeeping changes no row, is no change for anybody, gives way to writers, and survives faults at every point."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

import forks
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

import nabla
from nabla.cli.main import app
from nabla.dev.simulate import world
from nabla.dev.simulate.model import COMPACTED, commits_of_table, contents
from nabla.dev.simulate.world import AT_ONCE, LATER, TABLE, Diary
from nabla.dev.testing.faulty_machine import FaultyMachine
from nabla.errors import Conflict, NablaError
from nabla.lake.context import LakeContext
from nabla.lake.housekeeping import compaction, turns
from nabla.lake.housekeeping.compaction import Effort, compact_or_give_way
from nabla.lake.housekeeping.settings import SETTING, load_settings
from nabla.lake.housekeeping.trimming import trim_logs
from nabla.storage import changes, deletion_vectors, machine, reading, rewrite
from nabla.storage.changes import between, signed
from nabla.storage.fsck import examine_lake
from nabla.storage.lakelog import LakeLog

NOW = timedelta(0)


@pytest.fixture(autouse=True)
def _rows_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MARKED_FROM", 4)
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES", 0)


class Lived:
    """A lake on which random operations were done, and what its table must have by now."""

    def __init__(self, path: Path) -> None:
        self.path, self.diary, self.rows = path, Diary(), 100
        world.found(str(path))
        self.context = world.open_context(str(path))
        self.versions = [Counter(world.FIRST)]
        self.begins = 0

    def write(self) -> None:
        self.rows += 1
        world.transact(self.context, f"w{self.rows}", self.diary, self.rows)
        last = self.diary.attempts[self.diary.acknowledged[-1]]
        after = Counter(self.versions[-1])
        after.update(last.inserts)
        after.subtract(last.deletes)
        self.versions.append(+after)

    def compact(self) -> None:
        before = self.table_version
        compact_or_give_way(self.context, (TABLE, AT_ONCE, LATER), Effort(), 1)
        if self.table_version > before:
            self.versions.append(self.versions[-1])

    def trim(self) -> None:
        trim_logs(self.context, NOW)

    @property
    def table_version(self) -> int:
        return self.context.log.state().entries[TABLE].parts["data"].version

    def check(self) -> None:
        log, state = self.context.log, self.context.log.state()
        assert self.table_version == len(self.versions) - 1
        assert world.read(log, state, TABLE) == self.versions[-1]
        for view in (AT_ONCE, LATER):
            reflected = state.entries[view].facts["sources"][TABLE]
            assert world.read(log, state, view) == self.versions[reflected]
            assert world.read_feed(log, state, view) == self.versions[reflected]
        assert state.entries[AT_ONCE].facts["sources"][TABLE] == self.table_version

    def check_changes(self) -> None:
        """Every change that the log still has is the difference of two versions."""
        table = self.context.log.table(self.context.log.state().entries[TABLE].parts["data"])
        for version in range(self.table_version, 0, -1):
            try:
                change = signed(between(table, version - 1, version))
            except NablaError as error:
                if error.code != "NABLA_VERSION_GONE":
                    raise
                return
            found = dict(zip(change["id"].to_pylist(), change["_n"].to_pylist(), strict=True))
            new, old = self.versions[version], self.versions[version - 1]
            assert found == {row: new[row] - old[row] for row in new | old if new[row] != old[row]}


@pytest.mark.parametrize("seed", range(2))
def test_random_lives_stay_exact(tmp_path: Path, seed: int) -> None:
    lived, rng = Lived(tmp_path / "lake"), Random(seed)
    for step in range(36):
        chosen = rng.choice(("write", "write", "write", "refresh", "compact", "compact", "trim", "vacuum", "reopen"))
        if chosen == "refresh":
            world.refresh(lived.context)
        elif chosen == "vacuum":
            world.clean(lived.context) if rng.random() < 0.7 else lived.context.log.state()
        elif chosen == "reopen":
            lived.context = world.open_context(str(lived.path))
        else:
            getattr(lived, chosen)()
        lived.check()
        if step % 12 == 11:
            lived.check_changes()
    for table in ("a", "v", "d"):
        folder = lived.context.log.folder(lived.context.log.state().entries[table].parts["data"])
        assert DeltaTable(folder).version() == lived.context.log.state().entries[table].parts["data"].version
    assert examine_lake(str(lived.path)).sound


def grown(path: Path, writes: int = 24) -> Lived:
    lived = Lived(path)
    for number in range(writes):
        lived.write()
        if number % 3 == 0:
            world.refresh(lived.context)
    return lived


@pytest.fixture(scope="module")
def old_lake(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """A lake whose logs and feeds are long. Tests work on copies."""
    return grown(tmp_path_factory.mktemp("old") / "lake")


@pytest.fixture
def copied(old_lake: Lived, tmp_path: Path) -> LakeContext:
    shutil.copytree(old_lake.path, tmp_path / "lake")
    return world.open_context(str(tmp_path / "lake"))


def file_count(path: str) -> int:
    return sum(len(names) for _, _, names in os.walk(path))


def test_optimize_says_what_it_did_and_leaves_nothing_stale(copied: LakeContext) -> None:
    lake = nabla.open(copied.path)
    lake.housekeeping(history=NOW)
    world.refresh(copied)
    before, reflected = file_count(lake.path), copied.log.state().entries[LATER].facts["sources"][TABLE]
    rows = world.read(copied.log, copied.log.state(), TABLE)
    report = lake.optimize()
    assert report[AT_ONCE].replaced > report[AT_ONCE].written
    assert report.log_files > 20
    assert "files of logs were deleted" in str(report)
    state = copied.log.state()
    assert world.read(copied.log, state, TABLE) == rows
    part = state.entries[TABLE].parts["data"]
    assert state.entries[LATER].facts["sources"][TABLE] == part.version >= reflected
    lake.vacuum(older_than=NOW)
    assert file_count(lake.path) < before / 2
    again = lake.optimize()
    assert dict(again) == {}
    events = lake.history()
    assert events[-1].version == 0
    assert examine_lake(lake.path).sound


def test_a_version_that_was_trimmed_is_gone_and_no_damage(copied: LakeContext) -> None:
    lake = nabla.open(copied.path)
    identity = copied.log.identity
    lake.housekeeping(history=NOW)
    lake.optimize()
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        lake.revert(3)
    opened = LakeLog.open(copied.path)
    assert opened.identity == identity
    table = opened.table(opened.state().entries[TABLE].parts["data"])
    with pytest.raises(NablaError, match="NABLA_VERSION_GONE"):
        table.listed(2)
    assert table._is_plain


def test_a_view_that_lags_behind_keeps_the_log_that_it_needs(copied: LakeContext) -> None:
    world.transact(copied, "one", Diary(), 501)
    compact_or_give_way(copied, (TABLE, AT_ONCE, LATER), Effort(), 1)
    trim_logs(copied, NOW)
    state = copied.log.state()
    part = state.entries[TABLE].parts["data"]
    reflected = state.entries[LATER].facts["sources"][TABLE]
    assert reflected < part.version
    change = between(copied.log.table(part), reflected, part.version)
    assert change.recorded
    assert not change.added
    assert not change.removed


def test_a_writer_wins_and_the_compaction_leaves_nothing_behind(
    copied: LakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = world.open_context(copied.path)
    diary = Diary()
    written = compaction.compact

    def interrupted(*arguments: object, **named: object) -> object:
        done = written(*arguments, **named)  # type: ignore[arg-type]
        world.transact(other, f"t{len(diary.acknowledged)}", diary, 901 + 2 * len(diary.acknowledged))
        return done

    monkeypatch.setattr(compaction, "compact", interrupted)
    with pytest.raises(Conflict):
        compaction.compact_objects(copied, (TABLE,), Effort())
    assert compact_or_give_way(copied, (TABLE,), Effort(), attempts=2) is None
    assert len(diary.acknowledged) == 3
    monkeypatch.undo()
    folder = copied.log.folder(copied.log.state().entries[TABLE].parts["data"])
    table = copied.log.table(folder)
    named = {path for commit in table.commits(-1, table.latest()) if commit for path in commit.adds}
    assert {name for name in os.listdir(folder) if name.endswith(".parquet")} <= named


def test_a_transaction_that_read_a_table_is_not_disturbed_by_its_compaction(copied: LakeContext) -> None:
    before = copied.log.state()
    compact_or_give_way(copied, (TABLE, AT_ONCE, LATER), Effort(), 1)
    after = copied.log.state()
    assert before.entries[TABLE] != after.entries[TABLE]
    after.check_unchanged(before, (), (TABLE, AT_ONCE, LATER))
    with pytest.raises(Conflict):
        after.check_unchanged(before, (TABLE,))
    world.transact(copied, "one", Diary(), 777)
    with pytest.raises(Conflict):
        copied.log.state().check_unchanged(before, (), (TABLE,))


def _faults() -> Iterator[tuple[int, FaultyMachine]]:
    for number in range(0, 400, 11):
        yield number, FaultyMachine(errno.EIO, number, after=number % 3 == 0, lasting=number % 2 == 0)


def test_faults_at_any_point_do_no_harm(old_lake: Lived, tmp_path: Path) -> None:
    expected = world.read(old_lake.context.log, old_lake.context.log.state(), TABLE)
    for number, faulty in _faults():
        path = tmp_path / f"lake{number}"
        shutil.copytree(old_lake.path, path, copy_function=os.link)
        context = world.open_context(str(path))
        with machine.use(faulty):
            try:
                compact_or_give_way(context, (TABLE, AT_ONCE, LATER), Effort(), 1)
                trim_logs(context, NOW)
            except NablaError as error:
                if error.code not in ("NABLA_WRITE_FAILED", "NABLA_READ_FAILED"):
                    raise
        fresh = world.open_context(str(path))
        state = fresh.log.state()
        assert world.read(fresh.log, state, TABLE) == expected
        assert world.read_feed(fresh.log, state, AT_ONCE) == expected
        world.refresh(fresh)
        assert world.read(fresh.log, fresh.log.state(), LATER) == expected
        shutil.rmtree(path)
        if faulty.done <= number:
            break


def keep_house(path: str, fault: str) -> None:
    machine.arm(fault)
    context = world.open_context(path)
    compact_or_give_way(context, (TABLE, AT_ONCE, LATER), Effort(), 1)
    trim_logs(context, NOW)


@pytest.mark.parametrize("fault", ["compact.written:2", "roll.part:2", "trim.delete:9"])
def test_a_housekeeper_that_is_killed_leaves_a_whole_lake(copied: LakeContext, old_lake: Lived, fault: str) -> None:
    process = forks.start(keep_house, copied.path, fault)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    fresh = world.open_context(copied.path)
    expected = world.read(old_lake.context.log, old_lake.context.log.state(), TABLE)
    world.refresh(fresh)
    state = fresh.log.state()
    assert all(world.read(fresh.log, state, name) == expected for name in (TABLE, AT_ONCE, LATER))
    keep_house(copied.path, "")
    world.transact(fresh, "after", Diary(), 1001)
    assert examine_lake(copied.path).sound


def test_the_model_of_the_simulation_knows_compactions(copied: LakeContext, old_lake: Lived) -> None:
    compact_or_give_way(copied, (TABLE,), Effort(), 1)
    committed = commits_of_table(copied.path)
    assert committed[-1] == COMPACTED
    found = contents(old_lake.diary, committed)
    assert found[-1] == found[-2] == world.read(copied.log, copied.log.state(), TABLE)


def test_it_is_a_calls_turn_when_the_lake_passes_a_multiple(
    copied: LakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(turns, "compact_or_give_way", lambda *_, **__: done.append("compact"))
    monkeypatch.setattr(turns, "_forget", lambda *_: done.append("trim"))
    version = copied.log.state().version
    turns.take_turn(copied, version, [TABLE])
    turns.take_turn(copied, version - turns.EVERY, [])
    assert done == []
    turns.take_turn(copied, version - turns.EVERY, [TABLE])
    turns.take_turn(copied, -1, [TABLE])
    assert done == ["compact", "compact", "trim"]
    nabla.open(copied.path).housekeeping(automatic=False)
    turns.take_turn(copied, -1, [TABLE])
    nabla.open(copied.path).housekeeping(automatic=True)
    monkeypatch.setenv(SETTING, "off")
    turns.take_turn(copied, -1, [TABLE])
    assert len(done) == 3


def test_a_turn_forgets_what_is_older_than_the_history(copied: LakeContext) -> None:
    nabla.open(copied.path).housekeeping(history=NOW)
    world.refresh(copied)
    rows, before = world.read(copied.log, copied.log.state(), TABLE), file_count(copied.path)
    turns.take_turn(copied, -1, [TABLE, AT_ONCE, LATER])
    assert file_count(copied.path) < before / 2
    assert copied.rests_until > 0
    state = copied.log.state()
    assert world.read(copied.log, state, TABLE) == world.read_feed(copied.log, state, LATER) == rows
    assert examine_lake(copied.path).sound


def test_a_turn_that_fails_is_told_and_harms_nothing(
    copied: LakeContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise NablaError("NABLA_WRITE_FAILED", "the disk is full", place="here", remedy="Make room.")

    monkeypatch.setattr(turns, "shorten_feeds", broken)
    turns.take_turn(copied, -1, [TABLE])
    assert "housekeeping was put off" in caplog.text


def test_settings_are_the_lakes_and_damage_is_told(copied: LakeContext) -> None:
    lake = nabla.open(copied.path)
    assert str(lake.housekeeping()) == "automatic: True, history: 30 days, 0:00:00, feeds: forever"
    lake.housekeeping(history="forever", feeds=timedelta(days=90))
    known = nabla.open(copied.path).housekeeping()
    assert (known.automatic, known.history, known.feeds) == (True, "forever", timedelta(days=90))
    assert trim_logs(copied, known.history).files == 0
    with pytest.raises(NablaError, match="NABLA_ARGUMENT"):
        lake.housekeeping(feeds=timedelta(days=-1))
    path = Path(copied.path) / "_nabla" / "housekeeping.json"
    for text in ("{", "[]", '{"format": 1, "history": "x"}', '{"format": 1, "feeds": -5}'):
        path.write_text(text)
        with pytest.raises(NablaError, match="NABLA_CORRUPT"):
            load_settings(copied.log)
    path.write_text('{"format": 9}')
    with pytest.raises(NablaError, match="NABLA_FORMAT"):
        lake.housekeeping()


def test_recorded_changes_of_a_compaction_are_empty(copied: LakeContext) -> None:
    compact_or_give_way(copied, (TABLE,), Effort(), 1)
    part = copied.log.state().entries[TABLE].parts["data"]
    said = copied.log.table(part).metadata(part.version)
    assert said[changes.KEY] == []
    assert reading.read(copied.log.snapshot(part)).num_rows


def test_the_commands_do_what_the_methods_do(copied: LakeContext) -> None:
    def printed(*arguments: str) -> str:
        done = CliRunner().invoke(app, [*arguments, "--lake", copied.path])
        assert done.exit_code == 0, done.output
        return done.stdout

    said = json.loads(printed("housekeeping", "--history", "0", "--feeds", "forever", "--json"))
    assert said == {"automatic": True, "history": "0:00:00", "feeds": "forever"}
    assert "automatic: False" in printed("housekeeping", "--automatic", "off")
    done = json.loads(printed("optimize", "--json"))
    assert done["log_files"] > 20
    assert done["objects"][AT_ONCE]["replaced"] > 1
    assert "0 files of logs" in printed("optimize", TABLE)
    assert CliRunner().invoke(app, ["housekeeping", "--history", "soon", "--lake", copied.path]).exit_code == 2
    assert CliRunner().invoke(app, ["optimize", "nothing", "--lake", copied.path]).exit_code == 1
