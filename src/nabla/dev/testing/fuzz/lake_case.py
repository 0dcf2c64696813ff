"""A failing lake as data: its tables, views and changes; run again, and made small."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from nabla.algebra.expressions import Column
from nabla.dev.testing.fuzz.lake_trial import UNDECLARED, Batch, Change, Declarations, Fault, Refused, Trial
from nabla.dev.testing.fuzz.shrinking import shrink, without_some
from nabla.dev.testing.fuzz.sql_edits import names_in, smaller_queries
from nabla.dev.testing.random_data import Row, Table

SHRINKING_SECONDS = 120.0


@dataclass(frozen=True)
class TableRows:
    table: Table
    rows: tuple[Row, ...]
    declared: Declarations = UNDECLARED


@dataclass(frozen=True)
class LakeCase:
    tables: tuple[TableRows, ...]
    views: tuple[tuple[str, str], ...]
    batches: tuple[Batch, ...]


def fault_of(spark: SparkSession, case: LakeCase, folder: Path) -> Fault | None:
    """The first fault that the case shows in a new lake; None if there is none, or if Spark refuses the case."""
    try:
        trial = Trial(spark, folder)
        for table in case.tables:
            trial.create_table(table.table, table.rows, table.declared)
        for name, sql in case.views:
            if fault := trial.create_view(name, sql):
                return fault
        for batch in case.batches:
            trial.change(batch)
            _, faults = trial.refresh()
            if faults:
                return faults[0]
    except Refused:
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def shrink_case(
    spark: SparkSession, case: LakeCase, fault: Fault, folder: Path, seconds: float = SHRINKING_SECONDS
) -> LakeCase:
    """The smallest case with a fault of the same kind."""
    numbers = itertools.count()

    def fails(candidate: LakeCase) -> bool:
        found = None
        with suppress(Exception):  # a candidate that makes no sense
            found = fault_of(spark, candidate, folder / f"smaller{next(numbers)}")
        return found is not None and found.kind == fault.kind

    return shrink(case, lambda c: _smaller(c, fault.view), fails, _size, seconds)


def _size(case: LakeCase) -> int:
    rows = sum(len(table.rows) for table in case.tables)
    changed = sum(len(change.gone) + len(change.come) for batch in case.batches for change in batch)
    columns = sum(len(table.table.columns) + len(table.declared.columns) for table in case.tables)
    return sum(len(sql) for _, sql in case.views) + 10 * (rows + changed + columns + 5 * len(case.batches))


def _smaller(case: LakeCase, view: str) -> Iterator[LakeCase]:
    yield needed(case, view)
    yield from _with_fewer_batches(case)
    for place, (name, sql) in enumerate(case.views):
        for smaller in smaller_queries(sql):
            views = (*case.views[:place], (name, smaller), *case.views[place + 1 :])
            yield needed(replace(case, views=views), view)
    yield from _with_fewer_rows(case)
    yield from _with_fewer_declarations(case)
    yield from _with_fewer_columns(case)


def needed(case: LakeCase, view: str) -> LakeCase:
    """The view, the views it reads, and their tables."""
    texts = dict(case.views)
    wanted: set[str] = set()

    def visit(name: str) -> None:
        if name not in wanted:
            wanted.add(name)
            for read in names_in(texts.get(name, "")):
                visit(read)

    visit(view)
    kept = [table for table in case.tables if table.table.name in wanted]
    names = {table.table.name for table in kept}
    tables = tuple(replace(table, declared=table.declared.among(names)) for table in kept)
    batches = (tuple(change for change in batch if change.table in names) for batch in case.batches)
    views = tuple((name, sql) for name, sql in case.views if name in wanted)
    return LakeCase(tables, views, tuple(batch for batch in batches if batch))


def _with_fewer_batches(case: LakeCase) -> Iterator[LakeCase]:
    """Cases with fewer batches: the first ones become part of the tables' initial rows, or some are left out."""
    for done in range(len(case.batches) - 1, 0, -1):
        tables = tuple(_advanced(table, case.batches[:done]) for table in case.tables)
        yield replace(case, tables=tables, batches=case.batches[done:])
    if len(case.batches) > 1:
        yield replace(case, batches=case.batches[:-1])
    for i, batch in enumerate(case.batches):
        for kept in without_some(batch) if len(batch) > 1 else ():
            yield replace(case, batches=(*case.batches[:i], tuple(kept), *case.batches[i + 1 :]))


def _advanced(table: TableRows, batches: tuple[Batch, ...]) -> TableRows:
    rows = Counter(table.rows)
    for change in (change for batch in batches for change in batch if change.table == table.table.name):
        rows.subtract(change.gone)
        rows.update(change.come)
    return replace(table, rows=tuple((+rows).elements()))


def _with_fewer_rows(case: LakeCase) -> Iterator[LakeCase]:
    for i, batch in enumerate(case.batches):
        for j, change in enumerate(batch):
            for smaller in _smaller_changes(change):
                changes = (*batch[:j], smaller, *batch[j + 1 :])
                yield replace(case, batches=(*case.batches[:i], changes, *case.batches[i + 1 :]))
    for i, table in enumerate(case.tables):
        for kept in without_some(table.rows):
            yield replace(case, tables=(*case.tables[:i], replace(table, rows=tuple(kept)), *case.tables[i + 1 :]))


def _smaller_changes(change: Change) -> Iterator[Change]:
    for kept in without_some(change.gone):
        yield replace(change, gone=tuple(kept))
    for kept in without_some(change.come):
        yield replace(change, come=tuple(kept))


def _with_fewer_declarations(case: LakeCase) -> Iterator[LakeCase]:
    for i, table in enumerate(case.tables):
        for fewer in (replace(table.declared, key=None), replace(table.declared, foreign=())):
            if fewer != table.declared:
                tables = (*case.tables[:i], replace(table, declared=fewer), *case.tables[i + 1 :])
                yield replace(case, tables=tables)


def _with_fewer_columns(case: LakeCase) -> Iterator[LakeCase]:
    """Cases without columns whose names occur in no view and no declaration."""
    declared = [f"{t.declared.key} {t.declared.foreign}" for t in case.tables]
    text = " ".join([*(sql for _, sql in case.views), *declared])
    for i, table in enumerate(case.tables):
        columns = table.table.columns
        kept = [place for place, column in enumerate(columns) if column.name in text]
        if 0 < len(kept) < len(columns):
            yield _narrowed(case, i, kept)


def _narrowed(case: LakeCase, number: int, kept: list[int]) -> LakeCase:
    old = case.tables[number]
    columns: tuple[Column, ...] = tuple(old.table.columns[place] for place in kept)

    def narrow(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(tuple(row[place] for place in kept) for row in rows)

    table = replace(old, table=Table(old.table.name, columns), rows=narrow(old.rows))
    batches = tuple(
        tuple(Change(c.table, narrow(c.gone), narrow(c.come)) if c.table == table.table.name else c for c in batch)
        for batch in case.batches
    )
    return LakeCase((*case.tables[:number], table, *case.tables[number + 1 :]), case.views, batches)
