"""Every expression parses back to the same: over a table with a column of each type, one row of values and one of NULLs."""

from __future__ import annotations

import pytest
from roundtrip import assert_same, bag, relowered

from nabla.algebra.clock import functions
from nabla.algebra.nodes import Constant, Opaque
from nabla.frontends.spark_sql.define import define

pytestmark = pytest.mark.spark

EXPRESSIONS = {
    "arithmetic": [
        "i + 1",
        "i * n",
        "n / 3",
        "f % 2",
        "l div 2",
        "-n",
        "abs(i)",
        "i + 1.5",
        "n * 1.10",
        "2 - l",
        "i & 1 | 2",
        "~i",
    ],
    "comparisons": [
        "i = 3",
        "i <=> NULL",
        "n < 4.5",
        "num = 12",
        "da > '2024-01-01'",
        "NOT bo",
        "i != l",
        "s >= 'abb'",
    ],
    "null": [
        "nvl(i, 0)",
        "ifnull(s, '-')",
        "nullif(i, 3)",
        "coalesce(n, f)",
        "nvl2(i, 1, 2)",
        "i IS NULL",
        "zeroifnull(i)",
    ],
    "conditions": [
        "CASE WHEN i > 1 THEN 'a' ELSE s END",
        "CASE i WHEN 3 THEN 1 END",
        "if(bo, i, l)",
        "decode(i, 3, 'x', 'y')",
    ],
    "membership": [
        "i IN (1, 3)",
        "i IN (1, NULL)",
        "s NOT IN ('x')",
        "i BETWEEN 1 AND 4",
        "n NOT BETWEEN 5 AND 6",
        "CAST(i AS BIGINT) BETWEEN i AND i",
    ],
    "patterns": [
        "s LIKE 'a%'",
        "s LIKE 'a|%' ESCAPE '|'",
        "s ILIKE 'A%'",
        "s ILIKE 'A|%' ESCAPE '|'",
        "s RLIKE 'a.c'",
        "s LIKE ANY ('a%', 'b')",
        "s LIKE ALL ('a%', '%c')",
        "NOT s LIKE '_b%'",
    ],
    "strings": [
        "s || num",
        "concat_ws('-', s, NULL, num)",
        "substring(s, 1, 2)",
        "trim(BOTH 'a' FROM s)",
        "position('b' IN s)",
        "overlay(s PLACING 'X' FROM 2)",
        "left(s, 1)",
        "split(s, 'b')",
        "format_string('%s-%d', s, i)",
        "mask(s)",
        "md5(s)",
    ],
    "casts": [
        "CAST(i AS STRING)",
        "CAST(num AS INT)",
        "n::DOUBLE",
        "CAST(f AS DECIMAL(5,1))",
        "TRY_CAST(s AS INT)",
        "CAST(ts AS DATE)",
        "CAST(arr AS ARRAY<STRING>)",
        "CAST(st AS STRUCT<f: BIGINT, g: STRING>)",
        "CAST(NULL AS ARRAY<INT>)",
        "CAST(mp AS MAP<STRING, DOUBLE>)",
        "TRY_CAST(array(s) AS ARRAY<INT>)",
    ],
    "dates": [
        "da + 1",
        "da - INTERVAL '90' DAY",
        "da + INTERVAL '3' MONTH",
        "da - DATE'2024-01-01'",
        "date_add(da, i)",
        "extract(YEAR FROM da)",
        "date_trunc('MONTH', ts)",
        "make_date(2024, 1, i)",
        "to_date('05/2024', 'MM/yyyy')",
        "datediff(da, '2024-01-01')",
        "dateadd(MONTH, 2, da)",
        "last_day(da)",
    ],
    "times": [
        "ts + INTERVAL '1 02:03:04' DAY TO SECOND",
        "ts - ts",
        "ntz + INTERVAL 2 HOURS",
        "extract(SECOND FROM ts)",
        "hour(ts)",
        "date_format(ts, 'yyyy-MM')",
        "unix_timestamp(ts)",
        "from_utc_timestamp(ts, 'CET')",
        "timestampadd(HOUR, 1, ts)",
        "timestampdiff(DAY, ntz, ts)",
        "to_timestamp(num, 'yy')",
        "date_part('MINUTE', ds)",
        "extract(MONTH FROM ym)",
    ],
    "intervals": ["ym * 2", "ds / 2", "ym + INTERVAL '1' MONTH", "-ds", "ds > INTERVAL '1' DAY", "make_interval(1, 2)"],
    "lists": [
        "arr[0]",
        "element_at(arr, 2)",
        "array(i, l)",
        "size(arr)",
        "array_contains(arr, 2)",
        "sort_array(arr, false)",
        "array_append(arr, 9)",
        "array_append(CAST(NULL AS ARRAY<INT>), 2)",
        "slice(arr, 1, 2)",
        "flatten(array(arr, arr))",
    ],
    "maps and structs": [
        "mp['k']",
        "mp.k",
        "map_keys(mp)",
        "map('a', i)",
        "st.f",
        "st.g || '!'",
        "nested.f",
        "nested[0].g",
        "named_struct('x y', i)",
        "struct(i, s).s",
        "struct(st.*, i AS z).z",
    ],
    "lambdas": [
        "transform(arr, x -> x + i)",
        "transform(arr, (x, n) -> x * n)",
        "filter(arr, x -> x > 1 AND st.f = 1)",
        "exists(arr, x -> x = i)",
        "aggregate(arr, 0L, (a, x) -> a + nvl(x, 0), a -> a * 10)",
        "map_filter(mp, (k, v) -> v > 0)",
        "transform(array(arr), x -> transform(x, y -> y + size(x)))",
        "zip_with(arr, arr, (x, y) -> x + y)",
        "array_sort(arr, (p, q) -> CASE WHEN p IS NULL THEN 1 WHEN q IS NULL THEN -1 ELSE q - p END)",
        "array_sort(arr)",
    ],
    "text formats": [
        "to_json(st)",
        "to_json(struct(ts), map('timestampFormat', 'dd/MM/yyyy'))",
        "from_json('{\"a\":1}', 'a INT').a",
        "from_csv('1,2', 'a INT, b INT')",
        "get_json_object('{\"a\":1}', '$.a')",
        "schema_of_json('{\"a\":1}')",
    ],
    "forgiving": [
        "try_add(i, 2147483647)",
        "try_divide(i, 0)",
        "try_to_number(s, '99')",
        "try_element_at(mp, 'z')",
        "try_to_binary(s)",
    ],
    "literals": [
        "1Y",
        "-128Y",
        "2S",
        "-9223372036854775808L",
        "1.5",
        "1.50BD",
        "1.5e-3BD",
        "2.5D",
        "1e10",
        "1.5F",
        "double('NaN')",
        "float('-inf')",
        "'it''s \\\\ `q` \"d\"'",
        "r'a\\b'",
        "'\u00e9\u4e2d'",
        "X'00FF'",
        "true",
        "DATE'0001-01-01'",
        "TIMESTAMP'2024-03-10 02:30:00 America/New_York'",
        "TIMESTAMP_NTZ'2024-03-10 02:30:00'",
        "INTERVAL '-1-2' YEAR TO MONTH",
        "INTERVAL '-3 04:05:06.789' DAY TO SECOND",
        "array()",
        "map()",
        "CAST(NULL AS STRUCT<a: INT>)",
        "CAST(7 AS DECIMAL(20,5))",
    ],
    "other": [
        "hash(i, s)",
        "base64(bin)",
        "width_bucket(i, 0, 10, 5)",
        "s COLLATE UTF8_LCASE = 'ABC'",
        "typeof(n)",
        "round(n, 1)",
    ],
}


