"""Every query means the same after the way through the algebra."""

from __future__ import annotations

import pytest
import tpch
from roundtrip import assert_same

from nabla.frontends.spark_sql.define import define

pytestmark = pytest.mark.spark

QUERIES = {
    "select": "SELECT a, b FROM t",
    "rename": "SELECT a AS x, c AS y FROM t",
    "reorder": "SELECT c, a FROM t",
    "same column twice": "SELECT a AS x, a AS y FROM t",
    "where": "SELECT * FROM t WHERE c > 1 AND (a = 1 OR b IS NULL)",
    "where nothing": "SELECT a FROM t WHERE false",
    "computed": "SELECT a + 1 AS x, upper(b) AS y, c * 2 AS z FROM t",
    "between of an aggregate": "SELECT a, max(b) || 'x' BETWEEN 'b' AND 'z' w FROM t GROUP BY a HAVING sum(a) BETWEEN 2 AND 9",
    "computed twice": "SELECT x, x * 2 AS y FROM (SELECT a + 1 AS x FROM t) WHERE nvl(x, 0) > 1",
    "distinct": "SELECT DISTINCT a, b FROM t",
    "constants": "SELECT 1 AS one, 'x' AS x, NULL AS nothing",
    "values": "SELECT * FROM VALUES (1, 'a'), (2, NULL), (2, NULL) AS v(x, y)",
    "range": "SELECT id * 2 AS x FROM range(5)",
    "join constants": "SELECT t.a, v.y FROM t JOIN (VALUES (1, 'one'), (2, 'two')) AS v(x, y) ON t.a = v.x",
    "join": "SELECT t.b, u.e FROM t JOIN u ON t.a = u.a",
    "comma join": "SELECT t.b, u.e FROM t, u WHERE t.a = u.a AND t.c > 1",
    "three way join": "SELECT t.b, u.e, k.v FROM t, u, k WHERE t.a = u.a AND k.id = u.a",
    "cross join": "SELECT t.a, u.e FROM t CROSS JOIN u",
    "inequality join": "SELECT t.a AS x, u.a AS y FROM t JOIN u ON t.a < u.a",
    "null safe join": "SELECT t.a AS x, u.e FROM t JOIN u ON t.a <=> u.a",
    "expression join": "SELECT t.a, u.e FROM t JOIN u ON t.a + 1 = u.a AND t.b <> u.e",
    "left join": "SELECT t.a, u.e FROM t LEFT JOIN u ON t.a = u.a AND u.e <> 'x'",
    "right join": "SELECT t.b, u.e FROM t RIGHT JOIN u ON t.a = u.a",
    "full join": "SELECT t.b, u.e FROM t FULL JOIN u ON t.a = u.a",
    "full join using": "SELECT * FROM t FULL JOIN u USING (a)",
    "natural join": "SELECT * FROM t NATURAL JOIN u",
    "semi join": "SELECT * FROM t LEFT SEMI JOIN u ON t.a = u.a",
    "anti join": "SELECT * FROM t LEFT ANTI JOIN u ON t.a = u.a",
    "self join": "SELECT x.a, y.b FROM t x JOIN t y ON x.a = y.a",
    "self join three times": "SELECT x.a, y.b, z.c FROM t x JOIN t y ON x.a = y.a LEFT JOIN t z ON y.b = z.b",
    "self join of a query": "WITH q AS (SELECT nvl(a, 0) AS k, b FROM t) SELECT l.b, r.k FROM q l JOIN q r ON l.k = r.k",
    "in": "SELECT * FROM t WHERE a IN (SELECT a FROM u)",
    "not in": "SELECT * FROM t WHERE a NOT IN (SELECT a FROM u WHERE a IS NOT NULL)",
    "not in with nulls": "SELECT * FROM t WHERE a NOT IN (SELECT a FROM u)",
    "in of two": "SELECT * FROM t WHERE (a, b) IN (SELECT a, e FROM u)",
    "exists": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND u.e > t.b)",
    "not exists": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE nvl(u.a, 0) = nvl(t.a, 0))",
    "exists at all": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE a > 3)",
    "exists or": "SELECT * FROM t WHERE a = 3 OR EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "exists or exists": "SELECT * FROM t WHERE a IN (SELECT a FROM u) OR EXISTS (SELECT 1 FROM u WHERE u.e = t.b)",
    "exists at all or": "SELECT a FROM t WHERE a = 3 OR EXISTS (SELECT 1 FROM u WHERE a > 9)",
    "not in or": "SELECT * FROM t WHERE d OR a NOT IN (SELECT a FROM u)",
    "exists as a value": "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a > t.a) AS more FROM t",
    "scalar": "SELECT a, (SELECT max(c) FROM t) AS most FROM t",
    "scalar in where": "SELECT a FROM t WHERE c > (SELECT avg(c) FROM t)",
    "scalar twice": "SELECT a FROM t WHERE c > (SELECT avg(c) FROM t) AND a < (SELECT max(a) FROM u)",
    "scalar of one row": "SELECT a, (SELECT v FROM k WHERE id = 2) AS v FROM t",
    "scalar of no row": "SELECT a, (SELECT v FROM k WHERE id = 9) AS v FROM t",
    "scalar of a limit": "SELECT a, (SELECT e FROM u ORDER BY e DESC NULLS LAST LIMIT 1) AS e FROM t",
    "scalar in a join": "SELECT t.a, u.e FROM t LEFT JOIN u ON t.a = u.a AND u.a >= (SELECT min(id) + 1 FROM k)",
    "scalar in an aggregate": "SELECT b, sum(c * (SELECT count(*) FROM u)) AS s FROM t GROUP BY b",
    "scalar beside an aggregate": "SELECT b, sum(c) / (SELECT count(*) FROM u) AS s FROM t GROUP BY b",
    "correlated scalar": "SELECT a, (SELECT max(e) FROM u WHERE u.a = t.a) AS m FROM t",
    "correlated count": "SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a) AS n FROM t",
    "correlated count_if": "SELECT a, (SELECT count_if(e > 'a') FROM u WHERE u.a = t.a) AS n FROM t",
    "correlated regr_count": "SELECT a, (SELECT regr_count(u.a, u.a) FROM u WHERE u.a = t.a) AS n FROM t",
    "correlated scalar in nvl": "SELECT a, nvl((SELECT sum(u.a) FROM u WHERE u.a = t.a), 0) AS s FROM t",
    "correlated nvl of a count": "SELECT a, (SELECT nvl(count(*), 7) FROM u WHERE u.a = t.a) AS n FROM t",
    "correlated single row": "SELECT a, (SELECT v FROM k WHERE id = t.a) AS v FROM t",
    "nested subqueries": "SELECT * FROM t WHERE a IN (SELECT a FROM u WHERE a IN (SELECT id FROM k WHERE v LIKE 't%'))",
    "distinct in a subquery": "SELECT * FROM t WHERE a IN (SELECT DISTINCT a FROM u INTERSECT SELECT id FROM k)",
    "lateral": "SELECT t.a, s.n FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE u.a = t.a) s",
    "aggregate": "SELECT b, count(*) AS n, sum(c) AS s, avg(a) AS m FROM t GROUP BY b",
    "aggregate without keys": "SELECT count(*) AS n, min(a) AS low, max(c) AS high FROM t",
    "aggregate of nothing": "SELECT count(*) AS n, sum(a) AS s FROM t WHERE false",
    "aggregate by a constant": "SELECT 'k' AS k, count(*) AS n FROM t WHERE false GROUP BY 'k'",
    "aggregate by an expression": "SELECT nvl(a, 0) + 1 AS g, count(*) AS n FROM t GROUP BY nvl(a, 0) + 1",
    "aggregate without result": "SELECT 1 AS x FROM t GROUP BY a",
    "having": "SELECT b, sum(a) + 1 AS s FROM t GROUP BY b HAVING count(*) > 1 OR max(c) < 1",
    "distinct aggregates": "SELECT count(DISTINCT a) AS x, sum(DISTINCT a) AS y, count(DISTINCT a, b) AS z FROM t",
    "filtered aggregates": "SELECT b, count(*) FILTER (WHERE d) AS n, sum(a) FILTER (WHERE c > 1) AS s FROM t GROUP BY b",
    "aggregate of an aggregate": "SELECT n, count(*) AS m FROM (SELECT b, count(*) AS n FROM t GROUP BY b) GROUP BY n",
    "other aggregates": "SELECT bool_and(d) AS x, some(d) AS y, count_if(d) AS z, stddev(c) AS s, mean(c) AS m FROM t",
    "ordered aggregates": """SELECT listagg(b, '-') WITHIN GROUP (ORDER BY a DESC, b) AS l,
        mode() WITHIN GROUP (ORDER BY a DESC) AS m,
        percentile_cont(0.25) WITHIN GROUP (ORDER BY c DESC) AS p, max_by(a, c) AS w FROM t""",
    "first of the known": "SELECT first(e, true) IS NOT NULL AS f, any_value(e) IGNORE NULLS IS NULL AS g FROM u WHERE a = 2",
    "rollup": "SELECT region, product, sum(amount) AS s, grouping_id() AS g FROM sales GROUP BY ROLLUP (region, product)",
    "cube": "SELECT region, year, count(*) AS n FROM sales GROUP BY CUBE (region, year)",
    "grouping sets": """SELECT region, product, grouping(region) AS g, count(*) AS n FROM sales
        GROUP BY GROUPING SETS ((region), (product), ())""",
    "pivot": """SELECT * FROM (SELECT region, year, amount FROM sales)
        PIVOT (sum(amount) FOR year IN (2023 AS y23, 2024 AS y24))""",
    "pivot of two": """SELECT * FROM (SELECT region, product, year, amount FROM sales)
        PIVOT (sum(amount) AS s, count(*) AS n FOR year IN (2023, 2024))""",
    "unpivot": "SELECT * FROM (SELECT a, b, e FROM t JOIN u USING (a)) UNPIVOT (text FOR name IN (b, e))",
    "union all": "SELECT a, b FROM t UNION ALL SELECT a, e FROM u",
    "union": "SELECT a FROM t UNION SELECT a FROM u",
    "union of types": "SELECT a FROM t UNION ALL SELECT c FROM t UNION ALL SELECT CAST(1.5 AS DECIMAL(3,1))",
    "union of one column twice": "SELECT a AS x, a AS y FROM t UNION ALL SELECT a, c FROM t",
    "except": "SELECT a FROM t EXCEPT SELECT a FROM u",
    "except all": "SELECT a FROM u EXCEPT ALL SELECT a FROM t",
    "intersect": "SELECT a FROM t INTERSECT SELECT a FROM u",
    "intersect all": "SELECT a FROM t INTERSECT ALL SELECT a FROM u",
    "window": "SELECT a, row_number() OVER (PARTITION BY b ORDER BY c, a) AS n, sum(a) OVER (PARTITION BY b) AS s FROM t",
    "window frames": """SELECT region, amount,
        sum(amount) OVER (PARTITION BY region ORDER BY amount ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s,
        avg(amount) OVER (ORDER BY year RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS m,
        count(*) OVER (ORDER BY day RANGE BETWEEN INTERVAL '200' DAY PRECEDING AND UNBOUNDED FOLLOWING) AS n FROM sales""",
    "window ranks": """SELECT amount, rank() OVER w AS r, dense_rank() OVER w AS d, percent_rank() OVER w AS p,
        ntile(2) OVER w AS t, cume_dist() OVER w AS c FROM sales WINDOW w AS (ORDER BY amount DESC NULLS LAST)""",
    "window offsets": """SELECT amount, lag(amount) OVER w AS a, lead(amount, 2, 0) OVER w AS b,
        lag(amount, 1) IGNORE NULLS OVER w AS c, first_value(amount) IGNORE NULLS OVER w AS d, nth_value(amount, 2) OVER w AS e
        FROM sales WINDOW w AS (PARTITION BY region ORDER BY year, amount)""",
    "window of an aggregate": "SELECT b, rank() OVER (ORDER BY sum(c) DESC) AS r FROM t GROUP BY b",
    "window by an expression": "SELECT a, count(*) OVER (PARTITION BY nvl(b, '?')) AS n FROM t",
    "filtered window": "SELECT * FROM (SELECT a, b, row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t) WHERE n = 1",
    "qualify": "SELECT a, b FROM t QUALIFY rank() OVER (PARTITION BY b ORDER BY a DESC) = 1",
    "top": "SELECT a, c FROM t ORDER BY c DESC NULLS LAST, a LIMIT 3",
    "top by a hidden column": "SELECT b FROM t ORDER BY c DESC NULLS LAST, a LIMIT 3",
    "top with offset": "SELECT a, c FROM t ORDER BY a NULLS LAST, c LIMIT 2 OFFSET 1",
    "offset alone": "SELECT a FROM t ORDER BY a NULLS LAST OFFSET 2",
    "limit of everything": "SELECT a FROM t LIMIT 100",
    "top in a subquery": "SELECT count(*) AS n FROM (SELECT a FROM t ORDER BY c LIMIT 2)",
    "order": "SELECT a, b FROM t ORDER BY b",
    "lateral view": "SELECT a, x FROM t LATERAL VIEW explode(array(a, 0)) e AS x",
    "outer lateral view": "SELECT i, p, x FROM wide LATERAL VIEW OUTER posexplode(arr) e AS p, x",
    "generator": "SELECT i, inline(nested) FROM wide",
    "time window": "SELECT w.start, count(*) AS n FROM (SELECT window(ts, '2 days', '1 day') AS w FROM wide) GROUP BY w.start",
    "cte": "WITH q AS (SELECT a, count(*) AS n FROM u GROUP BY a) SELECT t.b, q.n FROM t JOIN q ON t.a = q.a",
    "cte in a cte": "WITH p AS (SELECT a FROM u), q AS (SELECT a, 1 AS x FROM p) SELECT * FROM q UNION ALL SELECT a, 2 FROM p",
    "cte in a subquery": """WITH q AS (SELECT max(a) AS m FROM u)
        SELECT * FROM t WHERE a < (SELECT m FROM q) OR a IN (SELECT m FROM q)""",
    "cte that hides a table": "WITH t AS (SELECT a + 10 AS a FROM u) SELECT a FROM t",
    "upper case": "SELECT A, T.B FROM T",
    "hint": "SELECT /*+ BROADCAST(u) */ t.a, u.e FROM t JOIN u ON t.a = u.a",
    "pipe": "FROM t |> WHERE a > 0 |> AGGREGATE count(*) AS n GROUP BY b",
    "strange names": "SELECT a AS `my col`, b AS `it``s`, c AS `x#1`, sum(a) OVER () FROM t",
    "struct": "SELECT struct(a, b) AS s, struct(a AS x, b).x AS y, named_struct('p q', c)['p q'] AS z FROM t",
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_means_the_same_after_the_way_through_the_algebra(spark, lake, name):
    assert_same(spark, QUERIES[name], lake)


@pytest.mark.parametrize("name", tpch.QUERIES)
def test_tpch_means_the_same_after_the_way_through_the_algebra(spark, lake, name):
    assert_same(spark, tpch.QUERIES[name], lake)


def test_a_query_gives_the_same_plan_every_time(spark, lake):
    first, second = (define(spark, tpch.QUERIES["q21"], lake, "v").plan for _ in range(2))
    assert first == second
