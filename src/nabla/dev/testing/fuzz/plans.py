"""The fuzzer without a JVM: random plans, maintained and recomputed by the interpreter, in several processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from random import Random

from nabla.algebra.json import to_data
from nabla.algebra.nodes import At, Scan
from nabla.algebra.reference.interpreter import Bag, Database
from nabla.dev.testing.fuzz.budget import Budget
from nabla.dev.testing.fuzz.plan_edits import smaller_plans
from nabla.dev.testing.fuzz.shrinking import shrink, without_some
from nabla.dev.testing.maintained import check
from nabla.dev.testing.random_data import RandomSizes, Schema, Table
from nabla.dev.testing.random_plans import ALL, CORE, Scenario, random_scenario, reading

BLOCK = 50
SHRUNK = 3
"""So many failing cases are made small: most often they have one cause."""
CASES_OF_A_SEED = 100_000_000
"""The cases of seed S are numbered from S times this: no two seeds share a case."""


def case(number: int) -> Scenario:
    """The random case of a number: small and large ones, over all operators or the common ones alone."""
    rng = Random(number)
    sizes = RandomSizes(rows=rng.choice((2, 4, 6, 8)), depth=rng.choice((2, 2, 3, 3, 4)))
    return random_scenario(number, ALL if rng.random() < 0.8 else CORE, sizes)


def failure(scenario: Scenario) -> str | None:
    """The fault in the maintenance of this view, if there is one: a difference, or an error on the way."""
    try:
        check(scenario.plan, scenario.database, scenario.changed)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@dataclass
class FoundPlan:
    """A failing case and its smallest form."""

    number: int
    what: str
    small: Scenario


@dataclass
class PlanFindings:
    """The outcome of some cases: their number, their operators, and the failures."""

    cases: int = 0
    seconds: float = 0.0
    operators: Counter[str] = field(default_factory=Counter)
    failing: dict[int, str] = field(default_factory=dict)
    found: list[FoundPlan] = field(default_factory=list)

    def add(self, other: PlanFindings) -> None:
        self.cases += other.cases
        self.operators += other.operators
        self.failing |= other.failing


def run_block(first: int, count: int) -> PlanFindings:
    findings = PlanFindings(cases=count)
    for number in range(first, first + count):
        scenario = case(number)
        findings.operators.update({type(node).__name__ for node in scenario.plan.walk()})
        what = failure(scenario)
        if what is not None:
            findings.failing[number] = what
    return findings


def run(
    seed: int,
    budget: Budget,
    jobs: int | None = None,
    progress: Callable[[PlanFindings], None] = lambda _: None,
    announce: Callable[[str], None] = lambda _: None,
) -> PlanFindings:
    """Cases of a seed, as many as the budget allows, on all cores; stops at the first block that has failing ones."""
    begun = time.monotonic()
    total = PlanFindings()
    for findings in _blocks(seed * CASES_OF_A_SEED, budget, jobs or os.cpu_count() or 1):
        total.add(findings)
        total.seconds = time.monotonic() - begun
        progress(total)
        if total.failing:
            break
    for number, what in list(total.failing.items())[:SHRUNK]:
        announce(f"plan {number} fails: {what[:200]}; making it small")
        total.found.append(FoundPlan(number, what, shrunk(case(number))))
    return total


def _blocks(first: int, budget: Budget, jobs: int) -> Iterator[PlanFindings]:
    if jobs == 1:
        for start, count in budget.blocks(first, BLOCK):
            yield run_block(start, count)
        return
    # Started afresh, not forked: a JVM in this process does not survive a fork.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting: set[Future[PlanFindings]] = set()
        try:
            for start, count in budget.blocks(first, BLOCK):
                waiting.add(pool.submit(run_block, start, count))
                if len(waiting) > jobs:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in done)
            yield from (future.result() for future in waiting)
        finally:
            pool.shutdown(cancel_futures=True)


def shrunk(scenario: Scenario, seconds: float = 60.0) -> Scenario:
    """The smallest scenario that fails in the same way."""
    kind = _kind(failure(scenario))
    return shrink(scenario, _smaller, lambda s: _kind(failure(s)) == kind, _size, seconds)


def _kind(what: str | None) -> str | None:
    return what and what.split(":")[0]


def _size(scenario: Scenario) -> int:
    rows = sum(bag.total() for state in (scenario.database.before, scenario.database.after) for bag in state.values())
    columns = sum(len(table.columns) for table in scenario.schema)
    return len(json.dumps(to_data(scenario.plan))) + 20 * rows + 20 * columns


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    for plan in smaller_plans(scenario.plan):
        yield replace(scenario, plan=plan)
    yield from _with_fewer_rows(scenario)
    yield from _with_fewer_columns(scenario)


def _with_fewer_rows(scenario: Scenario) -> Iterator[Scenario]:
    """Rows go before and after, or their change goes, or all but one of their copies."""
    database = scenario.database
    for table in scenario.schema:
        old, new = database.before[table.name], database.after[table.name]
        rows = list(old | new)
        for kept in without_some(rows):
            yield _with_states(scenario, table.name, _only(old, kept), _only(new, kept))
        for changing in without_some([row for row in rows if old[row] != new[row]]):
            after = Counter({row: new[row] if row in changing else old[row] for row in rows})
            yield _with_states(scenario, table.name, old, +after)
        for row in rows:
            yield _with_states(scenario, table.name, _once(old, row), _once(new, row))


def _only(bag: Bag, rows: list[tuple[object, ...]]) -> Bag:
    return Counter({row: bag[row] for row in rows if bag[row]})


def _once(bag: Bag, row: tuple[object, ...]) -> Bag:
    return Counter(bag) if bag[row] < 2 else Counter({**bag, row: 1})


def _with_states(scenario: Scenario, table: str, old: Bag, new: Bag) -> Scenario:
    database = scenario.database
    changed = Database(database.fields, {**database.before, table: old}, {**database.after, table: new})
    return replace(scenario, database=changed)


def _with_fewer_columns(scenario: Scenario) -> Iterator[Scenario]:
    """Tables and columns that the plan does not read."""
    scans = [node for node in reading(scenario.plan, At.NEW).walk() if isinstance(node, Scan)]
    used = {(scan.table, name) for scan in scans for name in scan.fields}
    schema: Schema = tuple(
        Table(t.name, tuple(c for c in t.columns if (t.name, c.name) in used))
        for t in scenario.schema
        if any(table == t.name for table, _ in used)
    )
    fields = scenario.database.fields
    states: tuple[dict[str, Bag], dict[str, Bag]] = ({}, {})
    for table in schema:
        places = [fields[table.name].index(name) for name in table.fields]
        for state, bags in zip(states, (scenario.database.before, scenario.database.after), strict=True):
            state[table.name] = Counter()
            for row, n in bags[table.name].items():
                state[table.name][tuple(row[place] for place in places)] += n
    yield replace(scenario, schema=schema, database=Database({t.name: t.fields for t in schema}, *states))
