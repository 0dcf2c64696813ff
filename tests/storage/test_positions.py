"""Finding rows of one table in another, as SQL groups them."""

from __future__ import annotations

import random

import pyarrow as pa

from nabla.storage import bags

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
DOMAIN = [(a, b) for a in (None, 1, 2, 3) for b in (None, "x", "y")]


def _table(rows: list[tuple[int | None, str | None]]) -> pa.Table:
    return pa.table([pa.array([row[i] for row in rows], SCHEMA.types[i]) for i in range(2)], schema=SCHEMA)


def test_every_asked_row_is_found_where_it_stands() -> None:
    for seed in range(500):
        rng = random.Random(seed)
        rows, asked = (rng.sample(DOMAIN, rng.randrange(1, len(DOMAIN))) for _ in range(2))
        others = [row for row in rows if row not in asked]
        rows += [rng.choice(others) for _ in range(3)] if others else []  # rows nobody asks for may repeat
        rng.shuffle(rows)
        expected = [rows.index(row) if row in rows else None for row in asked]
        assert bags.positions(_table(rows), _table(asked)).to_pylist() == expected, seed
