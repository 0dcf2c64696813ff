"""Random views as SQL text that people write: joins, subqueries, CTEs, grouping sets, windows, pivots, nested values.

Every query has one right answer: where SQL leaves a choice (LIMIT, row_number, mode) the order is made total. Spark
itself is asked whether it takes a text; one that it refuses is not a view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from nabla.dev.testing import sql_shapes
from nabla.dev.testing.random_data import Schema
from nabla.dev.testing.random_terms import Sample
from nabla.dev.testing.sql_scope import Field, Item, QueryText, expressions, scalars, under
from nabla.dev.testing.sql_subqueries import predicate


class QueryMaker:
    """Makes queries over tables and views; numbers aliases and columns, so that no name means two things."""

    def __init__(self, rng: Random, sources: Sequence[tuple[str, tuple[Field, ...]]]) -> None:
        self.rng = rng
        self.sources = list(sources)
        self._last = 0

    def fresh(self, letter: str) -> str:
        self._last += 1
        return f"{letter}{self._last}"

    def query(self, depth: int) -> QueryText:
        shapes = sql_shapes.SHAPES if depth >= 0 else sql_shapes.FLAT
        return self.rng.choice(shapes)(self, depth)

    # FROM

    def table(self) -> Item:
        name, fields = self.rng.choice(self.sources)
        alias = self.fresh("t")
        return Item(f"{name} AS {alias}", under(alias, fields))

    def derived(self, query: QueryText) -> Item:
        alias = self.fresh("q")
        return Item(f"({query.sql}) AS {alias}", under(alias, query.fields))

    def item(self, depth: int) -> Item:
        if depth > 0 and self.rng.random() < 0.5:
            item = self.derived(self.query(depth - 1))
            if item.columns:
                return item
        return self.table()

    def relation(self, depth: int) -> Item:
        """One or more items joined."""
        item = self.item(depth)
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2))):
            item = self.joined(item, self.item(0) if self.rng.random() < 0.8 else self.item(depth - 1))
        return item

    def joined(self, left: Item, right: Item) -> Item:
        pairs = [(s, t) for s in scalars(left.columns) for t in scalars(right.columns) if s.kind == t.kind]
        if not pairs:
            return left
        s, t = self.rng.choice(pairs)
        on = f"{s.sql} {self.rng.choice(('=', '=', '=', '=', '<=>'))} {t.sql}"
        if self.rng.random() < 0.25:
            on += f" AND ({expressions(self.rng, left.columns + right.columns).condition(1).sql})"
        kind = self.rng.choice(
            ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", *_ONE_SIDED)
        )
        columns = left.columns if kind in _ONE_SIDED else left.columns + right.columns
        return Item(f"{left.sql} {kind} {right.sql} ON {on}", columns)

    # WHERE

    def where(self, columns: Sequence[Sample], often: float = 0.5) -> str:
        tests = []
        if self.rng.random() < often:
            tests.append(f"({expressions(self.rng, columns).condition().sql})")
        if self.rng.random() < 0.3:
            test = predicate(self.rng, columns, self.table)
            if self.rng.random() < 0.2:
                test = f"({test} OR {expressions(self.rng, columns).condition(1).sql})"
            tests.append(test)
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def select(self, terms: Sequence[Sample], rest: str, distinct: bool = False) -> QueryText:
        """Terms under fresh names, from whatever the rest of the query says."""
        fields = tuple(Field(self.fresh("c"), t.expr.type, t.bound, t.exact) for t in terms)
        columns = ", ".join(f"{t.sql} AS {f.name}" for t, f in zip(terms, fields, strict=True))
        return QueryText(f"SELECT {'DISTINCT ' if distinct else ''}{columns} {rest}", fields)


_ONE_SIDED = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
_DEPTHS = (*(0,) * 6, *(1,) * 8, 2)
"""Mostly shallow: what a deep view finds a shallow one finds sooner, and Spark plans it in a tenth of the time."""
Shape = Callable[[QueryMaker, int], QueryText]


def random_query(rng: Random, schema: Schema, views: Sequence[tuple[str, tuple[Field, ...]]] = ()) -> QueryText:
    """A view over tables and, often, over other views."""
    tables = [(table.name, tuple(Field(c.name, c.type, 10.0) for c in table.columns)) for table in schema]
    usable = [(name, fields) for name, fields in views if any(f.usable for f in fields)]
    sources = tables + (rng.sample(usable, min(2, len(usable))) if usable and rng.random() < 0.25 else [])
    return QueryMaker(rng, sources).query(rng.choice(_DEPTHS))
