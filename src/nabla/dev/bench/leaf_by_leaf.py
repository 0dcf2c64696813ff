"""`python -m nabla.dev.bench.leaf_by_leaf`: one table after the other against all tables at once (thesis 2.3), on DuckDB.

A view joins n tables, of which all change. All at once it has one pair ∇V, ΔV by the rules for several updates; leaf by leaf it
has n pairs by the equations for a single update (Griffin and Kumar, figures 2 and 3), which are applied one after the other.
Both are evaluated on the same rows; the view that results is compared.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

import duckdb

from nabla.algebra.build import equal
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Join, JoinKind, Node, Scan
from nabla.algebra.traverse import parts
from nabla.engine.driver.duckdb_sql import to_duckdb
from nabla.engine.driver.duckdb_types import quote
from nabla.papers.pairs import Pair, Pairs
from nabla.papers.single_updates import leaf_by_leaf

ROWS, CHANGES, ROUNDS = 20_000, 100, 3
Rows = set[tuple[Any, ...]]


@dataclass(frozen=True)
class Measured:
    """One way to maintain one view: operators of its expressions, rows that it deletes and inserts, seconds."""

    view: str
    way: str
    pairs: int
    operators: int
    rows: int
    seconds: float


def view(kind: JoinKind, tables: int) -> Node:
    """T0 ⋈ T1 ⋈ … on key and foreign key: the last column of each is the first of the next."""
    node: Node = _table(0)
    for i in range(1, tables):
        other = _table(i)
        node = Join(node, other, (equal(_table(i - 1).output[1].ref, other.output[0].ref),), kind)
    return node


def _table(i: int) -> Scan:
    return Scan(f"t{i}", At.NEW, (Column(f"k{i}", "bigint", False), Column(f"f{i}", "bigint", False)), ("k", "f"))


def _fill(connection: duckdb.DuckDBPyConnection, tables: int, rows: int, changes: int) -> None:
    """Keys 1 … n with a random foreign key each; a change deletes some rows and inserts others."""
    rng = Random(tables)
    for i in range(tables):
        made = {(k, rng.randrange(rows)) for k in range(rows)}
        gone = rng.sample(sorted(made), changes // 2)
        new = [(rows + k, rng.randrange(rows)) for k in range(changes - changes // 2)]
        for name, content in ((f"t{i}", sorted(made)), (f"∇t{i}", gone), (f"Δt{i}", new)):
            connection.execute(f"CREATE OR REPLACE TABLE {quote(name)} (k BIGINT NOT NULL, f BIGINT NOT NULL)")
            values = ", ".join(map(str, content))
            connection.execute(f"INSERT INTO {quote(name)} VALUES {values}")


def _rows(connection: duckdb.DuckDBPyConnection, plan: Node | None) -> Rows:
    if plan is None:
        return set()
    return set(connection.execute(to_duckdb(plan, lambda scan: quote(scan.table))).fetchall())


def measure(
    kind: JoinKind, tables: int, rows: int = ROWS, changes: int = CHANGES, rounds: int = ROUNDS
) -> list[Measured]:
    """Both ways for one view, which give the same rows."""
    query, changed = view(kind, tables), frozenset(f"t{i}" for i in range(tables))
    connection = duckdb.connect()
    _fill(connection, tables, rows, changes)
    before = _rows(connection, Pairs(frozenset()).operand(query).old.plan)
    ways = {"all at once": [Pairs(changed).of(query)], "leaf by leaf": list(leaf_by_leaf(query, changed))}
    found, results = [], []
    for way, pairs in ways.items():
        taken, touched, result = [], 0, before
        for _ in range(rounds):
            began = perf_counter()
            sets = [(_rows(connection, pair.delete), _rows(connection, pair.insert)) for pair in pairs]
            taken.append(perf_counter() - began)
        for deleted, inserted in sets:
            result = (result - deleted) | inserted
            touched += len(deleted) + len(inserted)
        results.append(result)
        found.append(Measured(f"{tables} tables, {kind} joins", way, len(pairs), _size(pairs), touched, median(taken)))
    if results[0] != results[1]:
        raise AssertionError(f"the two ways give different rows for {tables} tables, {kind} joins")
    return found


def _size(pairs: list[Pair]) -> int:
    return len(parts(*(plan for pair in pairs for plan in (pair.delete, pair.insert) if plan is not None)))


def main() -> None:
    for kind, tables in (("inner", 2), ("inner", 4), ("inner", 6), ("left", 2), ("left", 3), ("left", 4)):
        for one in measure(kind, tables):  # type: ignore[arg-type]
            line = f"| {one.view} | {one.way} | {one.pairs} | {one.operators} | {one.rows:,} | {one.seconds * 1000:,.0f} ms |"
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
