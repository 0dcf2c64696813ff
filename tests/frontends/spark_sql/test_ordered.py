"""first, last, collect_list and listagg follow the ORDER BY of the subquery that they read, and so does dropDuplicates.

Spark itself may lose that order on the way (it sorts again by the keys of the groups), so the rows are ordered here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import nabla

pytestmark = pytest.mark.spark

Row = tuple[Any, ...]


def least(value: Any, nulls_first: bool = True) -> tuple[bool, Any]:
    return ((value is not None) == nulls_first, value if value is not None else 0)


def greatest_first(value: Any) -> tuple[bool, Any]:
    return value is None, 0 if value is None else -value


def upwards(row: Row) -> Any:
    return least(row[4]), row[0]


def downwards(row: Row) -> Any:
    return greatest_first(row[4]), -row[0]


def mixed(row: Row) -> Any:
    return greatest_first(row[4]), row[0]


def known(rows: list[Row], column: int) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


Groups = Callable[[list[Row]], Row]
VIEWS: dict[str, tuple[str, Callable[[Row], Any], Groups]] = {
    "upwards": (
        "SELECT k, first(s), first(v), last(id) FROM (SELECT * FROM e ORDER BY k, t, id) GROUP BY k",
        upwards,
        lambda rows: (rows[0][2], rows[0][3], rows[-1][0]),
    ),
    "downwards": (
        "SELECT k, first(s), last(v), count(*) FROM (SELECT * FROM e ORDER BY t DESC, id DESC) GROUP BY k",
        downwards,
        lambda rows: (rows[0][2], rows[-1][3], len(rows)),
    ),
    "both ways": (
        "SELECT k, first(s), last(v), first(v, true) FROM (SELECT * FROM e ORDER BY t DESC, id) GROUP BY k",
        mixed,
        lambda rows: (rows[0][2], rows[-1][3], next(iter(known(rows, 3)), None)),
    ),
    "an order that the select list hides": (
        "SELECT k, first(id) FILTER (WHERE v > 1), last(s) IGNORE NULLS FROM"
        " (SELECT k, id, s, v FROM e ORDER BY t DESC, id) WHERE id > 3 GROUP BY k",
        mixed,
        lambda rows: (
            next((r[0] for r in rows if r[0] > 3 and (r[3] or 0) > 1), None),
            next(reversed(known([r for r in rows if r[0] > 3], 2)), None),
        ),
    ),
    "lists": (
        "SELECT k, collect_list(v), listagg(s, '-'), concat_ws(',', collect_list(id) FILTER (WHERE v > 1)) FROM"
        " (SELECT * FROM e ORDER BY t DESC, id) GROUP BY k",
        mixed,
        lambda rows: (
            known(rows, 3),
            "-".join(known(rows, 2)) or None,
            ",".join(str(r[0]) for r in rows if (r[3] or 0) > 1),
        ),
    ),
    "an order by an expression": (
        "SELECT k, first(struct(s, v)), last(array(id)) FROM (SELECT * FROM e ORDER BY coalesce(t, 9) % 3, id) GROUP BY k",
        lambda row: ((9 if row[4] is None else row[4]) % 3, row[0]),
        lambda rows: ((rows[0][2], rows[0][3]), [rows[-1][0]]),
    ),
}


def made(rng: Random, number: int) -> Row:
    some = lambda *values: rng.choice((None, *values))  # noqa: E731
    return number, some(1, 2, 3), some("a", "b", "c"), some(0, 1, 2, 3), some(0, 1, 2)


def plain(value: Any) -> Any:
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def content(lake: nabla.Lake, name: str) -> list[str]:
    return sorted(repr(plain(tuple(row))) for row in lake.read(name).collect())


def replaced(lake: nabla.Lake, rows: list[Row], gone: list[Row], new: list[Row]) -> list[Row]:
    with lake.transaction() as tx:
        tx.insert("e", new)
        tx.delete("e", rows=gone)
    return [row for row in rows if row not in gone] + new


def grouped(rows: list[Row], order: Callable[[Row], Any], result: Groups) -> list[str]:
    groups: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=order):
        groups.setdefault(row[1], []).append(row)
    return sorted(repr((k, *result(group))) for k, group in groups.items() if any(r[0] > 3 for r in group))


def test_the_order_of_a_subquery_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(5)
    lake = nabla.open(tmp_path / "lake", spark=spark)
    rows = [made(rng, i) for i in range(4, 40)]
    lake.create_table("e", schema="id INT, k INT, s STRING, v INT, t INT", data=rows)
    for number, (sql, _, _) in enumerate(VIEWS.values()):
        lake.create_view(f"v{number}", sql)
    for change in range(2):
        for number, (name, (_, order, result)) in enumerate(VIEWS.items()):
            assert content(lake, f"v{number}") == grouped(rows, order, result), name
        new = [made(rng, 100 + 10 * change + i) for i in range(4)]
        gone = rng.sample(rows, 6)
        rows = replaced(lake, rows, gone, new)
        reports = lake.refresh(mode="strict")
        assert {report.mode for report in reports.values()} == {"incremental"}
        lake.verify()


def test_drop_duplicates_keeps_the_first_row_of_an_order(spark: SparkSession, tmp_path: Path) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    rows = [made(Random(1), 4), *(made(Random(i), i) for i in range(5, 30))]
    lake.create_table("e", schema="id INT, k INT, s STRING, v INT, t INT", data=rows)

    @lake.view
    def latest() -> DataFrame:
        return lake.spark.table("e").orderBy(F.col("t").desc(), "id").dropDuplicates(["k"])

    for _ in range(2):
        found = sorted(repr(tuple(row)) for row in lake.read("latest").collect())
        firsts: dict[Any, Row] = {}
        for row in sorted(rows, key=mixed):
            firsts.setdefault(row[1], row)
        assert found == sorted(map(repr, firsts.values()))
        gone, rows = list(firsts.values())[:2], [r for r in rows if r not in list(firsts.values())[:2]]
        with lake.transaction() as tx:
            tx.delete("e", rows=gone)
        assert lake.refresh(mode="strict")["latest"].mode == "incremental"


def test_without_an_order_any_row_will_do_and_stays(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever computes it: the values are of one row, and a recompute gives the same."""
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table("e", schema="k INT, s STRING, v INT", data=[(1, "b", 1), (1, "a", 2), (1, "c", 3), (2, "z", 0)])
    lake.create_view("some", "SELECT k, first(s) AS s, first(v) AS v, last(v) AS w FROM e GROUP BY k")
    assert content(lake, "some") == ["(1, 'a', 2, 3)", "(2, 'z', 0, 0)"]
    with lake.transaction() as tx:
        tx.insert("e", [(1, "a", 5), (2, "y", 9)])
    lake.refresh(mode="strict")
    assert content(lake, "some") == ["(1, 'a', 2, 3)", "(2, 'y', 9, 0)"]
    lake.refresh("some", mode="full")
    lake.verify()
    assert content(lake, "some") == ["(1, 'a', 2, 3)", "(2, 'y', 9, 0)"]


