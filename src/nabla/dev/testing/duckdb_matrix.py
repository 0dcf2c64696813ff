"""Every expression that DuckDB computes on the driver, with every type, NULLs and extremes, against Spark.

    python -m nabla.dev.testing.duckdb_matrix

DuckDB may refuse a row (a sum overflows, a divisor is zero): the engine then asks Spark. Where it gives a value, Spark must
give the same one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nabla.algebra.expressions import Apply, Expr
from nabla.algebra.parse import read
from nabla.engine.driver.driver_query import run
from nabla.engine.driver.duckdb_expressions import EXACT_FUNCTIONS, spell
from nabla.engine.driver.duckdb_types import NotExact

VALUES: dict[str, Sequence[str]] = {
    "boolean": ("NULL", "true", "false"),
    "tinyint": ("NULL", "0Y", "1Y", "-1Y", "127Y", "-128Y", "7Y"),
    "smallint": ("NULL", "0S", "1S", "-1S", "32767S", "-32768S", "100S"),
    "int": ("NULL", "0", "1", "-1", "2147483647", "-2147483648", "12"),
    "bigint": ("NULL", "0L", "1L", "-1L", "9223372036854775807L", "(-9223372036854775807L - 1L)", "5L"),
    "decimal(5,2)": ("NULL", "0", "0.01", "-0.01", "999.99", "-999.99", "2.50", "-2.50"),
    "decimal(18,6)": ("NULL", "0", "0.000001", "999999999999.999999", "-999999999999.999999", "3.5", "-1.25"),
    "decimal(38,2)": ("NULL", "0", "0.01", f"{'9' * 36}.99", f"-{'9' * 36}.99", "10.25", "-7"),
    "float": ("NULL", "0", "'-0.0'", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", "3.4028235E38"),
    "double": ("NULL", "0", "'-0.0'", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", "1.7976931348623157E308", "1e-320"),
    "string": ("NULL", "''", "'a'", "' a '", "'A'", "'ß'", "'aé😀b'", "'%_'", "'2024-01-01'", "'12'", "'\\t a'"),
    "date": ("NULL", "'1970-01-01'", "'0001-01-01'", "'9999-12-31'", "'2024-02-29'", "'2024-01-31'", "'1969-12-31'"),
    "timestamp": ("NULL", "'1970-01-01 00:00:00'", "'0001-01-02 00:00:00'", "'9999-12-30 23:59:59.999999'"),
    "timestamp_ntz": ("NULL", "'1970-01-01 00:00:00'", "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"),
    "binary": ("NULL", "X''", "X'00'", "X'FF'", "X'00FF'", "X'61'"),
}
"""Values of each type, as Spark SQL writes them."""
_NUMBERS = [kind for kind in VALUES if kind.startswith(("tiny", "small", "int", "big", "decimal", "float", "double"))]


@dataclass(frozen=True)
class Difference:
    """A row for which DuckDB gave a value that Spark does not give."""

    expression: str
    row: str
    duckdb: Any
    spark: Any

    def __str__(self) -> str:
        return f"{self.expression} for {self.row}: DuckDB {self.duckdb!r}, Spark {self.spark!r}"


def column(kind: str, side: str) -> str:
    return f"{side}_{''.join(c if c.isalnum() else '_' for c in kind)}"


def texts() -> Iterator[str]:
    """Expressions over two columns of each type."""
    for kind in VALUES:
        x, y = (f"`{column(kind, side)}`" for side in "xy")
        yield from (f"{x} {sign} {y}" for sign in ("=", "<=>", "<", "<=", ">", ">=", "<>"))
        yield from (
            f"{x} IN ({y}, {x})",
            f"{x} IS NULL",
            f"{x} IS NOT NULL",
            f"CASE WHEN {x} = {y} THEN {x} ELSE {y} END",
        )
        yield from (f"{name}({x}, {y})" for name in ("coalesce", "greatest", "least"))
        yield from (f"{word}({x} AS {other})" for word, other in product(("CAST", "TRY_CAST"), VALUES))
    for kind, other in product(_NUMBERS, _NUMBERS):
        x, y = f"`{column(kind, 'x')}`", f"`{column(other, 'y')}`"
        yield from (f"{x} {sign} {y}" for sign in ("+", "-", "*", "/", "%", "=", "<"))
    yield from (text.format(f"`{column(kind, 'x')}`") for kind in _NUMBERS for text in ("-{}", "abs({})"))
    yield from ("`x_boolean` AND `y_boolean`", "`x_boolean` OR `y_boolean`", "NOT `x_boolean`")
    yield from (f"{part}(`x_date`)" for part in ("year", "quarter", "month", "day", "dayofyear", "dayofweek"))
    yield from ("date_add(`x_date`, `y_int`)", "date_sub(`x_date`, `y_smallint`)", "datediff(`x_date`, `y_date`)")
    yield from (f"`x_date` + INTERVAL '{n}' {unit}" for n, unit in product((1, -13, 0), ("MONTH", "YEAR")))
    yield from (f"`x_string` LIKE '{pattern}'" for pattern in ("a%", "%a%", "_", "%", "", "a_😀%", "%%_"))
    yield from (f"substring(`x_string`, {start}, {size})" for start, size in product((1, 2, 9), (1, 3)))
    yield from (
        "length(`x_string`)",
        "trim(`x_string`)",
        "ltrim(`x_string`)",
        "rtrim(`x_string`)",
        "substring(`x_string`, 2)",
    )
    yield from (f"{name}(`x_string`, `y_string`)" for name in ("startswith", "endswith", "contains", "concat"))
    yield from ("`x_string` = 'it''s'", "`x_date` < DATE '2024-02-29'", "`x_decimal_5_2_` > 2.50BD", "`x_int` = 12")
    yield from (f"`x_double` {sign} {n}" for sign, n in product(("*", "<="), ("1.5D", "0.1D", "-2.5E-9D", "1E308D")))
    digits = (
        "882.70",
        "0.1",
        "-0.3",
        "9007199254740993.0",
        "0.123456789012345678901234567890",
        "9" * 20 + ".999999999",
    )
    yield from (f"`x_double` {sign} CAST({n}BD AS DOUBLE)" for sign, n in product(("*", "<"), digits))


def compiled() -> dict[str, tuple[Expr, str]]:
    """The expressions that DuckDB takes over, with their texts for it."""
    types = {column(kind, side): (kind, True) for kind in VALUES for side in "xy"}
    found = {}
    for text in texts():
        expr = read(text, types)
        try:
            found[text] = expr, spell(expr)
        except NotExact:
            continue
    return found


def sample(found: dict[str, tuple[Expr, str]], every: int) -> dict[str, tuple[Expr, str]]:
    """Some of the expressions, each function among them: the first with a function that none before had, and every so many."""
    kept: dict[str, tuple[Expr, str]] = {}
    for number, (text, pair) in enumerate(found.items()):
        if number % every == 0 or not covered({text: pair}) <= covered(kept):
            kept[text] = pair
    return kept


def covered(found: dict[str, tuple[Expr, str]]) -> frozenset[str]:
    """The functions that occur in some expression."""
    return frozenset(e.function for expr, _ in found.values() for e in expr.walk() if isinstance(e, Apply))


def differences(spark: SparkSession, found: dict[str, tuple[Expr, str]]) -> list[Difference]:
    """All rows for which DuckDB and Spark disagree."""
    rows = _rows(spark)
    answers = {text: dict(_answers(duckdb, rows, 0)) for text, (_, duckdb) in found.items()}
    return list(_compare(spark, rows, {text: expr for text, (expr, _) in found.items()}, answers))


def _rows(spark: SparkSession) -> pa.Table:
    """Pairs of values of each type: as many rows as the type with the most pairs has."""
    pairs = {kind: list(product(values, values)) for kind, values in VALUES.items()}
    most = max(map(len, pairs.values()))
    selects = []
    for i in range(most):
        columns = [
            f"CAST({pairs[kind][i % len(pairs[kind])][place]} AS {kind}) AS {column(kind, side)}"
            for kind in VALUES
            for place, side in enumerate("xy")
        ]
        selects.append(f"SELECT {', '.join(columns)}")
    return spark.sql(" UNION ALL ".join(selects)).toArrow().combine_chunks()


def _answers(text: str, rows: pa.Table, first: int) -> Iterator[tuple[int, Any]]:
    """The numbers of the rows for which DuckDB gives a value, and the values. Where some row makes the query fail, its halves
    are asked."""
    answer = run(f"SELECT {text} AS value FROM t", {"t": rows})
    if answer is not None:
        yield from enumerate(_plain(answer["value"]), first)
    elif rows.num_rows > 1:
        half = rows.num_rows // 2
        yield from _answers(text, rows.slice(0, half), first)
        yield from _answers(text, rows.slice(half), first + half)


def _plain(values: Any) -> list[Any]:
    """Python's values; days and instants as numbers, because Python has no days after the year 9999."""
    if pa.types.is_date(values.type):
        return values.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).to_pylist()
    return values.to_pylist()


