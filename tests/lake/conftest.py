from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.lake.facade import Lake


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    """An empty lake on the session that all tests share."""
    return nabla.open(tmp_path / "lake", spark=spark)