def test_grouping_sets_see_the_order_too(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(8)
    lake = nabla.open(tmp_path / "lake", spark=spark)
    rows = [made(rng, i) for i in range(30)]
    lake.create_table("e", schema="id INT, k INT, s STRING, v INT, t INT", data=rows)
    lake.create_view(
        "sets",
        "SELECT k, v, grouping_id() AS g, first(id) AS f, last(s) AS l, collect_list(t) AS ts FROM"
        " (SELECT k, id, s, v, t FROM e ORDER BY coalesce(t, 1) DESC, id) GROUP BY GROUPING SETS ((k, v), (v), ())",
    )
    for _ in range(3):
        expected = []
        ordered = sorted(rows, key=lambda r: (-(1 if r[4] is None else r[4]), r[0]))
        for number, key in enumerate((lambda r: (r[1], r[3]), lambda r: (None, r[3]), lambda r: (None, None))):
            groups: dict[Any, list[Row]] = {}
            for row in ordered:
                groups.setdefault(key(row), []).append(row)
            expected += [(*k, (0, 2, 3)[number], g[0][0], g[-1][2], known(g, 4)) for k, g in groups.items()]
        assert content(lake, "sets") == sorted(map(repr, expected))
        gone, new = rows[:6], [made(rng, rows[-1][0] + 1 + i) for i in range(4)]
        rows = replaced(lake, rows, gone, new)
        assert lake.refresh(mode="strict")["sets"].mode == "incremental"


def test_a_limit_follows_the_order_through_filters_and_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(9)
    lake = nabla.open(tmp_path / "lake", spark=spark)
    rows = [made(rng, i) for i in range(30)]
    lake.create_table("e", schema="id INT, k INT, s STRING, v INT, t INT", data=rows)
    lake.create_view("few", "SELECT id FROM (SELECT * FROM e ORDER BY abs(id - 12), id) WHERE v > 1 LIMIT 5")
    lake.create_view(
        "least", "SELECT first(s) AS s, last(id) AS i FROM (SELECT * FROM e ORDER BY id DESC LIMIT 4 OFFSET 1)"
    )
    for _ in range(3):
        near = sorted((r for r in rows if (r[3] or 0) > 1), key=lambda r: (abs(r[0] - 12), r[0]))[:5]
        assert content(lake, "few") == sorted(repr((r[0],)) for r in near)
        late = sorted(rows, key=lambda r: -r[0])[1:5]
        assert content(lake, "least") == [repr((late[0][2], late[-1][0]))]
        gone, new = [r for r in rows if r[0] % 5 == 2], [made(rng, rows[-1][0] + 1 + i) for i in range(3)]
        rows = replaced(lake, rows, gone, new)
        assert {report.mode for report in lake.refresh(mode="strict").values()} == {"incremental"}
        lake.verify()


def test_an_order_within_partitions_is_none_for_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table("e", schema="id INT", data=[(1,), (2,)])

    @lake.view
    def some() -> DataFrame:
        return lake.spark.table("e").sortWithinPartitions("id").limit(1)

    with lake.transaction() as tx:
        tx.insert("e", [(3,)])
    with pytest.raises(nabla.NablaError, match="NABLA_LIMIT_WITHOUT_ORDER"):
        lake.refresh(mode="strict")
