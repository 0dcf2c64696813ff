"""Columns of every kind as payload: maps, structs, arrays, intervals, times are carried, counted and cancelled exactly."""

from __future__ import annotations

import datetime

import pytest
from comparing import bag, refreshed

from nabla.lake.facade import Lake
from nabla.planner import choose

pytestmark = pytest.mark.spark

SCHEMA = (
    "id INT, tags MAP<STRING, INT>, items ARRAY<STRUCT<name: STRING, n: INT>>, "
    "place STRUCT<x: DOUBLE, y: DOUBLE>, at TIMESTAMP"
)
VIEWS = {
    "carried": "SELECT tags, items, place FROM t WHERE id % 2 = 0",
    "made": "SELECT id, map('id', id, 'double', id * 2) AS m, named_struct('a', id, 'b', tags) AS s FROM t",
    "joined": "SELECT t.tags, u.name FROM t LEFT JOIN u ON t.id = u.id",
    "ranked": "SELECT id, tags, row_number() OVER (PARTITION BY id % 2 ORDER BY id) AS n FROM t",
    "first_ones": "SELECT tags, id FROM t ORDER BY id LIMIT 3",
    "latest": "SELECT id % 2 AS k, max_by(tags, id) AS last FROM t GROUP BY 1",
    "collected": "SELECT id % 2 AS k, map_from_entries(array_sort(collect_set((id, id + 1)))) AS m FROM t GROUP BY 1",
    "entries": "SELECT key, SUM(value) AS total FROM t LATERAL VIEW explode(tags) e AS key, value GROUP BY key",
    "spans": "SELECT id, CAST(at - TIMESTAMP'2026-01-01 00:00:00' AS STRING) AS age FROM t",
    "long": "SELECT id % 2 AS k, CAST(MAX(at - TIMESTAMP'2026-01-01 00:00:00') AS STRING) AS age FROM t GROUP BY 1",
    "filtered": "SELECT id, transform(filter(items, i -> i.n > 1), i -> upper(i.name)) AS names FROM t",
    "folded": "SELECT id, aggregate(items, 0, (a, i) -> a + i.n) AS n FROM t",
    "documents": "SELECT id, variant_get(parse_json(to_json(struct(id, tags))), '$.tags.a', 'int') AS a FROM t",
}


def _row(i: int) -> tuple[object, ...]:
    tags = None if i % 5 == 4 else {"a": i, "b": i % 3}
    items = None if i % 4 == 3 else [{"name": f"n{k}", "n": k} for k in range(i % 4)]
    return (i, tags, items, {"x": i / 2, "y": -0.0}, datetime.datetime(2026, 1, 1, i))


def test_nested_values_are_maintained(lake: Lake) -> None:
    lake.create_table("t", schema=SCHEMA, data=[_row(i) for i in range(8)] + [_row(2)])
    lake.create_table("u", schema="id INT, name STRING", data=[(1, "one"), (2, "two")])
    lake.create_views(VIEWS)
    with lake.transaction() as tx:
        tx.insert("t", [_row(9), _row(2), _row(10)])
        tx.delete("t", rows=[_row(4), _row(1)])
        tx.insert("u", [(3, "three")])
    report = refreshed(lake, mode="strict")
    assert {name: v.mode for name, v in report.items()} == dict.fromkeys(VIEWS, "incremental")
    with lake.transaction() as tx:
        tx.update("t", set={"tags": "map('b', 1, 'a', id)"}, where="id < 4")
        tx.delete("u", where="id = 2")
    refreshed(lake, mode="strict")


def test_the_order_of_a_maps_entries_is_no_change(lake: Lake) -> None:
    lake.create_table("t", schema="id INT, tags MAP<STRING, INT>", data=[(1, {"a": 1, "b": 2})])
    lake.create_view("v", "SELECT tags FROM t")
    with lake.transaction() as tx:
        tx.update("t", set={"tags": "map('b', 2, 'a', 1)"})
    report = refreshed(lake, mode="incremental")
    assert (report["v"].inserted, report["v"].deleted) == (0, 0)


@pytest.mark.parametrize("large", [False, True])
def test_a_null_in_a_map_stays_one(lake: Lake, monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    if large:
        monkeypatch.setattr(choose, "LARGE_CHANGE", 0)
    schema = "id INT, g INT, m MAP<STRING, INT>, deep ARRAY<STRUCT<m: MAP<INT, MAP<STRING, DOUBLE>>>>"
    gaps = [{"a": None}, {"b": 2, "a": None}, {"a": 0}, {}, None]
    rows = [(i, i % 2, gaps[i % 5], [({1: {"x": None, "y": -0.0}},), (None,)] if i % 3 else None) for i in range(10)]
    lake.create_table("t", schema=schema, data=rows)
    lake.create_view("plain", "SELECT m, deep FROM t")
    lake.create_view("counted", "SELECT m, COUNT(*) AS n FROM t GROUP BY m")
    lake.create_view("latest", "SELECT g, max_by(m, id) AS m FROM t GROUP BY g")
    lake.create_view("before", "SELECT id, lag(m) OVER (PARTITION BY g ORDER BY id) AS m, deep FROM t")
    lake.create_view("pairs", "SELECT a.m, b.deep FROM t a JOIN t b ON a.g = b.g", maintain="immediate")
    with lake.transaction() as tx:
        tx.delete("t", rows=[rows[0], rows[6], rows[8]])
        tx.insert("t", [(20, 0, {"a": None, "c": None}, [({2: None},)]), rows[0]])
    with lake.transaction() as tx:
        tx.update("t", {"m": "map('a', 0)"}, where="id = 5")  # it was {"a": None}
    refreshed(lake)
    maps = bag(lake.read("t").select("m"))
    assert bag(lake.read("counted")) == {(m, n): 1 for (m,), n in maps.items()}
    assert bag(lake.read("plain")) == bag(lake.read("t").select("m", "deep"))
    assert bag(lake.read("before").select("deep")) == bag(lake.read("t").select("deep"))
