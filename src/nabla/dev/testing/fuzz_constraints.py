"""Random constraints and transactions: `python -m nabla.dev.testing.fuzz_constraints --cases 20000 --seed 0`.

A case is a random schema with a few constraints, and transactions one after the other. Each constraint is checked from
the change, as a transaction does before it commits, and from scratch: the violations must be the same rows. A transaction
that violates a constraint which held before is refused, and the next one starts from the state before it. With
`--engine spark` the same is done to lakes (see `lake_constraints`), and `--cases` counts transactions.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from random import Random

from nabla.algebra.nodes import Node
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate
from nabla.calculus.stages import cut
from nabla.dev.testing.maintained import build, maintain, same
from nabla.dev.testing.random_constraints import random_constraint
from nabla.dev.testing.random_data import RandomSizes, Schema, next_database, random_bag, random_schema

SIZES = RandomSizes(tables=3, columns=3, rows=5, operations=3, depth=3, scans=3)
TRANSACTIONS = 4


@dataclass
class ConstraintTally:
    """The counts of a run, and its failures."""

    cases: int = 0
    checks: int = 0
    committed: int = 0
    refused: int = 0
    warned: int = 0

    def __str__(self) -> str:
        return (
            f"{self.cases:,} cases, {self.checks:,} checks of constraints, {self.committed:,} transactions committed, "
            f"{self.refused:,} refused, {self.warned:,} more with violations that were there before"
        )


class Kept:
    """A constraint as a lake keeps it: its violations and the states of its stages."""

    def __init__(self, plan: Node, database: Database) -> None:
        self.plan = plan
        self.staged = cut(plan)
        self.violations, self.states = build(self.staged, database)
        self.rejects = not self.violations

    def after(self, database: Database, changed: frozenset[str]) -> tuple[Bag, dict[str, Bag]]:
        """The violations and states that a change leaves, found from the change."""
        outcome = maintain(self.staged, database, self.states, changed, self.violations)
        return added(self.violations, outcome.change), outcome.states


def check(seed: int, tally: ConstraintTally) -> None:
    """Raises AssertionError where a check from the change and one from scratch differ."""
    rng = Random(seed)
    schema = random_schema(rng, SIZES)
    database = _first(rng, schema)
    kept = [Kept(random_constraint(rng, schema, SIZES), database) for _ in range(rng.randint(1, 3))]
    for _ in range(TRANSACTIONS):
        proposed = next_database(rng, schema, database, SIZES)
        changed = frozenset(table.name for table in schema if proposed.delta(table.name))
        found = [constraint.after(proposed, changed) for constraint in kept]
        for constraint, (violations, _) in zip(kept, found, strict=True):
            same("the violations", violations, evaluate(constraint.plan, proposed))
            tally.checks += 1
        if any(constraint.rejects and violations for constraint, (violations, _) in zip(kept, found, strict=True)):
            tally.refused += 1
            continue
        tally.committed += 1
        tally.warned += any(violations for violations, _ in found)
        database = proposed
        for constraint, (violations, states) in zip(kept, found, strict=True):
            constraint.violations, constraint.states = violations, states
    tally.cases += 1


def _first(rng: Random, schema: Schema) -> Database:
    """Half of the databases begin empty: there, most constraints hold."""
    empty = rng.random() < 0.5
    bags = {table.name: Counter() if empty else random_bag(rng, table, SIZES.rows) for table in schema}
    return Database({table.name: table.fields for table in schema}, bags, bags)


def run(cases: int, seed: int, tally: ConstraintTally) -> int:
    """Checks cases of consecutive seeds; returns how many failed."""
    failed = 0
    for number in range(seed, seed + cases):
        try:
            check(number, tally)
        except Exception as error:
            failed += 1
            print(f"seed {number}: {type(error).__name__} {error}")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000, help="cases, or transactions on Spark (1000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same cases (0)")
    parser.add_argument("--engine", choices=("interpreter", "spark"), default="interpreter")
    given = parser.parse_args()
    begun = time.perf_counter()
    if given.engine == "spark":
        from nabla.dev.testing import lake_constraints

        seen = lake_constraints.LakeTally()
        faults = lake_constraints.run(given.cases, given.seed, seen)
        print(*faults, f"{seen}; {len(faults)} failed; {time.perf_counter() - begun:.0f} s", sep="\n")
        sys.exit(bool(faults))
    tally = ConstraintTally()
    failed = run(given.cases, given.seed, tally)
    print(f"{tally}; {failed} failed; {time.perf_counter() - begun:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
