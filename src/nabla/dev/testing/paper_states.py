"""Databases of sets, with the deltas of their tables as tables. The papers' expressions are evaluated in these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.reference.interpreter import Bag, Database, evaluate
from nabla.algebra.traverse import parts
from nabla.dev.testing.random_plans import Scenario, reading
from nabla.papers.pairs import Pair

Row = tuple[Any, ...]
Table = tuple[Iterable[Row], Iterable[Row], Iterable[Row]]


def table(name: str, columns: str, type_: str = "string", nullable: bool = False, mark: str = "") -> Scan:
    """A table that is read under its own names, or with a mark behind them where it is read twice."""
    names = tuple(columns.split())
    return Scan(name, At.NEW, tuple(Column(n + mark, type_, nullable) for n in names), names)


def column(node: Node, name: str) -> Any:
    return node.column(name).ref


def state(scans: Iterable[Scan], **tables: Table) -> Database:
    """Each table as its old rows, ∇R and ΔR."""
    fields = {scan.table: scan.fields for scan in scans}
    before = {name: Counter(set(old)) for name, (old, _, _) in tables.items()}
    after = {name: Counter(set(old) - set(gone) | set(new)) for name, (old, gone, new) in tables.items()}
    return with_deltas(Database(fields, before, after))


def as_sets(scenario: Scenario) -> Database:
    """The random database without its duplicates."""
    given = scenario.database
    before, after = ({name: Counter(set(+bag)) for name, bag in d.items()} for d in (given.before, given.after))
    return with_deltas(Database(given.fields, before, after))


def with_deltas(database: Database) -> Database:
    """∇R and ΔR beside every R, the same before and after the change."""
    names = list(database.fields)
    deltas: dict[str, Bag] = {"∇" + name: database.before[name] - database.after[name] for name in names}
    deltas |= {"Δ" + name: database.after[name] - database.before[name] for name in names}
    fields = {sign + name: database.fields[name] for name in names for sign in ("", "∇", "Δ")}
    return Database(fields, {**database.before, **deltas}, {**database.after, **deltas})


def changed_tables(database: Database) -> frozenset[str]:
    return frozenset(name for name in database.fields if name[0] not in "∇Δ" and database.delta(name))


def rows(node: Node | None, database: Database) -> set[Row]:
    """The set that a plan denotes; that it is one is checked."""
    if node is None:
        return set()
    bag = evaluate(node, database)
    assert set(bag.values()) <= {1}, "a set has no row twice"
    return set(bag)


def before_and_after(view: Node, database: Database) -> tuple[set[Row], set[Row]]:
    return rows(reading(view, At.OLD), database), rows(reading(view, At.NEW), database)


def assert_minimal_pair(pair: Pair, view: Node, database: Database, note: object = "") -> None:
    """∇Q and ΔQ are what recomputing gives: between two sets there is exactly one minimal delta."""
    old, new = before_and_after(view, database)
    assert rows(pair.delete, database) == old - new, f"∇ {note}"
    assert rows(pair.insert, database) == new - old, f"Δ {note}"


def inverted(database: Database) -> Database:
    """The state after the change, and the change that takes it back."""
    names = [name for name in database.fields if name[0] not in "∇Δ"]
    back: Mapping[str, Bag] = {name: database.after[name] for name in names}
    return with_deltas(
        Database({n: database.fields[n] for n in names}, back, {name: database.before[name] for name in names})
    )


def graph(*roots: Node | None) -> list[Node]:
    """The nodes of plans that share subexpressions, each once."""
    return parts(*(root for root in roots if root is not None))


def tables_read(pair: Pair) -> set[str]:
    return {node.table for node in graph(pair.delete, pair.insert) if isinstance(node, Scan)}


def random_state(rng: Random, *scans: Scan, rows: int = 6) -> Database:
    """Sets over a small domain, all of which change at once."""

    def some_rows(scan: Scan) -> set[Row]:
        values = [(0, 1, 2, None) if c.nullable else (0, 1, 2) for c in scan.columns]
        return {tuple(rng.choice(domain) for domain in values) for _ in range(rng.randint(0, rows))}

    tables = {}
    for scan in scans:
        old = some_rows(scan)
        deleted = {row for row in sorted(old, key=repr) if rng.random() < 0.4}
        tables[scan.table] = (old, deleted, some_rows(scan) - old)
    return state(scans, **tables)
