"""Wrong calls raise errors with codes and leave the lake as it was: a slice of `python -m nabla.dev.testing.bad_calls`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nabla.dev.testing.bad_calls import Trial, all_trials, make_lake, try_all
from nabla.lake.facade import Lake
from nabla.lake.write.transaction import Transaction

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Lake, list[Trial]]:
    folder: Path = tmp_path_factory.mktemp("bad_calls")
    lake = make_lake(folder / "lake", spark)
    return lake, all_trials(lake, str(folder))


def test_wrong_calls_are_refused_with_a_code_and_change_nothing(tried: tuple[Lake, list[Trial]]) -> None:
    lake, trials = tried
    assert len(trials) >= 2_000
    assert not try_all(lake, random.Random(7).sample(trials, 150)).failures


def test_every_public_method_is_tried(tried: tuple[Lake, list[Trial]]) -> None:
    names = {trial.call.name for trial in tried[1]}
    methods = {name for name in vars(Lake) if not name.startswith("_")}
    methods -= {
        "version",
        "path",
        "spark",
        "context",
        "transaction",
        "rules",
        "status",
        "running",
    }  # these take no arguments
    changes = {f"tx.{name}" for name in vars(Transaction) if not name.startswith("_")} - {
        "tx.changes",
        "tx.commit",
        "tx.apply",
    }
    assert methods | changes <= names
