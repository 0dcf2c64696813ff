"""Random constraints: keys, foreign keys and sizes of random tables, and any other query, as algebra and as SQL."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from nabla.algebra.build import equal
from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column, quote
from nabla.algebra.nodes import Aggregate, At, Filter, Join, Node, Scan
from nabla.algebra.parse import read_text
from nabla.dev.testing.random_data import Schema, Sizes, Table
from nabla.dev.testing.random_plans import ALL, random_plan


@dataclass(frozen=True)
class Declared:
    """A constraint in one of the declared forms: what it says and the query that must be empty."""

    form: str
    table: str
    columns: tuple[str, ...]
    target: str
    plan: Node


def random_constraint(rng: Random, schema: Schema, sizes: Sizes) -> Node:
    """A declared form, or a query of any shape."""
    roll = rng.random()
    return random_declared(rng, schema).plan if roll < 0.6 else random_plan(rng, schema, ALL, sizes)


def random_declared(rng: Random, schema: Schema) -> Declared:
    pairs = [(s, c, t, d) for s in schema for c in s.columns for t in schema for d in t.columns if c.type == d.type]
    form = rng.choice(("key", "foreign key", "size"))
    if form == "key":
        table = rng.choice(schema)
        columns = tuple(rng.sample(table.columns, rng.randint(1, min(2, len(table.columns)))))
        return Declared(form, table.name, tuple(c.name for c in columns), "", _key(table, columns))
    if form == "foreign key":
        child, column, parent, target = rng.choice(pairs)
        plan = _foreign_key(child, column, parent, target)
        return Declared(form, child.name, (column.name,), f"{parent.name}.{target.name}", plan)
    one, other = rng.choice(schema), rng.choice(schema)
    return Declared(form, one.name, (), other.name, _same_size(one, other))


def _scan(table: Table, mark: str = "") -> Scan:
    return Scan(table.name, At.NEW, tuple(_named(c, mark) for c in table.columns), table.fields)


def _named(column: Column, mark: str) -> Column:
    return column.renamed(f"{column.name}{mark}#0")


def _counted(node: Node, keys: tuple[str, ...], mark: str = "") -> Aggregate:
    return Aggregate(node, keys, (Call(Column(f"n{mark}#0", "bigint", False), "count"),))


def _key(table: Table, columns: tuple[Column, ...]) -> Node:
    names = tuple(_named(c, "").name for c in columns)
    tests = ["(`n#0` > 1)", *(f"({quote(name)} IS NULL)" for name in names)]
    return Filter(_counted(_scan(table), names), (read_text(" OR ".join(tests), "boolean", False),))


def _foreign_key(child: Table, column: Column, parent: Table, target: Column) -> Node:
    mine, other = _named(column, ""), _named(target, "'")
    present = read_text(f"({quote(mine.name)} IS NOT NULL)", "boolean", False)
    return Join(Filter(_scan(child), (present,)), _scan(parent, "'"), (equal(mine.ref, other.ref),), "anti")


def _same_size(one: Table, other: Table) -> Node:
    both = Join(_counted(_scan(one), (), "s"), _counted(_scan(other, "'"), (), "t"))
    return Filter(both, (read_text("(`ns#0` <> `nt#0`)", "boolean", False),))