@pytest.mark.parametrize("group", EXPRESSIONS)
def test_expressions_parse_back_to_the_same(spark, lake, group):
    columns = ", ".join(f"{text} AS x{n}" for n, text in enumerate(EXPRESSIONS[group]))
    assert_same(spark, f"SELECT {columns} FROM wide", lake)


@pytest.mark.parametrize(
    "text",
    [
        "rand()",
        "uuid()",
        "current_user()",
        "monotonically_increasing_id()",
    ],
)
def test_what_changes_by_itself_is_not_deterministic(spark, lake, text):
    (output,) = define(spark, f"SELECT {text} AS x FROM t", lake, "v").plan.outputs
    assert not output.expr.deterministic


@pytest.mark.parametrize("text", ["now()", "current_date()", "current_timestamp()", "localtimestamp()"])
def test_the_clock_is_read_by_a_token(spark, lake, text):
    (output,) = define(spark, f"SELECT {text} AS x FROM t", lake, "v").plan.outputs
    assert functions(output.expr) == {text.replace("now", "current_timestamp")}


def test_constants_hold_their_rows(spark, lake):
    definition = define(spark, "SELECT * FROM VALUES (DATE'2024-01-01', 1.5), (NULL, 2) AS v(d, n)", lake, "v")
    assert isinstance(definition.plan, Constant)
    assert len(definition.plan.rows) == 2
    assert [c.type for c in definition.plan.columns] == ["date", "decimal(11,1)"]


def test_what_spark_cannot_print_faithfully_is_kept_as_sql(spark, lake):
    sql = "SELECT try_make_timestamp(2014, 12, 28, 6, i, 45.887, 'CET') AS x FROM wide"
    definition = define(spark, sql, lake, "v")
    assert isinstance(definition.plan, Opaque)
    assert definition.plan.sql == sql
    assert bag(relowered(spark, definition)) == bag(spark.sql(sql))
