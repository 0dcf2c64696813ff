"""A small star of tables with declared keys and references, which hold in half of all databases."""

from __future__ import annotations

from collections import Counter
from random import Random

from nabla.algebra.expressions import Column
from nabla.algebra.reference.interpreter import Bag, Database
from nabla.answer.facts import Columns, Proofs
from nabla.dev.testing.random_data import DOMAINS, Row, Schema, Table, random_change, random_row

REFERENCES = {("f", "fa"): ("d", "da"), ("f", "fb"): ("e", "ea"), ("d", "db"): ("e", "ea")}
"""The foreign keys that are declared; in half of the databases they are wrong."""
KEYS = {"d": "da", "e": "ea"}


def random_star(rng: Random) -> Schema:
    """A table of facts and two of what they refer to, the second of which the first refers to as well."""
    types = [t for t in DOMAINS if t != "boolean"]

    def more(prefix: str, letters: str) -> tuple[Column, ...]:
        return tuple(Column(prefix + letter, rng.choice(types), rng.random() < 0.7) for letter in letters)

    return (
        Table("f", (Column("fa", "int"), Column("fb", "int"), Column("fc", "int"), *more("f", "def"))),
        Table("d", (Column("da", "int"), Column("db", "int"), *more("d", "cd"))),
        Table("e", (Column("ea", "int"), *more("e", "bc"))),
    )


def random_star_database(rng: Random, schema: Schema, rows: int = 8) -> Database:
    """Their contents, before and after a change. Keys and references hold in half of all cases."""
    honest = rng.random() < 0.5
    before = {table.name: _content(rng, table, rows, honest) for table in schema}
    if honest:
        fields = {t.name: t.fields for t in schema}
        return Database(fields, before, {t.name: _content(rng, t, rows, honest) for t in schema})
    change = {t.name: random_change(rng, t, before[t.name], 3) for t in schema if rng.random() < 0.7}
    return Database.changed({t.name: t.fields for t in schema}, before, change)


def _content(rng: Random, table: Table, rows: int, honest: bool) -> Bag:
    """Rows whose key is a number from 0 on and whose references are below 3, unless they may be anything."""
    bag: Bag = Counter()
    count = rng.randint(0 if rng.random() < 0.1 else 3, rows)
    for place in range(3 if honest and table.name in KEYS else count):
        row = list(random_row(rng, table))
        for i, name in enumerate(table.fields):
            if honest and name == KEYS.get(table.name):
                row[i] = place
            elif honest and (table.name, name) in REFERENCES:
                row[i] = rng.randrange(3)
        bag[tuple(row)] += 1 if honest else rng.choice((1, 1, 2))
    return bag


def proofs_of(database: Database) -> Proofs:
    """What the data proves, after the change."""

    def values(table: str, fields: Columns) -> list[Row]:
        places = [database.fields[table].index(f) for f in fields]
        return [tuple(row[p] for p in places) for row, n in database.new(table).items() for _ in range(n)]

    def unique(table: str, fields: Columns) -> bool:
        found = values(table, fields) if table in database.fields else []
        return table in database.fields and len(set(found)) == len(found)

    def refers(table: str, field_: str, other: str, its: str) -> bool:
        own = {v for (v,) in values(table, (field_,)) if v is not None}
        return own <= {v for (v,) in values(other, (its,))}

    def has_values(table: str, field_: str) -> bool:
        return table in database.fields and None not in {v for (v,) in values(table, (field_,))}

    return Proofs(unique, refers, has_values)
