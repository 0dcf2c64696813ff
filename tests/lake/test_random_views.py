"""Random views on Spark: exact and minimal after every batch of random changes."""

from __future__ import annotations

from functools import partial

import pytest
from comparing import refreshed
from random_lakes import RandomLake, unless_refused

from nabla.dev.testing.random_data import Table
from nabla.dev.testing.random_plans import ALL, CORE
from nabla.engine.driver import driver_query, key_lookup, merge, row_search
from nabla.lake.facade import Lake
from nabla.planner import choose

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("seed", "features", "smallest", "large", "scanned"),
    [
        (2, CORE, 0, choose.LARGE_CHANGE, -1),
        (3, ALL, key_lookup.SMALLEST, choose.LARGE_CHANGE, -1),
        (4, ALL, 0, choose.LARGE_CHANGE, -1),
        (5, ALL, key_lookup.SMALLEST, -1, -1),
        (6, ALL, key_lookup.SMALLEST, -1, driver_query.MOST_SCANNED),
    ],
    ids=[
        "core, looked up on the driver",
        "all",
        "all, looked up on the driver",
        "all, as if they were large",
        "all, read from files by the driver",
    ],
)
def test_random_views_stay_exact_and_minimal(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    features: frozenset[str],
    smallest: int,
    large: int,
    scanned: int,
) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", smallest)
    monkeypatch.setattr(choose, "LARGE_CHANGE", large)
    monkeypatch.setattr(driver_query, "MOST_SCANNED", scanned)
    if seed % 2 == 0:  # DuckDB looks into files of any size
        monkeypatch.setattr(row_search, "FEW_ROWS", 0)
        monkeypatch.setattr(merge, "FEW_ROWS", 0)

    def key(table: Table) -> str | None:
        """A declared key that does not hold: nothing may depend on it."""
        keys = [c.name for c in table.columns if c.type in ("int", "bigint", "date")]
        return keys[0] if keys and smallest == 0 else None

    random = RandomLake(lake, seed, key)
    for i in range(3):
        _, sql = random.query(features)
        unless_refused(partial(lake.create_view, f"v{i}", sql))
    recomputed = ("full",) if seed in (3, 6) else ()  # once by Spark, once by the driver
    for mode in ("incremental", "incremental", *recomputed):
        random.change()
        report = refreshed(lake, mode=mode)
        for name, view in report.items():
            assert view.mode in (mode, "skip"), f"{name}: {view.reason}"
