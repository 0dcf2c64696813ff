"""Files that a project loads fit the declared schema, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.cli.load import load_table
from nabla.errors import NablaError
from nabla.frontends.pipelines.specification import TableSource

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fraction.csv", "id,name\n1.5,a\n"),
        ("swapped.csv", "name,id\na,1\n"),
        ("long.csv", "id,name\n1,abcd\n"),
        ("null.csv", "id,name\n,a\n"),
        ("text.json", '{"id": "one", "name": "a"}\n'),
    ],
)
def test_values_that_do_not_fit_are_not_loaded(tmp_path: Path, spark: SparkSession, name: str, text: str) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    (tmp_path / name).write_text(text)
    with pytest.raises(NablaError):
        load_table(lake, TableSource("t", tmp_path / name, "id INT NOT NULL, name VARCHAR(3)", ()))
    assert not lake.status()


def test_values_that_fit_are_loaded(tmp_path: Path, spark: SparkSession) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    (tmp_path / "good.csv").write_text("id,name\n1,abc\n2,\n")
    load_table(lake, TableSource("t", tmp_path / "good.csv", "id INT NOT NULL, name VARCHAR(3)", ("id",)))
    assert [tuple(row) for row in lake.read("t").collect()] == [(1, "abc"), (2, None)]
