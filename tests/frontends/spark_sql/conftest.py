"""The lake of these tests: a few small tables, each a temporary view of the session under its own name."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import tpch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "t": (
        "a INT, b STRING, c DOUBLE, d BOOLEAN",
        [(1, "x", 2.0, True), (1, "x", 2.0, True), (2, "y", None, False), (None, "z", 0.5, None), (3, None, 2.5, True)],
    ),
    "u": ("a INT, e STRING", [(1, "x"), (2, "y"), (2, None), (4, "w"), (None, "n"), (2, "y")]),
    "k": ("id INT, v STRING", [(1, "one"), (2, "two"), (3, None)]),
    "sales": (
        "region STRING, product STRING, year INT, amount DECIMAL(10,2), day DATE",
        [
            ("east", "pen", 2023, Decimal("10.50"), datetime.date(2023, 1, 1)),
            ("east", "pen", 2024, Decimal("20.00"), datetime.date(2024, 1, 1)),
            ("east", "ink", 2024, Decimal("5.25"), datetime.date(2024, 5, 1)),
            ("west", "pen", 2023, None, datetime.date(2023, 7, 1)),
            ("west", "ink", 2024, Decimal("7.00"), None),
            ("west", "ink", 2024, Decimal("7.00"), None),
            (None, "pen", 2024, Decimal("1.00"), datetime.date(2024, 9, 1)),
        ],
    ),
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession) -> list[str]:
    """The names of the tables."""
    for name, (schema, rows) in TABLES.items():
        spark.createDataFrame(rows, schema).createOrReplaceTempView(name)
    spark.sql(
        """SELECT * FROM VALUES
            (3, 4L, 2.5D, CAST(3.25 AS DECIMAL(12,3)), 'abc', '12', true, X'1F', DATE'2024-02-29',
             TIMESTAMP'2024-02-29 10:11:12.5', TIMESTAMP_NTZ'2024-02-29 10:11:12', INTERVAL '1-2' YEAR TO MONTH,
             INTERVAL '4 05:06:07.8' DAY TO SECOND, array(1, 2, NULL), map('k', 1), named_struct('f', 1, 'g', 'x'),
             array(named_struct('f', 1, 'g', 'x'))),
            (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        AS wide(i, l, f, n, s, num, bo, bin, da, ts, ntz, ym, ds, arr, mp, st, nested)"""
    ).createOrReplaceTempView("wide")
    data = tpch.rows()
    for name, schema in tpch.SCHEMAS.items():
        spark.createDataFrame(data[name], schema).createOrReplaceTempView(name)
    return [*TABLES, "wide", *tpch.SCHEMAS]
