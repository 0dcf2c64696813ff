"""The rounds of recursive programs on the driver, from stored tables: what naive evaluation gives, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import Schema

from nabla.algebra.clock import EPOCH
from nabla.algebra.expressions import Column
from nabla.calculus.recursion.relations import RecursiveGroup
from nabla.dev.testing.random_programs import Shape, random_program
from nabla.engine import types
from nabla.engine.apply import Change, Whole
from nabla.engine.driver import rounds
from nabla.engine.queries import Queries
from nabla.engine.relations import Relations, Source, hidden_schema
from nabla.engine.spark.frames import Sessions, Workspace
from nabla.engine.spark.rounds import run_group
from nabla.frontends.datalog.naive import naive
from nabla.frontends.datalog.program import Program, parse_program
from nabla.planner.steps import Mode, Plan, Size
from nabla.storage import files
from nabla.storage.table import StoredTable

Row = tuple[Any, ...]


def _refuse(size: Size) -> Workspace:
    raise AssertionError("the driver leaves a query to Spark, which is not there")


class Stored:
    """The tables and predicates of a program as Delta tables, before and after a change."""

    def __init__(self, folder: Path, program: Program) -> None:
        self.folder = folder
        self.program = program
        self.tables: dict[str, StoredTable] = {}

    def columns(self, name: str) -> tuple[Column, ...]:
        return self.program.columns(name)

    def write(self, rows: Mapping[str, Iterable[Row]]) -> None:
        """A next version of every table."""
        for name, now in rows.items():
            schema, folder = types.arrow_schema(hidden_schema(self.columns(name))), self.folder / name
            values = list(zip(*now, strict=True)) or [()] * len(schema)
            adds = files.write(
                folder, pa.table([pa.array(v, f.type) for v, f in zip(values, schema, strict=True)], schema)
            )
            if name not in self.tables:
                StoredTable.create(folder, Schema.from_arrow(schema).to_json(), adds)
                self.tables[name] = StoredTable(folder, closed=True)
            else:
                table = self.tables[name]
                table.commit(adds, table.snapshot().files, {}, table.latest())

    def run(self, group: RecursiveGroup, mode: Mode, changed: Iterable[str] = ()) -> dict[str, Any]:
        """The results for the predicates of a group, whose stored rows are the old ones."""
        sources = {name: self._source(name, 0, 1) for name in group.inputs}
        sources |= {name: self._source(name, 0, 0) for name in group.predicates}
        queries = Queries(
            Sessions(_refuse, _refuse, _refuse),
            Relations(sources, {}, EPOCH),
            Plan("p", "full" if mode == "full" else "incremental", "tried", (), frozenset(changed), size="tiny"),
        )
        schemas = {name: hidden_schema(self.columns(name)) for name in group.predicates}
        return {name: computed.result for name, computed in run_group(group, schemas, queries).items()}

    def _source(self, name: str, old: int, new: int) -> Source:
        return Source(name, tuple(c.name for c in self.columns(name)), self.tables[name], old, new)


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _check(made_of: int, folder: Path) -> bool:
    """Compare the recursive groups of a random program; whether it has any."""
    made = random_program(Random(made_of), Shape(changes=1, aggregates=False))
    program = parse_program(made.text, made.tables)
    before = {name: Counter(rows) for name, rows in made.facts.items()}
    after = dict(before)
    for name, (inserts, deletes) in made.changes[0].items():
        after[name] = before[name] - Counter(deletes) + Counter(inserts)
    old, new = (naive(program, {n: list(r) for n, r in facts.items()}) for facts in (before, after))
    stored = Stored(folder, program)
    stored.write({n: rows.elements() for n, rows in before.items()} | {p: old[p] for p in program.predicates})
    stored.write({n: rows.elements() for n, rows in after.items()} | {p: new[p] for p in program.predicates})
    groups = [program.group(s.predicates[0]) for s in program.strata if s.recursive]
    for group in groups:
        changed = [n for n in group.inputs if (before | old)[n] != (after | new)[n]]
        for name, whole in stored.run(group, "full").items():
            assert isinstance(whole, Whole)
            assert whole.rows.table is not None
            assert Counter(_rows(whole.rows.table)) == Counter(new[name]), f"program {made_of}: {name}"
        for name, change in stored.run(group, "incremental", changed).items():
            assert isinstance(change, Change)
            assert change.rows.table is not None
            found = {(*row[:-1],): row[-1] for row in _rows(change.rows.table)}
            expected = dict.fromkeys(new[name] - old[name], 1) | dict.fromkeys(old[name] - new[name], -1)
            assert found == expected, f"program {made_of}: the change of {name}"
    return bool(groups)


@pytest.mark.parametrize(
    ("whole_table", "programs"), [(rounds.WHOLE_TABLE, 9), (-1, 3)], ids=["tables in memory", "tables in files"]
)
def test_rounds_give_what_naive_evaluation_gives(
    whole_table: int, programs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of these programs needs Spark."""
    monkeypatch.setattr(rounds, "WHOLE_TABLE", whole_table)
    assert sum(_check(900 + seed, tmp_path / str(seed)) for seed in range(programs)) > programs / 2
