"""Altered tables without a JVM: killed alterations, changes across them, transactions that came too late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.storage import reading

ALTERS = """
import sys, nabla
from pyspark.sql.types import StringType, StructField, StructType
added = StructType([StructField("c", StringType())])
nabla.open(sys.argv[1]).alter_table("t", add=added, rename={"b": "bb"}, default={"c": "x"})
"""
BEFORE, AFTER = [{"a": 1, "b": "p"}], [{"a": 1, "bb": "p", "c": "x"}]


def columns(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = nabla.open(tmp_path / "lake")
    lake.create_table("t", columns(a=LongType(), b=StringType()), [(1, "p")], key="a")
    return lake


def rows(lake: Lake) -> list[dict[str, Any]]:
    return reading.read(lake.context.log.snapshot(lake.context.log.state().entries["t"].parts["data"])).to_pylist()


@pytest.mark.parametrize(
    ("place", "expected"), [("files.write", BEFORE), ("commit.ready", BEFORE), ("lake.committed", AFTER)]
)
def test_a_killed_alteration_is_made_whole_or_not_at_all(
    lake: Lake, place: str, expected: list[dict[str, Any]]
) -> None:
    environment = {**os.environ, "NABLA_FAULT": place}
    done = subprocess.run([sys.executable, "-c", ALTERS, lake.path], env=environment, check=False, capture_output=True)
    assert done.returncode == -9, done.stderr
    again = nabla.open(lake.path)
    assert rows(again) == expected
    assert again.fsck().sound
    with again.transaction() as tx:
        tx.insert("t", [tuple({**expected[0], "a": 2}.values())])
    assert [row["a"] for row in rows(again)] == [1, 2]


def test_a_callback_hears_of_earlier_changes_in_terms_of_the_newest_columns(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.insert("t", [(2, "q")])
    lake.alter_table("t", rename={"b": "bb"}, add=columns(c=IntegerType()), default={"c": 7})
    with lake.transaction() as tx:
        tx.insert("t", [(3, "r", 1)])
    lake.alter_table("t", drop="bb")
    lake.alter_table("t", add=columns(bb=IntegerType()))
    heard: list[Any] = []
    subscription = lake.on_change(
        "t", lambda change: heard.extend(map(tuple, map(dict.values, change.signed.to_pylist()))), 0
    )
    with lake.transaction() as tx:
        tx.delete("t", rows=[(1, 7, None)])
        tx.insert("t", [(4, 1, 5)])
    assert subscription.error is None
    assert sorted(heard, key=lambda row: row[0]) == [(1, 7, None, -1), (2, 7, None, 1), (3, 1, None, 1), (4, 1, 5, 1)]


def test_a_transaction_from_before_an_alteration_is_refused(lake: Lake) -> None:
    late = lake.transaction()
    late.insert("t", [(2, "q")])
    nabla.open(lake.path).alter_table("t", drop="b", add=columns(c=StringType()))  # as many columns, of the same types
    with pytest.raises(NablaError, match="NABLA_CONFLICT"):
        late.commit()
    assert rows(lake) == [{"a": 1, "c": None}]