def _compare(
    spark: SparkSession, rows: pa.Table, exprs: dict[str, Expr], answers: dict[str, dict[int, Any]]
) -> Iterator[Difference]:
    """One query for all expressions. Where it fails, half of them each, so that the one at fault is found."""
    numbered = rows.append_column("row_number", pa.array(range(rows.num_rows), pa.int32()))
    spark.createDataFrame(numbered).coalesce(1).createOrReplaceTempView("duckdb_matrix")
    yield from _compare_some(spark, rows, list(exprs.items()), answers)


def _compare_some(
    spark: SparkSession, rows: pa.Table, some: list[tuple[str, Expr]], answers: dict[str, dict[int, Any]]
) -> Iterator[Difference]:
    columns = []
    for i, (text, expr) in enumerate(some):
        there = ", ".join(map(str, answers[text])) or "-1"
        columns.append(f"CASE WHEN row_number IN ({there}) THEN {expr.sql} END AS e{i}")
    try:
        result = spark.sql(f"SELECT {', '.join(columns)} FROM duckdb_matrix ORDER BY row_number").toArrow()
    except PySparkException as error:
        if len(some) == 1:
            yield Difference(some[0][0], "some row", "gives a value", str(error).splitlines()[0])
        else:
            yield from _compare_some(spark, rows, some[: len(some) // 2], answers)
            yield from _compare_some(spark, rows, some[len(some) // 2 :], answers)
        return
    for i, (text, expr) in enumerate(some):
        values = _plain(result[f"e{i}"])
        for row, value in answers[text].items():
            if not _same(value, values[row]):
                shown = {name: rows[name][row].as_py() for name in sorted(expr.columns)}
                yield Difference(text, str(shown), value, values[row])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and bool(one == other)


def main() -> int:
    from nabla.engine.spark.session import build_session

    spark = build_session("matrix", {})
    found = compiled()
    wrong = differences(spark, found)
    for difference in wrong[:50]:
        sys.stdout.write(f"{difference}\n")
    asked = sum(1 for _ in texts())
    sys.stdout.write(f"{len(found)} of {asked} expressions are DuckDB's, {len(wrong)} rows differ from Spark\n")
    missing = sorted(EXACT_FUNCTIONS - covered(found))
    sys.stdout.write(f"functions without an expression: {', '.join(missing) or 'none'}\n")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
