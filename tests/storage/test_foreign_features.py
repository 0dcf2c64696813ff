"""Tables with features of Delta that Nabla does not write: read where the protocol allows it, and never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import nabla
from nabla.dev.testing.write_histories import ARROW, SHAPE
from nabla.errors import NablaError
from nabla.storage import deltalog, reading
from nabla.storage.table import StoredTable

ROWS = pa.Table.from_pylist([{"id": i, "a": i % 3, "b": "x"} for i in range(5)], ARROW)
WRITERS = [
    ["rowTracking", "domainMetadata"],
    ["clustering", "domainMetadata"],
    ["inCommitTimestamp"],
    ["checkConstraints"],
    ["neverHeardOf"],
]


def upgrade(folder: str, version: int, writers: list[str], readers: list[str] | None = None) -> None:
    """Another writer changes the protocol of a table, and nothing else."""
    protocol: dict[str, Any] = {
        "minReaderVersion": 3 if readers else 1,
        "minWriterVersion": 7,
        "writerFeatures": writers,
    }
    if readers:
        protocol["readerFeatures"] = readers
    lines = [{"commitInfo": {"timestamp": 1, "operation": "UPGRADE PROTOCOL"}}, {"protocol": protocol}]
    Path(deltalog.commit_path(folder, version)).write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("writers", WRITERS, ids=lambda names: names[0])
def test_a_registered_table_is_read_whatever_its_writers_must_know(tmp_path: Path, writers: list[str]) -> None:
    write_deltalake(str(tmp_path / "theirs"), ROWS)
    upgrade(str(tmp_path / "theirs"), 1, writers)
    before = files(tmp_path / "theirs")
    lake = nabla.open(tmp_path / "lake")
    lake.register("theirs", tmp_path / "theirs")
    assert reading.read(StoredTable(tmp_path / "theirs").snapshot()).num_rows == 5
    for change in (lambda tx: tx.insert("theirs", ROWS), lambda tx: tx.delete("theirs", rows=ROWS)):
        with pytest.raises(NablaError, match="NABLA_NOT_WRITABLE"), lake.transaction() as tx:
            change(tx)
    lake.vacuum()
    assert files(tmp_path / "theirs") == before


def test_a_feature_that_readers_must_know_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "theirs"), ROWS)
    upgrade(str(tmp_path / "theirs"), 1, ["neverHeardOf"], ["neverHeardOf"])
    lake = nabla.open(tmp_path / "lake")
    with pytest.raises(NablaError, match="NABLA_DELTA_FEATURE"):
        lake.register("theirs", tmp_path / "theirs")
    assert not lake.status()


@pytest.mark.parametrize("writers", WRITERS, ids=lambda names: names[0])
def test_a_table_of_the_lake_that_others_upgraded_is_not_written(tmp_path: Path, writers: list[str]) -> None:
    lake = nabla.open(tmp_path / "lake")
    lake.create_table("t", SHAPE, ROWS, deletion_vectors=False)
    folder = lake.context.log.folder(lake.context.log.state().entries["t"].parts["data"])
    upgrade(folder, 1, writers)
    before = files(Path(folder))
    for change in (lambda tx: tx.insert("t", ROWS), lambda tx: tx.delete("t", rows=ROWS)):
        with pytest.raises(NablaError, match="NABLA_FOREIGN_WRITE"), nabla.open(tmp_path / "lake").transaction() as tx:
            change(tx)
    assert files(Path(folder)) == before
