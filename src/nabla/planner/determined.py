"""Whether a view's own rows and the changes of its sources determine its new rows (thesis, definition 6.1): shown by its form,
or refuted by two databases.

The question is undecidable in general. So there are three answers: it is shown, it is refuted, or neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from nabla.algebra.expressions import Column, Literal
from nabla.algebra.nodes import Filter, Join, Node, Project
from nabla.algebra.notation.words import list_in_words
from nabla.algebra.reference.evaluator import CannotEvaluate, SparkWouldFail
from nabla.algebra.reference.interpreter import Bag, Database, evaluate
from nabla.planner.auxiliary_views import chain
from nabla.rewrite.drop_redundant import TableKeys, UniqueColumns

TRIALS = 400
"""Pairs of databases that are tried."""


@dataclass(frozen=True)
class RecoveredTable:
    """Where a view has the rows of one of its tables: its columns' places in the view by field, and the place of a column that
    is NULL only where there is no row of the table. Without a place for each field that the view reads, it is not `whole`."""

    table: str
    places: Mapping[str, int]
    present: int
    whole: bool


def recovered(plan: Node, keys: TableKeys) -> tuple[RecoveredTable, ...]:
    """The tables whose rows, as far as the view reads them, can be read from the view itself; none if there is one that
    cannot. That is so for full outer joins that show all columns of tables with keys: a row of a table is in the view, with
    its partners or with NULLs beside it, and a key is never NULL (Gupta, Jagadish, Mumick 1997)."""
    places = {c.name: i for i, c in enumerate(plan.columns)}
    node = plan
    while isinstance(node, Project) and all(o.expr.column for o in node.outputs):
        places = {
            o.expr.column: places[o.column.name] for o in node.outputs if o.column.name in places and o.expr.column
        }
        node = node.input
    if not isinstance(node, Join) or node.kind != "full":
        return ()
    tables: dict[str, RecoveredTable] = {}
    unique = UniqueColumns(keys)
    waiting: list[Node] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Join) and part.kind == "full":
            waiting += reversed(part.inputs)
            continue
        found, key = chain(part), unique.of(part)
        if found is None or not key or not part.names <= places.keys():
            return ()
        shown = zip(found.values, part.columns, strict=True)
        fields = {value.column: places[c.name] for value, c in shown if value.column is not None}
        whole = set(found.scan.fields) <= fields.keys() and found.scan.table not in tables
        tables[found.scan.table] = RecoveredTable(found.scan.table, fields, places[min(key)], whole)
    return tuple(tables.values())


@dataclass(frozen=True)
class Counterexample:
    """Two databases in which the view has the same rows, and other rows after the same change."""

    one: Mapping[str, Bag]
    other: Mapping[str, Bag]
    table: str
    row: tuple[Any, ...]
    deleted: bool

    def __str__(self) -> str:
        differing = [name for name in self.one if self.one[name] != self.other[name]]
        rows = list_in_words([f"{name} = {_rows(self.one[name])} or {_rows(self.other[name])}" for name in differing])
        verb = "deleted from" if self.deleted else "inserted into"
        return f"its rows are the same for {rows}; when {self.row} is {verb} {self.table}, they are not"


def _rows(bag: Bag) -> str:
    return "{" + ", ".join(map(str, sorted(bag.elements(), key=repr))) + "}"


def refute(plan: Node, keys: TableKeys, trials: int = TRIALS) -> Counterexample | None:
    """A counterexample to self-maintainability, if small databases have one that is soon found."""
    try:
        return next(_Refutation(plan, keys).counterexamples(trials), None)
    except (CannotEvaluate, SparkWouldFail, LookupError):
        return None


class _Refutation:
    """Tries databases with few rows over few values, always the same ones for a view."""

    def __init__(self, plan: Node, keys: TableKeys) -> None:
        self.plan = plan
        self.keys = keys
        self.rng = Random(0)
        columns: dict[str, dict[str, Column]] = {}
        for scan in plan.scans:
            columns.setdefault(scan.table, {}).update(zip(scan.fields, scan.output, strict=True))
        self.columns = {table: tuple(known.values()) for table, known in columns.items()}
        self.fields = {table: tuple(known) for table, known in columns.items()}
        self.domains = {table: [self._domain(c) for c in known] for table, known in self.columns.items()}

    def _domain(self, column: Column) -> list[Any]:
        """Two values of the type, and the constants of that type in the query, with which rows are compared."""
        kind = column.type
        read: Any = {"string": str, "int": int, "bigint": int, "smallint": int, "tinyint": int}.get(kind)
        if read is None:
            if kind in ("double", "float"):
                return [0.0, 1.0]
            if kind == "boolean":
                return [False, True]
            raise CannotEvaluate(f"no values of type {kind}")
        constants = [
            e.value for e in _literals(self.plan) if e.value is not None and (e.type == "string") == (read is str)
        ]
        found = [read("1"), read("2"), *(read(value) for value in constants if read is str or _is_int(value))]
        if read is int:
            found += [value + 1 for value in found]
        return list(dict.fromkeys(found)) + [None] * column.nullable

    def counterexamples(self, trials: int) -> Iterator[Counterexample]:
        for _ in range(trials):
            one = {table: self._rows(table) for table in self.columns}
            table = self.rng.choice(list(one))
            other = {**one, table: self._varied(table, one[table])}
            change = self.rng.choice(list(one))
            deleted = self.rng.random() < 0.6
            common = [row for row in one[change] if row in other[change]]
            if deleted and not common:
                continue
            row = self.rng.choice(sorted(common, key=repr)) if deleted else self._row(change)
            new = [{**before, change: _changed(before[change], row, deleted)} for before in (one, other)]
            if not all(self._valid(change, after[change]) for after in new):
                continue
            if self._view(one) == self._view(other) and self._view(new[0]) != self._view(new[1]):
                yield Counterexample(one, other, change, row, deleted)

    def _row(self, table: str) -> tuple[Any, ...]:
        return tuple(self.rng.choice(domain) for domain in self.domains[table])

    def _rows(self, table: str) -> Bag:
        return self._checked(table, Counter(self._row(table) for _ in range(self.rng.randint(0, 2))))

    def _varied(self, table: str, rows: Bag) -> Bag:
        return self._checked(table, rows + Counter([self._row(table)]))

    def _checked(self, table: str, rows: Bag) -> Bag:
        return rows if self._valid(table, rows) else Counter()

    def _valid(self, table: str, rows: Bag) -> bool:
        """Whether rows obey the enforced key of their table."""
        key = self.keys.get(table, ())
        if not key or not set(key) <= set(self.fields[table]):
            return True
        places = [self.fields[table].index(k) for k in key]
        values = [tuple(row[p] for p in places) for row in rows.elements()]
        return len(set(values)) == len(values) and not any(None in value for value in values)

    def _view(self, tables: Mapping[str, Bag]) -> Bag:
        return evaluate(self.plan, Database(self.fields, tables, tables))


def _changed(rows: Bag, row: tuple[Any, ...], deleted: bool) -> Bag:
    return rows - Counter([row]) if deleted else rows + Counter([row])


def _literals(plan: Node) -> Iterator[Literal]:
    for node in plan.walk():
        read = node.conjuncts if isinstance(node, Filter) else node.on if isinstance(node, Join) else ()
        yield from (part for e in read for part in e.walk() if isinstance(part, Literal))


def _is_int(text: str) -> bool:
    return text.lstrip("-").isdigit()
