"""Lakes in each format since the second open, go on, and keep the format that their content needs."""

from __future__ import annotations

import tarfile
from pathlib import Path

import kept_formats
import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.storage.catalog import FORMAT, format_of

pytestmark = pytest.mark.spark

ARCHIVES = sorted((Path(__file__).parent.parent / "data").glob("lake-format-*.tar.xz"))


def _number(archive: Path) -> int:
    return int(archive.name.removesuffix(".tar.xz").rpartition("-")[2])


def test_a_lake_of_every_format_is_kept() -> None:
    assert [_number(archive) for archive in ARCHIVES] == list(range(2, FORMAT + 1))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_kept_lake_goes_on(archive: Path, tmp_path: Path, spark: SparkSession) -> None:
    number = _number(archive)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path)  # our own archive; the first Pythons 3.11 have no filters
    lake = nabla.open(tmp_path / "lake", spark=spark, trust=True)
    assert format_of(lake.context.log.state().everything) == number
    assert lake.status()["sums"].stale
    kept_formats.change(lake, 3)
    modes = {name: report.mode for name, report in lake.refresh(mode="incremental").items()}
    assert "full" not in modes.values(), modes
    lake.verify()
    assert not lake.check().violated
    loops = {2: (), 3: ("acyclic",)}.get(number, ("acyclic", "no_loop"))
    for _ in loops[:1]:
        with pytest.raises(nabla.Violated) as refused, lake.transaction() as tx:
            tx.insert("boss", [(7, 8), (8, 7)])
        assert {v.constraint: sorted(v.listed) for v in refused.value.violations} == {n: [(7,), (8,)] for n in loops}
    assert format_of(lake.context.log.state().everything) == number
