"""A compaction writes the same rows into other files; all readers see each version as it was, before checkpoints and after."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, Schema
from storage_oracle import bag
from two_readers import expected, ordered

from nabla.errors import NablaError
from nabla.storage import bags, changes, compact, deletion_vectors, deltalog, files, reading, rewrite, trim
from nabla.storage.changes import between, has_same_rows, signed
from nabla.storage.table import StoredTable

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(ids: list[int]) -> pa.Table:
    names = [None if i % 5 == 0 else f"n{i % 3}" for i in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}, schema=ROWS)


@pytest.fixture(autouse=True)
def _small_files_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewrite, "MARKED_FROM", 4)
    monkeypatch.setattr(deletion_vectors, "INLINE_BYTES", 0)


class History:
    """A table with versions that random operations made, and the rows that each must have."""

    def __init__(self, folder: Path, seed: int, marks_rows: bool) -> None:
        self.rng = Random(seed)
        content = rows([1, 1, 2, 3, *range(10, 40)])
        adds = files.write(folder, content)
        schema = Schema.from_arrow(ROWS).to_json()
        self.table = StoredTable.create(folder, schema, adds, marks_rows=marks_rows)
        self.contents = [content["id"].to_pylist()]
        self.compacted = 0

    def move(self) -> None:
        """Delete some rows and insert others, and record it; or compact."""
        snapshot = self.table.snapshot()
        if self.rng.random() < 0.3:
            self._compact()
            return
        now = list(self.contents[-1])
        gone = self.rng.sample(now, min(len(now), self.rng.randint(0, 4)))
        new = [self.rng.randint(0, 50) for _ in range(self.rng.randint(0, 3))]
        net = bags.consolidate(pa.concat_tables([bags.negated(bags.counted(rows(gone))), bags.counted(rows(new))]))
        if not net.num_rows:
            return
        deleted, inserted = bags.split(net)
        done = rewrite.rewrite(snapshot, deleted, bags.repeat(inserted))
        recorded = changes.record(snapshot.folder, net) if self.rng.random() < 0.7 else None
        said = {} if recorded is None else {changes.KEY: [file.to_json() for file in recorded]}
        self.table.commit(done.adds, done.removes, said, snapshot.version)
        for i in gone:
            now.remove(i)
        self.contents.append(now + new)

    def _compact(self) -> None:
        snapshot = self.table.snapshot()
        worn = compact.worn_files(snapshot.files, files.target_rows(snapshot.rows), 2)
        if worn:
            done = compact.compact(snapshot, worn, files.target_rows(snapshot.rows), ["id"])
            self.table.commit(done.adds, done.removes, compact.UNCHANGED, snapshot.version)
            self.contents.append(self.contents[-1])
            self.compacted += 1


@pytest.mark.parametrize(("seed", "marks_rows"), [(0, True), (1, True), (2, False)])
def test_random_histories_with_compactions(tmp_path: Path, seed: int, marks_rows: bool) -> None:
    history = History(tmp_path, seed, marks_rows)
    while history.table.latest() < 27:
        history.move()
    assert history.compacted >= 2
    trimmed = trim.trim(history.table, history.table.latest() - 1, 1e12)
    assert trimmed.files >= 9
    table, first = StoredTable(tmp_path), deltalog.oldest_version(str(tmp_path))
    for version in range(first, table.latest() + 1):
        wanted = bag(rows(history.contents[version]))
        assert bag(reading.read(table.snapshot(version))) == wanted
        assert ordered(table.snapshot(version)) == expected(str(tmp_path), version)
        assert _by_delta_rs(tmp_path, version) == wanted
        if not marks_rows:
            assert _by_others(tmp_path, version) == (wanted, wanted)
        if version > first:
            change = signed(between(table, version - 1, version))
            before, after = (bags.counted(rows(history.contents[v])) for v in (version - 1, version))
            assert bag(change) == bag(bags.consolidate(pa.concat_tables([after, bags.negated(before)])))
    assert bag(signed(between(table, first, table.latest()))) == bag(_difference(history, first, table.latest()))


def _difference(history: History, old: int, new: int) -> pa.Table:
    before, after = (bags.counted(rows(history.contents[v])) for v in (old, new))
    return bags.consolidate(pa.concat_tables([after, bags.negated(before)]))


def _by_delta_rs(folder: Path, version: int) -> object:
    """The rows that delta-rs itself reads, hidden ones left out."""
    found = QueryBuilder().register("t", DeltaTable(folder, version=version)).execute("SELECT id, name FROM t")
    return bag(pa.concat_tables([ROWS.empty_table(), *(pa.table(batch).cast(ROWS) for batch in found)]))


def _by_others(folder: Path, version: int) -> tuple[object, object]:
    """The rows of a version without hidden rows as deltalake reads them, and as DuckDB reads the files that its log names."""
    handle = DeltaTable(folder, version=version)
    scanned = ds.dataset(handle.file_uris(), schema=ROWS)  # noqa: F841 DuckDB finds it by its name
    return bag(handle.to_pyarrow_table()), bag(duckdb.sql("SELECT * FROM scanned").to_arrow_table().cast(ROWS))


def test_a_compaction_is_no_change_for_anybody(tmp_path: Path) -> None:
    history = History(tmp_path, 7, marks_rows=True)
    while not history.compacted:
        history.move()
    version = history.table.latest()
    actions = deltalog.read_actions(tmp_path, version) or []
    moved = [body for action in actions for kind, body in action.items() if kind in ("add", "remove")]
    assert moved
    assert not any(body["dataChange"] for body in moved)
    assert actions[0]["commitInfo"]["operation"] == "OPTIMIZE"
    assert between(history.table, version - 1, version).empty
    assert between(history.table, version, version - 1).empty
    assert has_same_rows(history.table, version - 1, version)


def test_a_second_compaction_has_nothing_to_do(tmp_path: Path) -> None:
    history = History(tmp_path, 8, marks_rows=True)
    for _ in range(20):
        history.move()
    history._compact()
    snapshot = history.table.snapshot()
    assert compact.worn_files(snapshot.files, files.target_rows(snapshot.rows), 2) == ()


def test_a_log_whose_checkpoint_lies_is_not_trimmed(tmp_path: Path) -> None:
    history = History(tmp_path, 9, marks_rows=False)
    while history.table.latest() < 31:
        history.move()
    log = tmp_path / "_delta_log"
    (log / f"{19:020d}.checkpoint.parquet").write_bytes((log / f"{9:020d}.checkpoint.parquet").read_bytes())
    names = sorted(os.listdir(log))
    with pytest.raises(NablaError, match="NABLA_CORRUPT"):
        trim.trim(StoredTable(tmp_path), 25, 1e12)
    assert sorted(os.listdir(log)) == names


def test_checkpoints_have_no_removed_files(tmp_path: Path) -> None:
    history = History(tmp_path, 10, marks_rows=False)
    while history.table.latest() < 10:
        history.move()
    actions = pq.read_table(tmp_path / "_delta_log" / f"{9:020d}.checkpoint.parquet")
    assert actions["remove"].null_count == actions.num_rows
    last = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    assert last == {"version": 9, "size": actions.num_rows}
