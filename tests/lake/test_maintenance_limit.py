"""`lake.maintenance_limit`, and what a refresh spends its seconds on."""

from __future__ import annotations

import pytest

from nabla import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


def test_the_limit_of_a_view_is_estimated_and_measured_without_a_trace(lake: Lake) -> None:
    rows = [(i, i % 7, {"k": i}) for i in range(5000)]
    lake.create_table("orders", schema="id INT, region INT, more MAP<STRING, INT>", data=rows, key="id")
    lake.create_view("sums", "SELECT region, SUM(id) AS total FROM orders GROUP BY region")
    lake.create_view("large", "SELECT * FROM sums WHERE total > 5")
    lake.create_view("any_row", "SELECT region, rand() AS x FROM orders")
    with lake.transaction() as tx:
        tx.insert("orders", [(9000, 1, None)])
    costs = lake.refresh("sums")["sums"].costs
    assert list(costs) == ["finding", "computing", "deleting", "inserting"]
    assert all(seconds >= 0 for seconds in costs.values())
    lake.refresh()

    before = (lake.version, {name: (s.version, s.rows) for name, s in lake.status().items()})
    estimated = lake.maintenance_limit("sums")
    assert estimated.tables == ("orders",)
    assert 0 <= estimated.share <= 1
    measured = lake.maintenance_limit("large", measure=True)
    assert measured.measured
    assert measured.tables == ("orders",)
    assert all(p.changed_rows > 0 and p.maintain > 0 and p.recompute > 0 for p in measured.points)
    assert "large: " in str(measured)
    assert lake.maintenance_limit("any_row").share == 0
    assert "NABLA_NONDETERMINISTIC" in lake.maintenance_limit("any_row").reason
    with pytest.raises(NablaError, match="it does not read large"):
        lake.maintenance_limit("sums", "large")
    assert (lake.version, {name: (s.version, s.rows) for name, s in lake.status().items()}) == before
    assert lake.fsck().sound
