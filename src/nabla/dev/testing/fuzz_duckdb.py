"""`python -m nabla.dev.testing.fuzz_duckdb [--queries N] [--seed S]`: DuckDB against the interpreter, query by query.

Random views and random Datalog programs are built and maintained in the interpreter, which is the specification. Whatever
query it answers on the way, DuckDB answers too if the driver may ask it, as the driver would ask. It ends with 1 if two
answers differ, and names the case. `--queries` are queries that DuckDB has answered; those that are left to Spark are counted
beside.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from time import perf_counter

import pyarrow as pa

from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Consolidate, Node, Scan, Weigh
from nabla.algebra.notation.tree import tree
from nabla.algebra.reference.interpreter import Bag, Database, bag_of, evaluate
from nabla.algebra.traverse import map_nodes
from nabla.calculus.recursion.memory import Memory, MemoryRelation
from nabla.dev.testing.fuzz.plans import CASES_OF_A_SEED, case
from nabla.dev.testing.maintained import check, same
from nabla.dev.testing.maintained_programs import MaintainedProgram
from nabla.dev.testing.random_programs import Shape, random_program
from nabla.engine import types
from nabla.engine.driver.driver_query import answer
from nabla.engine.relations import hidden_schema
from nabla.frontends.datalog.program import parse_program

PROGRAM_EVERY = 8
"""Of so many cases one is a program, the others are views."""
MOST_FAILURES = 5
SAID_EVERY = 5_000

Read = Callable[[Scan], tuple[tuple[str, ...], Bag]]
"""The names of the columns of what a scan reads, and all its rows."""


class Differs(AssertionError):
    """DuckDB has another answer than the interpreter."""


@dataclass
class Comparison:
    """Compares answers, and counts them: those that DuckDB gave, and those that it left to Spark."""

    answered: int = 0
    left: int = 0
    signed: int = 0
    empty: int = 0
    operators: Counter[str] = field(default_factory=Counter)

    def evaluate(self, node: Node, database: Database) -> Bag:
        """What the interpreter answers; `Differs` if DuckDB has another answer."""
        expected = evaluate(node, database)
        self.compare(node, lambda scan: (database.fields[scan.table], database.read(scan.table, scan.at)), expected)
        return expected

    def compare(self, node: Node, read: Read, expected: Bag) -> None:
        node = map_nodes(node, _weigh_each_row_once)
        found = answer(node, lambda scan: _table(scan, *read(scan)), _schema(node.columns, node.signed))
        if found is None:
            self.left += 1
            return
        self.answered += 1
        self.signed += node.signed
        self.empty += not expected
        self.operators.update({type(part).__name__ for part in node.walk()})
        try:
            same("DuckDB", _bag(found, node.signed), expected)
        except AssertionError as error:
            raise Differs(f"{error}\n{tree(node)}") from None


def _weigh_each_row_once(node: Node) -> Node:
    """A query weighs rows as they come, one by one or several as one; only afterwards are they added up. The interpreter has
    each row once at any time. So has the compared query where weights become values."""
    if isinstance(node, Weigh) and not isinstance(node.input, Consolidate):
        return replace(node, input=Consolidate(node.input))
    return node


def _schema(columns: tuple[Column, ...], signed: bool) -> pa.Schema:
    schema = hidden_schema(columns)
    return types.arrow_schema(types.with_weight(schema) if signed else schema)


def _table(scan: Scan, fields: tuple[str, ...], bag: Bag) -> pa.Table:
    """What a scan reads: each row with its weight if it is signed, else as often as it counts."""
    places = [fields.index(name) for name in scan.fields]
    rows = [(tuple(row[place] for place in places), n) for row, n in bag.items()]
    flat = [(*row, n) for row, n in rows] if scan.signed else [row for row, n in rows for _ in range(n)]
    schema = _schema(scan.output, scan.signed)
    columns = zip(*flat, strict=True) if flat and len(schema) else ((),) * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _bag(table: pa.Table, signed: bool) -> Bag:
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return bag_of((row[:-1], row[-1]) for row in rows) if signed else bag_of((row, 1) for row in rows)


def compared_memory(comparison: Comparison) -> type[Memory]:
    """Relations in memory whose queries are compared."""

    class ComparedMemory(Memory):
        def evaluate(
            self, queries: Mapping[str, Node], made: Mapping[str, MemoryRelation]
        ) -> dict[str, MemoryRelation]:
            found = super().evaluate(queries, made)

            def read(scan: Scan) -> tuple[tuple[str, ...], Bag]:
                if scan.table in made:
                    return made[scan.table].fields, made[scan.table].bag
                return self.fields[scan.table], self.table(scan.table, scan.at).bag

            for name, node in queries.items():
                comparison.compare(node, read, found[name].bag)
            return found

    return ComparedMemory


def try_view(number: int, comparison: Comparison) -> None:
    """Build and maintain the random view of a number."""
    scenario = case(number)
    check(scenario.plan, scenario.database, scenario.changed, by=comparison.evaluate)


def try_program(number: int, comparison: Comparison) -> None:
    """Build and maintain the random program of a number."""
    made = random_program(Random(number), Shape(changes=3))
    program = parse_program(made.text, made.tables)
    maintained = MaintainedProgram(program, made.facts, make=compared_memory(comparison), by=comparison.evaluate)
    for change in made.changes:
        maintained.apply(change)


@dataclass
class Tried:
    """The outcome of a run."""

    comparison: Comparison = field(default_factory=Comparison)
    cases: int = 0
    programs: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        seen = self.comparison
        return (
            f"{seen.answered:,} queries answered by DuckDB and the interpreter ({seen.signed:,} changes, {seen.empty:,} "
            f"without rows), {seen.left:,} left to Spark, of {self.cases:,} views and programs ({self.programs:,}); "
            f"{len(self.failures)} differ; {self.seconds:.0f} s"
        )


def run(queries: int, seed: int = 0, say: Callable[[str], None] = lambda _: None) -> Tried:
    """Cases of a seed until DuckDB has answered so many queries, or some answers differ."""
    tried, began = Tried(), perf_counter()
    said = 0
    while tried.comparison.answered < queries and len(tried.failures) < MOST_FAILURES:
        number = seed * CASES_OF_A_SEED + tried.cases
        is_program = tried.cases % PROGRAM_EVERY == PROGRAM_EVERY - 1
        try:
            (try_program if is_program else try_view)(number, tried.comparison)
        except Differs as error:
            tried.failures.append((f"{'program' if is_program else 'view'} {number}", str(error)))
        tried.cases += 1
        tried.programs += is_program
        tried.seconds = perf_counter() - began
        if tried.comparison.answered - said >= SAID_EVERY:
            said = tried.comparison.answered
            say(str(tried))
    return tried


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m nabla.dev.testing.fuzz_duckdb", description=__doc__)
    parser.add_argument("--queries", type=int, default=100_000, help="queries that DuckDB answers; default: 100000")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    tried = run(options.queries, options.seed, say)
    say(str(tried))
    shares = ", ".join(f"{name} {count:,}" for name, count in tried.comparison.operators.most_common())
    say(f"queries with each operator: {shares}")
    for name, message in tried.failures:
        say(f"{name}: {message}")
    return 1 if tried.failures else 0


if __name__ == "__main__":
    sys.exit(main())
