"""The shapes of random queries: the operations of a SELECT on the relation that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nabla.dev.testing.random_data import DOMAINS
from nabla.dev.testing.random_terms import Sample, literal
from nabla.dev.testing.sql_aggregates import aggregate_call
from nabla.dev.testing.sql_scope import (
    Field,
    Item,
    QueryText,
    any_term,
    expressions,
    null,
    of_type,
    sample,
    scalars,
    under,
)
from nabla.dev.testing.sql_subqueries import predicate, value
from nabla.dev.testing.sql_windows import partition, total_order, window_call

if TYPE_CHECKING:
    from nabla.dev.testing.random_sql import QueryMaker, Shape


def _some(q: QueryMaker, columns: tuple[Sample, ...], most: int = 4) -> list[Sample]:
    return q.rng.sample(columns, q.rng.randint(1, min(most, len(columns))))


def _terms(q: QueryMaker, columns: tuple[Sample, ...]) -> list[Sample]:
    """Some columns and some expressions."""
    return _some(q, columns) + [any_term(q.rng, columns) for _ in range(q.rng.choice((0, 1, 1, 2)))]


def plain(q: QueryMaker, depth: int) -> QueryText:
    item = q.relation(depth)
    terms = _terms(q, item.columns)
    if q.rng.random() < 0.2:
        terms.append(value(q.rng, item.columns, q.table))
    if q.rng.random() < 0.1:
        test = predicate(q.rng, item.columns, q.table)
        terms.append(sample(f"CASE WHEN {test} THEN 1 ELSE 0 END", "int", 1))
    return q.select(terms, f"FROM {item.sql}{q.where(item.columns)}", q.rng.random() < 0.15)


def grouped(q: QueryMaker, depth: int) -> QueryText:
    item = q.relation(depth)
    keys = [any_term(q.rng, item.columns, 1) if q.rng.random() < 0.2 else k for k in _some(q, item.columns, 2)]
    calls = [aggregate_call(q.rng, item.columns) for _ in range(q.rng.randint(1, 3))]
    if q.rng.random() < 0.2:
        return q.select(calls, f"FROM {item.sql}{q.where(item.columns)}{_having(q, item, [])}")
    group = ", ".join(key.sql for key in keys)
    rest = f"FROM {item.sql}{q.where(item.columns)} GROUP BY {group}{_having(q, item, keys)}"
    return q.select([*keys, *calls], rest)


def _having(q: QueryMaker, item: Item, keys: list[Sample]) -> str:
    form = q.rng.random()
    if form < 0.6:
        return ""
    if form < 0.8:
        return f" HAVING count(*) {q.rng.choice(('>', '<=', '<>'))} {q.rng.randint(0, 3)}"
    if form < 0.9:
        return (
            f" HAVING count(*) >= {value(q.rng, (), q.table).sql}" if q.rng.random() < 0.3 else " HAVING count(*) > 1"
        )
    return f" HAVING {predicate(q.rng, keys, q.table, 0)}" if scalars(keys) else ""


def grouping_sets(q: QueryMaker, depth: int) -> QueryText:
    item = q.relation(depth)
    keys = q.rng.sample(item.columns, min(2, len(item.columns)))
    texts = [key.sql for key in keys]
    group = q.rng.choice(
        (
            f"ROLLUP ({', '.join(texts)})",
            f"CUBE ({', '.join(texts)})",
            f"GROUPING SETS (({', '.join(texts)}), ({texts[0]}), ())",
            f"GROUPING SETS (({texts[0]}), ({texts[-1]}))",
        )
    )
    calls = [aggregate_call(q.rng, item.columns) for _ in range(q.rng.randint(1, 2))]
    if q.rng.random() < 0.5:
        calls.append(sample(f"CAST(grouping({texts[0]}) AS INT)", "int", 1))
    return q.select([*keys, *calls], f"FROM {item.sql}{q.where(item.columns)} GROUP BY {group}")


def windowed(q: QueryMaker, depth: int) -> QueryText:
    item = q.relation(depth)
    calls = [window_call(q.rng, item.columns) for _ in range(q.rng.randint(1, 2))]
    return q.select([*_some(q, item.columns), *calls], f"FROM {item.sql}{q.where(item.columns)}")


def top_of_each(q: QueryMaker, depth: int) -> QueryText:
    """The first rows of every group, as one writes it without QUALIFY."""
    item = q.relation(depth)
    place = f"row_number() OVER ({partition(q.rng, item.columns)}{total_order(q.rng, item.columns)})"
    inner = q.select([*_some(q, item.columns), sample(place, "int", 1e5)], f"FROM {item.sql}{q.where(item.columns)}")
    alias = q.fresh("q")
    columns = under(alias, inner.fields)
    rank = f"{alias}.`{inner.fields[-1].name}`"
    return q.select(columns[:-1] or columns, f"FROM ({inner.sql}) AS {alias} WHERE {rank} <= {q.rng.randint(1, 2)}")


def limited(q: QueryMaker, depth: int) -> QueryText:
    item = q.relation(depth)
    terms = _some(q, item.columns)
    offset = f" OFFSET {q.rng.randint(1, 2)}" if q.rng.random() < 0.2 else ""
    rest = f"FROM {item.sql}{q.where(item.columns)} {total_order(q.rng, terms)} LIMIT {q.rng.randint(1, 5)}{offset}"
    return q.select(terms, rest)


def set_operation(q: QueryMaker, depth: int) -> QueryText:
    left = q.derived(q.query(depth - 1))
    if not left.columns:
        return plain(q, depth)
    terms = _some(q, left.columns, 3)
    first = q.select(terms, f"FROM {left.sql}")
    right = q.item(depth - 1)
    fitting = [_conformed(q, right, term.expr.type) for term in terms]
    second = q.select(fitting, f"FROM {right.sql}{q.where(right.columns, 0.3)}")
    word = q.rng.choice(("UNION ALL", "UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"))
    bounds = [max(a.bound, b.bound) for a, b in zip(first.fields, second.fields, strict=True)]
    exact = [a.exact and b.exact for a, b in zip(first.fields, second.fields, strict=True)]
    fields = tuple(Field(f.name, f.type, b, e) for f, b, e in zip(first.fields, bounds, exact, strict=True))
    return QueryText(f"({first.sql}) {word} ({second.sql})", fields)


def _conformed(q: QueryMaker, item: Item, type_: str) -> Sample:
    same = of_type(item.columns, type_)
    if same and q.rng.random() < 0.8:
        return q.rng.choice(same)
    if scalars([sample("", type_)]):
        return expressions(q.rng, item.columns).of_type(type_)
    return sample(null(type_), type_)


def with_common_table(q: QueryMaker, depth: int) -> QueryText:
    """Mostly used several times, often with nothing else: what is equal in a view is stored once."""
    common = q.query(depth - 1)
    if not any(f.usable for f in common.fields):
        return plain(q, depth)
    name = q.fresh("cte_")
    before = q.sources
    q.sources = [(name, common.fields)]
    if q.rng.random() < 0.5:
        q.sources = [*before, *q.sources * len(before)]
    body = q.query(depth - 1)
    q.sources = before
    return QueryText(f"WITH {name} AS ({common.sql}) {body.sql}", body.fields)


def pivoted(q: QueryMaker, depth: int) -> QueryText:
    item = q.relation(depth)
    numbers = [c for c in scalars(item.columns) if c.kind == "int" and c.bound < 1e6]
    if not numbers:
        return grouped(q, depth)
    key, by, of = q.rng.choice(item.columns), q.rng.choice(numbers), q.rng.choice(numbers)
    inner = q.select([key, by, of], f"FROM {item.sql}{q.where(item.columns)}")
    k, p, v = (f.name for f in inner.fields)
    call = q.rng.choice(("sum", "max", "count"))
    names = [q.fresh("p") for _ in range(3)]
    values = ", ".join(f"{n} AS {name}" for n, name in enumerate(names))
    type_ = of.expr.type if call == "max" else "bigint"
    fields = (inner.fields[0], *(Field(name, type_, 1e9) for name in names))
    return QueryText(
        f"SELECT {k}, {', '.join(names)} FROM ({inner.sql}) PIVOT ({call}({v}) FOR {p} IN ({values}))", fields
    )


def unpivoted(q: QueryMaker, depth: int) -> QueryText:
    item = q.relation(depth)
    terms = expressions(q.rng, item.columns)
    kind = q.rng.choice([c.expr.type for c in scalars(item.columns)] or ["int"])
    inner = q.select(
        [q.rng.choice(item.columns), terms.of_type(kind, 1), terms.of_type(kind, 1)],
        f"FROM {item.sql}{q.where(item.columns)}",
    )
    k, a, b = (f.name for f in inner.fields)
    name, content = q.fresh("n"), q.fresh("v")
    nulls = q.rng.choice(("", "INCLUDE NULLS "))
    fields = (inner.fields[0], Field(name, "string", 8), Field(content, kind, 1e9, all(f.exact for f in inner.fields)))
    text = f"SELECT {k}, {name}, {content} FROM ({inner.sql}) UNPIVOT {nulls}({content} FOR {name} IN ({a}, {b}))"
    return QueryText(text, fields)


def exploded(q: QueryMaker, depth: int) -> QueryText:
    """LATERAL VIEW over a stored array, or over one made of columns."""
    item = q.relation(depth)
    terms = expressions(q.rng, item.columns)
    arrays = [a.sql for a in of_type(item.columns, "array<int>")]
    array = q.rng.choice([*arrays, *arrays, f"array({terms.of_type('int', 1).sql}, {terms.of_type('int', 1).sql})"])
    alias, x, pos = q.fresh("g"), q.fresh("x"), q.fresh("i")
    generator, names = q.rng.choice(
        (
            (f"explode({array})", [(x, "int")]),
            (f"posexplode({array})", [(pos, "int"), (x, "int")]),
            (f"inline(transform({array}, (e, i) -> struct(i, e)))", [(pos, "int"), (x, "int")]),
            (f"explode(map('a', {terms.of_type('int', 1).sql}))", [(pos, "string"), (x, "int")]),
            (f"stack(2, {terms.of_type('int', 1).sql}, {terms.of_type('int', 0).sql})", [(x, "int")]),
        )
    )
    outer = "OUTER " if q.rng.random() < 0.4 else ""
    view = f"LATERAL VIEW {outer}{generator} {alias} AS {', '.join(name for name, _ in names)}"
    made = tuple(sample(f"{alias}.`{name}`", type_, 1e6) for name, type_ in names)
    columns = item.columns + made
    if q.rng.random() < 0.4:
        calls = [aggregate_call(q.rng, columns), aggregate_call(q.rng, made)]
        key = q.rng.choice(columns)
        return q.select([key, *calls], f"FROM {item.sql} {view}{q.where(columns)} GROUP BY {key.sql}")
    return q.select([*_some(q, item.columns), *made], f"FROM {item.sql} {view}{q.where(columns)}")


def lateral_join(q: QueryMaker, depth: int) -> QueryText:
    outer, inner = q.item(depth), q.table()
    pairs = [(s, t) for s in scalars(outer.columns) for t in scalars(inner.columns) if s.kind == t.kind]
    if not pairs:
        return plain(q, depth)
    s, t = q.rng.choice(pairs)
    rest = f"FROM {inner.sql} WHERE {t.sql} = {s.sql}"
    form = q.rng.random()
    if form < 0.5:
        made = q.select([aggregate_call(q.rng, inner.columns)], rest)
    elif (
        form < 0.8 or s.expr.type != t.expr.type
    ):  # with a cast here Spark limits all rows, not those of each outer row
        made = q.select(_some(q, inner.columns, 2), rest)
    else:
        made = q.select(_some(q, inner.columns, 2), rest)
        # By the names of the select list: Spark forgets an order by anything else here, and then any row is right.
        order = ", ".join(f.name for f in made.fields)
        made = QueryText(f"{made.sql} ORDER BY {order} LIMIT 1", made.fields)
    alias = q.fresh("l")
    word, on = q.rng.choice(((", LATERAL", ""), ("JOIN LATERAL", ""), ("LEFT JOIN LATERAL", "ON true")))
    columns = outer.columns + under(alias, made.fields)
    return q.select(_terms(q, columns), f"FROM {outer.sql} {word} ({made.sql}) AS {alias} {on}{q.where(columns, 0.3)}")


def with_values(q: QueryMaker, depth: int) -> QueryText:
    """A relation joined with rows written in the query."""
    item = q.relation(depth)
    key = q.rng.choice(scalars(item.columns) or [sample("1", "int")])
    domain = DOMAINS.get(key.expr.type, DOMAINS["int"])
    rows = [(q.rng.choice((None, *domain)), q.rng.choice((None, "p", "q"))) for _ in range(q.rng.randint(1, 3))]
    type_ = key.expr.type if key.expr.type in DOMAINS else "int"
    texts = ", ".join(f"({literal(k, type_)}, {literal(s, 'string')})" for k, s in rows)
    alias = q.fresh("w")
    k, s = (sample(f"{alias}.`{name}`", t, 10) for name, t in (("k", type_), ("s", "string")))
    kind = q.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    rest = f"FROM {item.sql} {kind} (VALUES {texts}) AS {alias}(k, s) ON {key.sql} = {k.sql}"
    return q.select([*_some(q, item.columns), k, s], rest + q.where(item.columns, 0.3))


FLAT: tuple[Shape, ...] = (plain, plain, grouped, windowed, exploded)
SHAPES: tuple[Shape, ...] = (
    *(plain, plain, plain, grouped, grouped, grouped, grouping_sets),
    *(windowed, windowed, top_of_each, limited, set_operation, set_operation),
    *(with_common_table, with_common_table),
    *(pivoted, unpivoted, exploded, exploded, lateral_join, with_values),
)
