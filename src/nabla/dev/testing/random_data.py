"""Random schemas, databases and changes: tiny domains, many NULLs and duplicates, so that all cases meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias

from nabla.algebra.expressions import Column
from nabla.algebra.reference.interpreter import Bag, Database, added, negated

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class RandomSizes:
    """The sizes of random plans and tables. The defaults keep an evaluation in the interpreter below some milliseconds."""

    tables: int = 3
    columns: int = 4
    rows: int = 8
    operations: int = 4
    depth: int = 4
    scans: int = 4
    joined_rows: int = 800


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def ddl(self) -> str:
        """The schema as Spark's createDataFrame takes it."""
        return ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns)


Schema: TypeAlias = tuple[Table, ...]
DEFAULT = RandomSizes()

# Doubles are multiples of a quarter: their sums are exact, so that no order of summation gives another result.
DOMAINS: Mapping[str, tuple[Any, ...]] = {
    "int": (0, 1, 2, 3, -1, 7),
    "bigint": (0, 1, 2, 3, -2, 10),
    "string": ("a", "b", "ab", "B", "", " a"),
    "decimal(10,2)": tuple(Decimal(text) for text in ("0.00", "1.00", "1.50", "2.25", "-3.10")),
    "double": (0.0, 1.0, 0.5, 2.25, -1.75),
    "boolean": (True, False),
    "date": tuple(date(2024, 1, day) for day in (1, 2, 3, 31)),
}
# Types that the interpreter does not know, for tests on Spark: arrays and structs are tuples here.
NESTED: Mapping[str, tuple[Any, ...]] = {
    "timestamp": tuple(datetime(2024, 1, day, hour, tzinfo=UTC) for day, hour in ((1, 0), (1, 12), (2, 0), (31, 23))),
    "array<int>": ((), (1,), (1, 2), (2, None, 1), (3, 3)),
    "struct<x:int,y:string>": ((1, "a"), (1, None), (2, "b"), (None, None)),
}
_NULLS = 0.2
_CHANGED = 0.85


def random_schema(rng: Random, sizes: RandomSizes = DEFAULT) -> Schema:
    names = "rstuvw"[: rng.randint(1, sizes.tables)]
    return tuple(_random_table(rng, name, sizes) for name in names)


def _random_table(rng: Random, name: str, sizes: RandomSizes) -> Table:
    # Integers twice: what can be joined and summed should be common.
    types = [*DOMAINS, "int", "bigint", "int"]
    columns = (
        Column(f"{name}{letter}", rng.choice(types), rng.random() < 0.75)
        for letter in "abcdef"[: rng.randint(1, sizes.columns)]
    )
    return Table(name, tuple(columns))


def with_nested_columns(rng: Random, schema: Schema) -> Schema:
    """The same tables with a timestamp, an array or a struct more, where chance has it."""
    return tuple(
        Table(t.name, t.columns + tuple(Column(f"{t.name}_{kind[:5]}", kind) for kind in NESTED if rng.random() < 0.5))
        for t in schema
    )


def random_row(rng: Random, table: Table) -> Row:
    return tuple([_random_value(rng, column) for column in table.columns])


def _random_value(rng: Random, column: Column) -> Any:
    if column.nullable and rng.random() < _NULLS:
        return None
    return rng.choice(DOMAINS[column.type] if column.type in DOMAINS else NESTED[column.type])


def random_bag(rng: Random, table: Table, rows: int) -> Bag:
    bag: Bag = Counter()
    for _ in range(0 if rng.random() < 0.05 else rng.randint(min(4, rows), rows)):
        bag[random_row(rng, table)] += rng.choice((1, 1, 1, 2))
    return bag


def random_change(rng: Random, table: Table, bag: Bag, operations: int) -> Bag:
    """The signed difference that a few statements make: insert, delete, update. Never fewer than no copies."""
    after: Bag = Counter(bag)
    for _ in range(rng.randint(1, operations)):
        rng.choice(_OPERATIONS)(rng, table, after)
    return added(+after, negated(bag))


def _insert(rng: Random, table: Table, bag: Bag) -> None:
    row = rng.choice(list(bag)) if bag and rng.random() < 0.3 else random_row(rng, table)
    bag[row] += rng.choice((1, 1, 2))


def _delete(rng: Random, table: Table, bag: Bag) -> None:
    _take(rng, bag)


def _update(rng: Random, table: Table, bag: Bag) -> None:
    row, copies = _take(rng, bag)
    if copies:
        place = rng.randrange(len(row))
        bag[(*row[:place], _random_value(rng, table.columns[place]), *row[place + 1 :])] += copies


def _delete_all(rng: Random, table: Table, bag: Bag) -> None:
    bag.clear()


def _take(rng: Random, bag: Bag) -> tuple[Row, int]:
    """Takes one copy or all copies of some row out of a bag."""
    if not bag:
        return (), 0
    row = rng.choice(list(bag))
    copies = rng.choice((1, bag[row]))
    bag[row] -= copies
    if not bag[row]:
        del bag[row]
    return row, copies


_OPERATIONS: tuple[Callable[[Random, Table, Bag], None], ...] = (
    *(_insert,) * 12,
    *(_delete,) * 8,
    *(_update,) * 12,
    _delete_all,
)


def random_database(rng: Random, schema: Schema, sizes: RandomSizes = DEFAULT) -> Database:
    """Tables with a random content, some of which, often several at once, change."""
    before = {table.name: random_bag(rng, table, sizes.rows) for table in schema}
    change = {
        table.name: random_change(rng, table, before[table.name], sizes.operations)
        for table in schema
        if rng.random() < _CHANGED
    }
    return Database.changed({table.name: table.fields for table in schema}, before, change)


def next_database(rng: Random, schema: Schema, database: Database, sizes: RandomSizes = DEFAULT) -> Database:
    """The state after a change, with another change on top: for sequences of refreshes."""
    before = {table.name: database.new(table.name) for table in schema}
    change = {
        table.name: random_change(rng, table, before[table.name], sizes.operations)
        for table in schema
        if rng.random() < _CHANGED
    }
    return Database.changed(database.fields, before, change)
