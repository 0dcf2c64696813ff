"""Random constraints in lakes, on Spark: transactions that a lake must refuse, and those that it must commit.

The reference is Spark itself, over tables in memory. A transaction must be refused exactly if a constraint that held
would find rows, and then with these rows and without a trace. The violations of constraints that only warn must be the results
of their queries. No row may be missing from both the commit and the quarantine.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nabla import constraints
from nabla.algebra.nodes import Scan
from nabla.algebra.sql import to_sql
from nabla.dev.testing.fuzz.bags import exact, rounded, rows_of, stored
from nabla.dev.testing.fuzz.lake_trial import NOT_OURS, Batch, Change, Refused, Trial
from nabla.dev.testing.random_constraints import DeclaredConstraint, random_declared
from nabla.dev.testing.random_data import RandomSizes, Row, Schema, random_bag, random_change, random_schema
from nabla.dev.testing.random_plans import ALL, random_plan
from nabla.dev.testing.session import quick_session
from nabla.errors import NablaError
from nabla.lake.constraints.quarantine import name_of
from nabla.lake.constraints.violations import Violated

SIZES = RandomSizes(tables=3, columns=3, rows=6, operations=3, depth=3, scans=3)
CONSTRAINTS = 5
TOGETHER = 25
"""Transactions in one lake."""


@dataclass
class LakeTally:
    """The counts of a run, and its failures."""

    lakes: int = 0
    constraints: int = 0
    transactions: int = 0
    refused: int = 0
    set_aside: int = 0

    def __str__(self) -> str:
        return (
            f"{self.lakes:,} lakes, {self.constraints:,} constraints, {self.transactions:,} transactions, "
            f"{self.refused:,} refused, {self.set_aside:,} with rows set aside"
        )


def run(transactions: int, seed: int, tally: LakeTally) -> list[str]:
    """Runs as many transactions as asked for, in lakes of consecutive seeds; returns the failures."""
    spark, number = quick_session("nabla-fuzz"), seed
    faults: list[str] = []
    while tally.transactions < transactions and not faults:
        folder = Path(tempfile.mkdtemp(prefix="nabla-constraints-"))
        try:
            most = min(TOGETHER, transactions - tally.transactions)
            LakeOfConstraints(Trial(spark, folder / "lake"), Random(number), tally).run(most)
        except Exception as error:
            faults.append(f"seed {number}: {type(error).__name__} {error}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
    return faults


class LakeOfConstraints:
    """One lake with some constraints, of which each rejects, warns or sets aside."""

    def __init__(self, trial: Trial, rng: Random, tally: LakeTally) -> None:
        self.trial, self.rng, self.tally = trial, rng, tally
        self.lake, self.reference = trial.lake, trial.reference
        self.schema: Schema = random_schema(rng, SIZES)
        self.sql: dict[str, str] = {}
        self.actions: dict[str, str] = {}

    def run(self, transactions: int) -> None:
        empty = self.rng.random() < 0.5
        for table in self.schema:
            rows = () if empty else tuple(random_bag(self.rng, table, SIZES.rows).elements())
            self.trial.create_table(table, rows)
        self.tally.lakes += 1
        for number in range(CONSTRAINTS):
            self._create(f"c{number}", self._text())
        for _ in range(transactions):
            self._transaction(self._batch())
            self.tally.transactions += 1
        for name in self.lake.check().values():
            _same(f"{name.name} checked", name.violations, len(self.reference.answer(self.sql[name.name])))

    def _text(self) -> str:
        if self.rng.random() < 0.6:
            return _spelled(random_declared(self.rng, self.schema))
        plan = random_plan(self.rng, self.schema, ALL, SIZES)
        columns = ", ".join(f"`{c.name}` AS c{i}" for i, c in enumerate(plan.columns))
        return f"SELECT {columns} FROM ({to_sql(plan, _table)})"

    def _create(self, name: str, sql: str) -> None:
        try:
            holds = not len(self.reference.answer(sql))
            action = self.rng.choice(("reject", "reject", "warn", "quarantine")) if holds else "warn"
            if not holds and self.rng.random() < 0.3:
                _must_refuse(lambda: self.lake.create_constraint(name, sql))
            self.lake.create_constraint(name, sql, on_violation=action)
        except Refused:
            return
        except NablaError as error:
            if error.code not in (*NOT_OURS, "NABLA_CONSTRAINT"):
                raise
            return
        self.sql[name], self.actions[name] = sql, action
        self.tally.constraints += 1

    def _batch(self) -> Batch:
        changes = []
        for table in self.schema:
            if self.rng.random() < 0.7:
                delta = random_change(self.rng, table, self.reference.rows[table.name], SIZES.operations)
                gone = tuple(row for row, n in delta.items() for _ in range(-n))
                changes.append(Change(table.name, gone, tuple(row for row, n in delta.items() for _ in range(n))))
        return tuple(change for change in changes if change.gone or change.come)

    def _transaction(self, batch: Batch) -> None:
        before = {name: Counter(rows) for name, rows in self.reference.rows.items()}
        version = self.lake.version
        self.reference.change(batch)
        expected = self._violations()
        refusing = {name for name, rows in expected.items() if rows and self.actions[name] == "reject"}
        setting_aside = {name for name, rows in expected.items() if rows and self.actions[name] == "quarantine"}
        try:
            self._commit(batch)
        except Violated as violated:
            self._refused(violated, expected, refusing, bool(setting_aside))
            _same("the lake's version", self.lake.version, version)
            self._return_to(before)
            return
        if setting_aside:
            self._set_aside()
        elif refusing:
            raise AssertionError(f"{sorted(refusing)} should have refused {batch}")
        for name, rows in self._violations().items():
            _same(f"the violations of {name}", rounded(stored(self.lake, name)[0]), rows)
            if rows and self.actions[name] != "warn":
                raise AssertionError(f"{name} is violated by {dict(rows)}")

    def _violations(self) -> dict[str, Counter[Row]]:
        return {name: rounded(rows_of(self.reference.answer(sql))) for name, sql in self.sql.items()}

    def _commit(self, batch: Batch) -> None:
        with self.lake.transaction() as tx:
            for change in batch:
                if change.gone:
                    tx.delete(change.table, rows=list(change.gone))
                if change.come:
                    tx.insert(change.table, list(change.come))

    def _refused(
        self, violated: Violated, expected: Mapping[str, Counter[Row]], refusing: set[str], partly: bool
    ) -> None:
        """With what was set aside gone, others may refuse, or none may be left that does."""
        self.tally.refused += 1
        if partly:
            return
        found = {v.constraint: rounded(rows_of(v.rows)) for v in violated.violations}
        _same("what refuses", set(found), refusing)
        for name, rows in found.items():
            _same(f"the rows that violate {name}", rows, expected[name])

    def _set_aside(self) -> None:
        """Asserts that the commit has the change without the rows in quarantine, and lets the reference follow."""
        self.tally.set_aside += 1
        for table in self.schema:
            held: Counter[Row] = Counter()
            if name_of(table.name) in self.lake.status():
                for *row, _, kind, _ in stored(self.lake, name_of(table.name))[0]:
                    held[tuple(row)] += 1 if kind == "insert" else -1
            now = exact(stored(self.lake, table.name)[0])
            wanted = Counter(self.reference.rows[table.name])
            wanted.subtract(held)
            _same(f"{table.name} and its quarantine", now, exact(wanted.elements()))
            if name_of(table.name) in self.lake.status():
                with self.lake.transaction() as tx:
                    tx.delete(name_of(table.name), where="true")
        self._return_to({t.name: Counter(stored(self.lake, t.name)[0]) for t in self.schema})

    def _return_to(self, rows: Mapping[str, Counter[Row]]) -> None:
        for name, wanted in rows.items():
            gone = tuple((self.reference.rows[name] - wanted).elements())
            come = tuple((wanted - self.reference.rows[name]).elements())
            self.reference.change((Change(name, gone, come),))


def _spelled(declared: DeclaredConstraint) -> str:
    match declared.form:
        case "key":
            return constraints.key(declared.table, *declared.columns)
        case "foreign key":
            return constraints.foreign_key(declared.table, declared.columns[0], declared.target)
    return constraints.same_size(declared.table, declared.target)


def _table(scan: Scan) -> str:
    return scan.table


def _must_refuse(make: object) -> None:
    try:
        make()  # type: ignore[operator]
    except Violated:
        return
    raise AssertionError("a constraint that does not hold was made")


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{what}: found {found}, expected {expected}")
