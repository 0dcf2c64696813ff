"""A version that nobody has committed can be read like any other, and leaves no trace."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from lake_story import ROWS, content, create, rows
from storage_oracle import bag

from nabla.errors import Conflict
from nabla.storage import bags, changes
from nabla.storage.catalog import Entry, Part
from nabla.storage.changes import between, signed
from nabla.storage.lakelog import LakeLog
from nabla.storage.rewrite import rewrite
from nabla.storage.uncommitted import Uncommitted


@pytest.fixture
def lake(tmp_path: Path) -> LakeLog:
    log = LakeLog.create(tmp_path / "lake")
    log.commit({"t": Entry("t", "table", {}, {"data": create(log, "t", ROWS, rows(1, 2, 2))})}, log.state(), "create")
    return log


def prepared(lake: LakeLog, delete: pa.Table, insert: pa.Table) -> Part:
    part = lake.state().entries["t"].parts["data"]
    change = bags.consolidate(pa.concat_tables([bags.negated(bags.counted(delete)), bags.counted(insert)]))
    recorded = changes.record(lake.folder(part), change)
    done = rewrite(lake.table(part).snapshot(part.version), delete, insert)
    return part.advanced(done.adds, done.removes, {changes.KEY: [file.to_json() for file in recorded]})


def test_a_prepared_version_and_its_change_can_be_read(lake: LakeLog) -> None:
    part = prepared(lake, rows(2), rows(7))
    table = lake.table(part)
    assert table.latest() == 1
    assert content(lake, part) == {(1,): 1, (2,): 1, (7,): 1}
    assert bag(signed(between(table, 0, 1))) == {(2,): -1, (7,): 1}
    assert signed(between(table, 1, 1)).num_rows == 0
    assert lake.table(part.path).latest() == 0


def test_what_is_committed_is_what_was_prepared(lake: LakeLog) -> None:
    part, state = prepared(lake, rows(1), rows()), lake.state()
    before = content(lake, part)
    committed = lake.commit({"t": Entry("t", "table", {}, {"data": part})}, state, "move").entries["t"].parts["data"]
    assert committed.pending is None
    assert content(lake, committed) == before == {(2,): 2}


def test_versions_of_one_number_are_told_apart(lake: LakeLog) -> None:
    one, other = prepared(lake, rows(1), rows(5)), prepared(lake, rows(1), rows(6))
    identities = {lake.table(part).identity(1) for part in (one, other)}
    assert len(identities) == 2
    assert lake.table(one).identity(1) == lake.table(one).identity(1)
    assert {lake.table(part).identity(0) for part in (one, other)} == {0}
    assert [lake.table(one).is_made(v) for v in (0, 1)] == [True, False]


def test_a_discarded_version_leaves_no_file(lake: LakeLog) -> None:
    folder = lake.folder(lake.state().entries["t"].parts["data"])
    before = {name for _, _, names in os.walk(folder) for name in names}
    with Uncommitted() as uncommitted:
        prepared(lake, rows(2), rows(7, 8))
    assert {name for _, _, names in os.walk(folder) for name in names} != before
    uncommitted.discard()
    assert {name for _, _, names in os.walk(folder) for name in names} == before


def test_something_new_that_a_commit_depends_on_is_a_conflict(lake: LakeLog) -> None:
    stale, part = lake.state(), prepared(lake, rows(1), rows())
    entry = Entry("c", "constraint", {}, {"data": create(lake, "c", ROWS)}, {"sources": {"t": 0}})
    lake.commit({"c": entry}, stale, "create constraint")
    with pytest.raises(Conflict):
        lake.commit({"t": Entry("t", "table", {}, {"data": part})}, stale, "move", reads=lambda now: now.entries)
