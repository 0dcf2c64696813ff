"""Random views that follow some sources at once, or whose changes are computed ahead: exact and minimal all the while."""

from __future__ import annotations

from functools import partial

import pytest
from comparing import refreshed
from random_lakes import RandomLake, unless_refused

from nabla.dev.testing.random_plans import ALL
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


def _create_view(random: RandomLake, name: str, ahead: bool) -> None:
    plan, sql = random.query(ALL)
    create = partial(random.lake.create_view, name, sql)
    if ahead:
        unless_refused(partial(create, maintain="manual", propagate="ahead"), "NABLA_MAINTAIN")
        return
    sources = [scan.table for scan in plan.scans]
    maintain = {random.rng.choice(sources): "immediate"} if sources else "immediate"
    unless_refused(partial(create, maintain=maintain), "NABLA_MAINTAIN")


@pytest.mark.parametrize("seed", [2])
def test_random_views_stay_exact_whatever_they_wait_for(lake: Lake, seed: int) -> None:
    random = RandomLake(lake, seed)
    for i in range(4):
        _create_view(random, f"v{i}", ahead=i % 2 == 0)
    views = [name for name, status in lake.status().items() if status.kind == "view"]
    for continued in (False, True):
        for _ in range(2):
            random.change()
            lake.propagate()
        if continued:
            random.change()
        lake.verify()
        refreshed(lake, *views, mode="incremental")
