"""`python -m nabla.dev.testing.fuzz_lineage [--cases N] [--first SEED] [KIND …]`: column lineage against changed values.

The values of a column are changed, and nothing else: all columns of a view whose lineage does not name it must be as before, as
a bag of rows of just these columns. The interpreter evaluates views over tables (`plans`), views over views (`chains`), rules
(`programs`) and nested views (`nested`). It ends with 1 if a lineage misses something, and names the seed. It also says how
many of the named pairs of columns were seen to change: a lineage that names everything would miss nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from time import perf_counter
from typing import Any

from nabla.algebra.expressions import Column
from nabla.algebra.lineage import Origin, Relation, Traced, trace
from nabla.algebra.nodes import Node
from nabla.algebra.reference.evaluator import CannotEvaluate, SparkWouldFail
from nabla.algebra.reference.interpreter import Bag, Database, evaluate
from nabla.dev.testing.random_data import DEFAULT, DOMAINS, Table, random_row
from nabla.dev.testing.random_nested import random_states, random_view
from nabla.dev.testing.random_plans import ALL, random_plan, random_scenario
from nabla.dev.testing.random_programs import NUMBERS, TEXTS, random_program
from nabla.errors import NablaError
from nabla.frontends.datalog.lineage import trace_program
from nabla.frontends.datalog.naive import naive
from nabla.frontends.datalog.program import parse_program
from nabla.frontends.nested.plans import to_plan

TRIES = 6
"""Changes of a column that each view is tried with."""

Bags = Mapping[str, Bag]


class Skipped(Exception):
    """The view cannot be evaluated: Spark would fail, too, or there is nothing to change."""


@dataclass
class Pairs:
    """Pairs of a view's column and a table's column: those that lineages name, and those of them that were seen to matter."""

    named: set[tuple[int, str, Origin]] = field(default_factory=set)
    seen: set[tuple[int, str, Origin]] = field(default_factory=set)


@dataclass(frozen=True)
class Case:
    """Views to evaluate over tables with columns, and their lineages by the order of their columns."""

    seed: int
    fields: Mapping[str, tuple[str, ...]]
    bags: Bags
    views: Mapping[str, Traced]
    run: Callable[[Bags], Mapping[str, Bag]]
    other_value: Callable[[str, int, Any], Any]


def check(case: Case, rng: Random, pairs: Pairs) -> None:
    """Change columns at random, and compare the columns of views that should not notice."""
    tables = [name for name, bag in case.bags.items() if bag and case.fields[name]]
    if not tables:
        raise Skipped
    before = _evaluated(case, case.bags)
    for view, traced in case.views.items():
        pairs.named |= {(case.seed, f"{view}.{column}", o) for column in traced.columns for o in traced.all(column)}
    for _ in range(TRIES):
        table = rng.choice(tables)
        place = rng.randrange(len(case.fields[table]))
        changed = _with_other_values(case, table, place, rng)
        try:
            after = _evaluated(case, {**case.bags, table: changed})
        except Skipped:
            continue
        origin = Origin(table, case.fields[table][place])
        for view, traced in case.views.items():
            _compare(case, view, traced, origin, before[view], after[view], pairs)


def _evaluated(case: Case, bags: Bags) -> Mapping[str, Bag]:
    try:
        return case.run(bags)
    except (SparkWouldFail, CannotEvaluate, NablaError, ArithmeticError) as error:
        raise Skipped from error


def _with_other_values(case: Case, table: str, place: int, rng: Random) -> Bag:
    """The table with other values in one column of some rows, and as many rows as before."""
    changed: Bag = Counter()
    share = rng.choice((0.3, 1.0))
    for row, copies in case.bags[table].items():
        for _ in range(copies):
            value = case.other_value(table, place, row[place]) if rng.random() < share else row[place]
            changed[(*row[:place], value, *row[place + 1 :])] += 1
    return changed


def _compare(case: Case, view: str, traced: Traced, origin: Origin, before: Bag, after: Bag, pairs: Pairs) -> None:
    names = list(traced.columns)
    untouched = [place for place, name in enumerate(names) if origin not in traced.all(name)]
    if origin not in traced.rows and _projected(before, untouched) != _projected(after, untouched):
        raise AssertionError(
            f"{origin} changes {view}: {[names[p] for p in untouched]} should not depend on it; "
            f"{dict(_projected(before, untouched))} became {dict(_projected(after, untouched))}"
        )
    for place, name in enumerate(names):
        if _projected(before, [place]) != _projected(after, [place]):
            pairs.seen.add((case.seed, f"{view}.{name}", origin))


def _projected(bag: Bag, places: Sequence[int]) -> Bag:
    found: Bag = Counter()
    for row, copies in bag.items():
        found[tuple(row[place] for place in places)] += copies
    return found


# ---------------------------------------------------------------- kinds of views


def plan_case(seed: int) -> Case:
    """A view over tables."""
    scenario = random_scenario(seed, ALL)
    tables = {table.name: table for table in scenario.schema}
    traced = _in_order(scenario.plan, _nothing, tables)
    return _case(
        seed, tables, scenario.database, {"view": traced}, lambda bags: {"view": _run(scenario.plan, tables, bags)}
    )


def chain_case(seed: int) -> Case:
    """A view over a view and tables."""
    scenario = random_scenario(seed, ALL, replace(DEFAULT, depth=3))
    tables = {table.name: table for table in scenario.schema}
    shown = [(place, c) for place, c in enumerate(scenario.plan.columns) if c.type in DOMAINS]
    if not shown:
        raise Skipped
    inner = Table("v", tuple(Column(f"v{place}", c.type, c.nullable) for place, c in shown))
    rng = Random(f"chain {seed}")
    outer = random_plan(rng, (inner, *scenario.schema[:1]), ALL, replace(DEFAULT, depth=3))
    below = _in_order(scenario.plan, _nothing, tables)
    columns = [*below.columns.values()]
    known = Traced({c.name: columns[place] for c, (place, _) in zip(inner.columns, shown, strict=True)}, below.rows)
    traced = _in_order(outer, lambda name: known if name == "v" else None, tables)

    def run(bags: Bags) -> dict[str, Bag]:
        rows = _projected(_run(scenario.plan, tables, bags), [place for place, _ in shown])
        if sum(rows.values()) > 200:
            raise CannotEvaluate("too many rows")
        return {"view": _run(outer, {**tables, "v": inner}, {**bags, "v": rows})}

    return _case(seed, tables, scenario.database, {"view": traced}, run)


def program_case(seed: int) -> Case:
    """The predicates of a random program, recursive ones among them."""
    rng = Random(f"program {seed}")
    made = random_program(rng)
    program = parse_program(made.text, made.tables)
    fields = {name: tuple(column for column, _ in columns) for name, columns in made.tables.items()}
    traced = trace_program(program, _nothing, lambda table: fields[table])
    views = {name: traced[name] for name in program.predicates}
    bags = {name: Counter(rows) for name, rows in made.facts.items()}

    def run(bags: Bags) -> dict[str, Bag]:
        found = naive(program, {name: list(bag) for name, bag in bags.items()})
        return {name: Counter(found[name]) for name in views}

    def other(table: str, place: int, _: Any) -> Any:
        return rng.choice((*(TEXTS if made.tables[table][place][1] == "string" else NUMBERS), None))

    return Case(seed, fields, bags, views, run, other)


def nested_case(seed: int) -> Case:
    """A nested view; a column may be a subrelation, which is exchanged for another row's."""
    rng = Random(f"nested {seed}")
    expression, sources = random_view(rng)
    case = random_states(rng, expression, sources)
    plan = to_plan(case.expression, case.sources)
    tables = {scan.table: scan for scan in plan.scans}
    database = case.database
    fields = {name: database.fields[name] for name in tables}
    bags = {name: database.new(name) for name in tables}
    traced = _ordered(plan, trace(plan, _nothing, lambda table: fields[table]))

    def other(table: str, place: int, value: Any) -> Any:
        return rng.choice([row[place] for row in bags[table]])

    def run(changed: Bags) -> dict[str, Bag]:
        if any(len(bag) != sum(bag.values()) for bag in changed.values()):
            raise CannotEvaluate("not in partitioned normal form")
        return {"view": evaluate(plan, Database(database.fields, changed, changed))}

    return Case(seed, fields, bags, {"view": traced}, run, other)


