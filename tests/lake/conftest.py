from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.lake import Lake


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    """An empty lake on the session that all tests share."""
    yield nabla.open(tmp_path / "lake", spark=spark)
