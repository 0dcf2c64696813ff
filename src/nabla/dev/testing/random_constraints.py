"""Random constraints: keys, foreign keys and sizes of random tables, and any other query, as algebra and as SQL."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from nabla.algebra.build import any_of, compare, equal, is_not_null, is_null, number
from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, At, Filter, Join, Node, Scan
from nabla.dev.testing.random_data import RandomSizes, Schema, Table
from nabla.dev.testing.random_plans import ALL, random_plan


@dataclass(frozen=True)
class DeclaredConstraint:
    """A constraint in one of the declared forms, with the query that must be empty."""

    form: str
    table: str
    columns: tuple[str, ...]
    target: str
    plan: Node


def random_constraint(rng: Random, schema: Schema, sizes: RandomSizes) -> Node:
    """A declared form, or a query of any shape."""
    roll = rng.random()
    return random_declared(rng, schema).plan if roll < 0.6 else random_plan(rng, schema, ALL, sizes)


def random_declared(rng: Random, schema: Schema) -> DeclaredConstraint:
    pairs = [(s, c, t, d) for s in schema for c in s.columns for t in schema for d in t.columns if c.type == d.type]
    form = rng.choice(("key", "foreign key", "size"))
    if form == "key":
        table = rng.choice(schema)
        columns = tuple(rng.sample(table.columns, rng.randint(1, min(2, len(table.columns)))))
        return DeclaredConstraint(form, table.name, tuple(c.name for c in columns), "", _key(table, columns))
    if form == "foreign key":
        child, column, parent, target = rng.choice(pairs)
        plan = _foreign_key(child, column, parent, target)
        return DeclaredConstraint(form, child.name, (column.name,), f"{parent.name}.{target.name}", plan)
    one, other = rng.choice(schema), rng.choice(schema)
    return DeclaredConstraint(form, one.name, (), other.name, _same_size(one, other))


def _scan(table: Table, mark: str = "") -> Scan:
    return Scan(table.name, At.NEW, tuple(_named(c, mark) for c in table.columns), table.fields)


def _named(column: Column, mark: str) -> Column:
    return column.rename(f"{column.name}{mark}#0")


def _counted(node: Node, keys: tuple[str, ...], mark: str = "") -> Aggregate:
    return Aggregate(node, keys, (Call(Column(f"n{mark}#0", "bigint", False), "count"),))


def _key(table: Table, columns: tuple[Column, ...]) -> Node:
    keys = [_named(c, "") for c in columns]
    counted = _counted(_scan(table), tuple(key.name for key in keys))
    several = compare(counted.calls[0].column.ref, ">", number(1))
    return Filter(counted, (any_of([several, *(is_null(key.ref) for key in keys)]),))


def _foreign_key(child: Table, column: Column, parent: Table, target: Column) -> Node:
    mine, other = _named(column, ""), _named(target, "'")
    return Join(
        Filter(_scan(child), (is_not_null(mine.ref),)), _scan(parent, "'"), (equal(mine.ref, other.ref),), "anti"
    )


def _same_size(one: Table, other: Table) -> Node:
    ours, theirs = _counted(_scan(one), (), "s"), _counted(_scan(other, "'"), (), "t")
    differ = compare(ours.calls[0].column.ref, "<>", theirs.calls[0].column.ref)
    return Filter(Join(ours, theirs), (differ,))
