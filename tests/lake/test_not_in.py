"""NOT IN is maintained by look-ups while its columns have no NULL, and means what SQL says when they have."""

from __future__ import annotations

import pytest
from comparing import refreshed

from nabla.engine.driver import key_lookup
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark


def test_not_in_is_looked_up_until_a_null_comes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_lookup, "SMALLEST", 0)
    lake.create_table("parts", "id INT, name STRING", data=[(i, f"p{i}") for i in range(40)])
    lake.create_table("banned", "id INT, note STRING", data=[(3, "bad"), (7, "old"), (8, "bad")])
    lake.create_view("sold", "SELECT * FROM parts WHERE id NOT IN (SELECT id FROM banned WHERE note = 'bad')")
    with lake.transaction() as tx:
        tx.insert("banned", [(11, "bad"), (7, "bad")])
        tx.delete("banned", rows=[(3, "bad")])
        tx.insert("parts", [(8, "again"), (50, "new")])
    report = refreshed(lake)["sold"]
    assert (report.inserted, report.deleted, report.jobs) == (2, 2, 0)
    with lake.transaction() as tx:
        tx.insert("banned", [(None, "bad")])
    assert refreshed(lake)["sold"].deleted == 38
    assert lake.status()["sold"].rows == 0
    with lake.transaction() as tx:
        tx.delete("banned", rows=[(None, "bad")])
        tx.insert("parts", [(None, "nameless")])
    assert refreshed(lake)["sold"].inserted == 38