def _case(
    seed: int,
    tables: Mapping[str, Table],
    database: Database,
    views: Mapping[str, Traced],
    run: Callable[[Bags], Mapping[str, Bag]],
) -> Case:
    rng = Random(f"values {seed}")
    fields = {name: table.fields for name, table in tables.items()}

    def other(table: str, place: int, _: Any) -> Any:
        return random_row(rng, tables[table])[place]

    return Case(seed, fields, {name: database.new(name) for name in tables}, views, run, other)


def _run(plan: Node, tables: Mapping[str, Table], bags: Bags) -> Bag:
    return evaluate(plan, Database({name: table.fields for name, table in tables.items()}, bags, bags))


def _nothing(_: str) -> Traced | None:
    return None


def _in_order(plan: Node, relation: Relation, tables: Mapping[str, Table]) -> Traced:
    return _ordered(plan, trace(plan, relation, lambda table: tables[table].fields))


def _ordered(plan: Node, traced: Traced) -> Traced:
    return Traced({c.name: traced.columns[c.name] for c in plan.columns}, traced.rows)


KINDS: Mapping[str, Callable[[int], Case]] = {
    "plans": plan_case,
    "chains": chain_case,
    "programs": program_case,
    "nested": nested_case,
}


# ---------------------------------------------------------------- the command


@dataclass
class Tried:
    """The cases of one kind."""

    kind: str
    cases: int = 0
    skipped: int = 0
    seconds: float = 0.0
    pairs: Pairs = field(default_factory=Pairs)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        pairs = f"{len(self.pairs.named):,} named pairs of columns, {len(self.pairs.seen):,} seen to change"
        return f"{self.kind:<9} {self.cases:>6,} cases, {len(self.failures)} wrong; {pairs}; {self.seconds:.0f} s"


def try_kind(kind: str, cases: int, first: int = 0, most_failures: int = 5) -> Tried:
    """Try seeds from `first` on until so many could be evaluated."""
    tried, seed, began = Tried(kind), first, perf_counter()
    while tried.cases < cases and len(tried.failures) < most_failures:
        try:
            check(KINDS[kind](seed), Random(f"changes {seed}"), tried.pairs)
            tried.cases += 1
        except Skipped:
            tried.skipped += 1
        except Exception as error:
            tried.cases += 1
            tried.failures.append((seed, f"{type(error).__name__}: {error}"[:500]))
        seed += 1
    tried.seconds = perf_counter() - began
    return tried


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m nabla.dev.testing.fuzz_lineage", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--cases", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if unknown := set(options.kinds) - KINDS.keys():
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    wrong = 0
    for kind in options.kinds or KINDS:
        tried = try_kind(kind, options.cases, options.first)
        sys.stdout.write(f"{tried}\n")
        for seed, message in tried.failures:
            sys.stdout.write(f"  seed {seed}: {message}\n")
        sys.stdout.flush()
        wrong += len(tried.failures)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
