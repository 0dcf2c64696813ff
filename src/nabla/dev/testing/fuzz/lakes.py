"""The fuzzer on Spark: lakes of random tables and views, changed and refreshed again and again."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from nabla.algebra.nodes import Scan
from nabla.algebra.sql import to_sql
from nabla.dev.testing.fuzz.budget import Budget
from nabla.dev.testing.fuzz.lake_case import LakeCase, TableRows, needed, shrink_case
from nabla.dev.testing.fuzz.lake_trial import Batch, Change, Declarations, Fault, Refused, Trial
from nabla.dev.testing.random_data import (
    RandomSizes,
    Schema,
    Table,
    random_bag,
    random_change,
    random_schema,
    with_nested_columns,
)
from nabla.dev.testing.random_plans import ALL, random_plan
from nabla.dev.testing.random_sql import random_query
from nabla.dev.testing.sql_scope import Field

SIZES = RandomSizes(rows=8, depth=2, scans=3, operations=3)
VIEWS = 30
BATCHES = 10
SHRUNK = 3
"""So many faults of a lake are made small: most often they have one cause. The others are reported as they are."""
_CHANGED = 0.7
_DECLARED = 0.6
_OF_PLANS = 0.2
"""The share of views that are random plans printed as SQL; the others are text as people write it."""
_LONG, _LONG_ONES = 5, 0.1
"""Texts that weigh more are rare: their refreshes take most of the time, and find little more."""


@dataclass
class FoundLake:
    """A fault of a lake, and a lake that shows it."""

    number: int
    fault: Fault
    small: LakeCase


@dataclass
class LakeFindings:
    """`refreshes` are those of a view whose sources changed; `reasons` are why some were not incremental, `examples` the first
    message and text of each."""

    lakes: int = 0
    views: int = 0
    refreshes: int = 0
    seconds: float = 0.0
    modes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    spent: Counter[str] = field(default_factory=Counter)
    found: list[FoundLake] = field(default_factory=list)


def run(
    spark: SparkSession,
    seed: int,
    budget: Budget,
    progress: Callable[[LakeFindings], None] = lambda _: None,
    views: int = VIEWS,
    batches: int = BATCHES,
    announce: Callable[[str], None] = lambda _: None,
) -> LakeFindings:
    """Lakes of a seed, as many as the budget allows; stops at the first lake that has a fault."""
    findings = LakeFindings()
    begun = time.monotonic()

    def advanced() -> bool:
        findings.seconds = time.monotonic() - begun
        progress(findings)
        return not budget.over(findings.refreshes)

    number = seed * 1_000_000
    while not findings.found and advanced():
        folder = Path(tempfile.mkdtemp(prefix="nabla-fuzz-"))
        try:
            faults, case = _Round(spark, number, folder, findings).run(views, batches, advanced)
            for fault in faults[:SHRUNK]:
                announce(f"{fault.view} of lake {number} fails: {fault.what[:200]}; making it small")
                findings.found.append(FoundLake(number, fault, shrink_case(spark, case, fault, folder)))
            findings.found += [FoundLake(number, fault, needed(case, fault.view)) for fault in faults[SHRUNK:]]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
    advanced()
    return findings


class _Round:
    """One lake: its views are made once, then changed and refreshed many times."""

    def __init__(self, spark: SparkSession, number: int, folder: Path, findings: LakeFindings) -> None:
        self.rng = Random(number)
        self.plain: Schema = random_schema(self.rng, SIZES)
        self.schema = with_nested_columns(self.rng, self.plain)
        self.trial = Trial(spark, folder / "lake")
        self.findings = findings
        self.batches: list[Batch] = []
        self.texts: dict[str, str] = {}

    def run(self, views: int, batches: int, advanced: Callable[[], bool]) -> tuple[list[Fault], LakeCase]:
        tables: list[TableRows] = []
        for table in self.schema:
            rows = tuple(random_bag(self.rng, table, SIZES.rows).elements())
            tables.append(TableRows(table, rows, self._declared(table, tables)))
            self.trial.create_table(table, rows, tables[-1].declared)
        self.findings.lakes += 1
        faults = self._make_views(views, advanced)
        while not faults and len(self.batches) < batches and self.trial.views and advanced():
            faults = self._batch()
        self.findings.spent.update(asdict(self.trial.seconds))
        return faults, LakeCase(tuple(tables), tuple(self.texts.items()), tuple(self.batches))

    def _declared(self, table: Table, others: list[TableRows]) -> Declarations:
        """Keys and references at random; of so few different values hardly any is one."""
        columns = next(plain.columns for plain in self.plain if plain.name == table.name)
        key = self.rng.choice(columns).name if self.rng.random() < _DECLARED else None
        references = [
            (c, f"{o.table.name}.{d.name}")
            for c in columns
            for o in others
            for d in o.table.columns
            if c.type == d.type
        ]
        drawn = {c.name: target for c, target in references if self.rng.random() < _DECLARED / 2}
        return Declarations(key, tuple(drawn.items()))

    def _make_views(self, views: int, advanced: Callable[[], bool]) -> list[Fault]:
        shown: list[tuple[str, tuple[Field, ...]]] = []
        faults: list[Fault] = []
        while len(self.texts) < views and advanced():
            name = f"v{len(self.texts)}"
            sql, fields = self._text(shown)
            try:
                fault = self.trial.create_view(name, sql)
            except Refused as refusal:
                self.findings.refused[str(refusal).split("]")[0].lstrip("[").split(".")[0]] += 1
                continue
            self.texts[name] = sql
            self.findings.views += 1
            if fault:
                faults.append(fault)
                self.trial.drop(name)
            else:
                shown.append((name, fields))
        return faults

    def _text(self, views: list[tuple[str, tuple[Field, ...]]]) -> tuple[str, tuple[Field, ...]]:
        while True:
            sql, fields = self._drawn(views)
            if _weight(sql) <= _LONG or self.rng.random() < _LONG_ONES:
                return sql, fields

    def _drawn(self, views: list[tuple[str, tuple[Field, ...]]]) -> tuple[str, tuple[Field, ...]]:
        if self.rng.random() > _OF_PLANS:
            query = random_query(self.rng, self.schema, views)
            return query.sql, query.fields
        plan = random_plan(self.rng, self.plain, ALL, SIZES)
        columns = ", ".join(f"`{c.name}` AS c{i}" for i, c in enumerate(plan.columns))
        return f"SELECT {columns} FROM ({to_sql(plan, _table)})", ()

    def _batch(self) -> list[Fault]:
        batch = tuple(self._changes())
        self.batches.append(batch)
        self.trial.change(batch)
        reports, faults = self.trial.refresh()
        for name, report in reports.items():
            self.findings.modes[report.mode] += 1
            self.findings.refreshes += report.mode != "skip"
            if report.mode == "full":
                code = report.reason.split(":")[0]
                self.findings.reasons[code] += 1
                self.findings.examples.setdefault(code, (report.reason, self.texts[name]))
        return faults

    def _changes(self) -> list[Change]:
        changes = []
        for table in self.schema:
            if self.rng.random() < _CHANGED:
                delta = random_change(self.rng, table, self.trial.reference.rows[table.name], SIZES.operations)
                gone = tuple(row for row, n in delta.items() for _ in range(-n))
                come = tuple(row for row, n in delta.items() for _ in range(n))
                if gone or come:
                    changes.append(Change(table.name, gone, come))
        return changes


def _weight(sql: str) -> int:
    """About how many operators a text has: a common table expression counts wherever it is read."""
    return sql.count("SELECT") + sql.count("JOIN") + 2 * sql.count("cte_")


def _table(scan: Scan) -> str:
    return scan.table
