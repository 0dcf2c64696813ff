"""The shapes of the matrix: a value of some kind as an aggregate's argument, as a key, in a join, in a set operation."""

from __future__ import annotations

from collections.abc import Mapping

from nabla.dev.testing.matrix.columns import Kind

AGGREGATES = ("count", "sum", "avg", "min", "max")
"""The functions that are kept from the change alone. All others recompute their groups, and are listed by Spark."""

_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
}
_SETS = ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")


def views(kind: Kind) -> dict[str, str]:
    """The views over tables `t` and `u` for a kind, by the names of their shapes."""
    return {
        f"{kind.name}_{shape}": sql
        for family in (_aggregates, _keys, _orders, _joins, _subqueries, _sets)
        for shape, sql in family(kind).items()
    }


def _rows(kind: Kind) -> str:
    """The rows of `t` with the value as a column."""
    return f"(SELECT id, grp, {kind.value()} AS k FROM t)"


def _aggregates(kind: Kind) -> Mapping[str, str]:
    source, found = _rows(kind), {}
    for name in AGGREGATES:
        shown = "count(k)" if name == "count" else kind.shown(f"{name}(k)")
        found[name] = f"SELECT grp, {shown} AS r FROM {source} GROUP BY grp"
        found[f"{name}_all"] = f"SELECT {shown} AS r FROM {source}"
    filtered, by = kind.shown("max(k) FILTER (WHERE id % 2 = 0)"), kind.shown("max_by(k, id)")
    return found | {
        "max_filter": f"SELECT grp, {filtered} AS r FROM {source} GROUP BY grp",
        "count_distinct": f"SELECT grp, count(DISTINCT k) AS r FROM {source} GROUP BY grp",
        "max_by": f"SELECT grp, {by} AS r FROM {source} GROUP BY grp",
    }


def _keys(kind: Kind) -> Mapping[str, str]:
    source, shown = _rows(kind), kind.shown("k")
    return {
        "plain": f"SELECT id, {shown} AS v, k IS NULL AS n FROM {source}",
        "equal": f"SELECT id FROM {source} WHERE k = k",
        "filter": f"SELECT id FROM {source} WHERE k = (SELECT max({kind.value('u')}) FROM u)",
        "group": f"SELECT {shown} AS v, count(*) AS n, sum(id) AS s FROM {source} GROUP BY k",
        "group_two": f"SELECT grp, {shown} AS v, max(id) AS n FROM {source} GROUP BY grp, k",
        "rollup": f"SELECT grp, {shown} AS v, count(*) AS n FROM {source} GROUP BY ROLLUP(grp, k)",
        "distinct": f"SELECT {shown} AS v FROM (SELECT DISTINCT k FROM {source})",
    }


def _orders(kind: Kind) -> Mapping[str, str]:
    source, shown = _rows(kind), kind.shown("k")
    by_group = "OVER (PARTITION BY grp ORDER BY"
    first = f"SELECT id, grp, row_number() {by_group} k DESC, id) AS r FROM {source}"
    lag, running = (kind.shown(f"{call} {by_group} id)") for call in ("lag(k)", "max(k)"))
    return {
        "top": f"SELECT id, {shown} AS v FROM (SELECT * FROM {source} ORDER BY k DESC NULLS LAST, id LIMIT 3)",
        "partition": f"SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM {source}",
        "order": f"SELECT id, row_number() {by_group} k, id) AS r, dense_rank() OVER (ORDER BY k) AS d FROM {source}",
        "first_of_group": f"SELECT * FROM ({first}) WHERE r = 1",
        "lag": f"SELECT id, {lag} AS r FROM {source}",
        "running": f"SELECT id, {running} AS r FROM {source}",
    }


def _joins(kind: Kind) -> Mapping[str, str]:
    mine, other = kind.value("t"), kind.value("u")
    found = {n: f"SELECT t.id AS a, u.id AS b FROM t {word} u ON {mine} = {other}" for n, word in _JOINS.items()}
    most = kind.shown(f"max({other})")
    return found | {
        "null_safe": f"SELECT t.id AS a, u.id AS b FROM t JOIN u ON {mine} <=> {other}",
        "less": f"SELECT t.id AS a, u.id AS b FROM t JOIN u ON {mine} < {other} AND t.grp = u.grp",
        "semi": f"SELECT id FROM t LEFT SEMI JOIN u ON {mine} = {other}",
        "anti": f"SELECT id FROM t LEFT ANTI JOIN u ON {mine} = {other}",
        "join_group": f"SELECT t.grp, {most} AS r FROM t JOIN u ON {mine} = {other} GROUP BY t.grp",
    }


def _subqueries(kind: Kind) -> Mapping[str, str]:
    mine, other = kind.value("t"), kind.value("u")
    return {
        "in": f"SELECT id FROM t WHERE {mine} IN (SELECT {other} FROM u)",
        "not_in": f"SELECT id FROM t WHERE {mine} NOT IN (SELECT {other} FROM u)",
        "exists": f"SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE {other} = {mine} AND u.grp > 0)",
        "scalar": f"SELECT id, {kind.shown(f'(SELECT min({other}) FROM u WHERE u.grp = t.grp)')} AS r FROM t",
    }


def _sets(kind: Kind) -> Mapping[str, str]:
    return {
        words.lower().replace(" ", "_"): f"SELECT {kind.shown('v')} AS v FROM "
        f"(SELECT {kind.value()} AS v FROM t {words} SELECT {kind.value()} AS v FROM u)"
        for words in _SETS
    }
