"""`python -m nabla.dev.testing.fuzz_answers [--matches N] [--spark]`: queries answered from views, against the queries.

Random views over tables with NULLs, duplicates and wrong declared keys, half of them with a pending change; queries that are
weaker than a view, and queries that differ from one. Every answer must be the plain query's bag. It prints how often each rule
of matching was used, and the share of weaker queries that were answered; it ends with 1 if an answer is wrong, a rule was never
used, or the share is below 95 %.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Node, Project, Scan
from nabla.algebra.reference.interpreter import Bag, Database, added, evaluate
from nabla.algebra.traverse import map_nodes
from nabla.answer.answers import ViewIndex, find_answer
from nabla.answer.stored_view import StoredView
from nabla.calculus.delta import Derivation
from nabla.dev.testing.random_answers import Answers, Spec
from nabla.dev.testing.random_data import Table
from nabla.dev.testing.random_plans import reading
from nabla.dev.testing.random_star import proofs_of, random_star, random_star_database

RULES = (
    *("equal", "same plan", "same groups", "same having", "contained", "filter", "equal columns", "roll up"),
    *("roll up sum", "roll up count", "roll up avg", "roll up min", "roll up max", "weighted sum"),
    *("count distinct from keys", "extreme of keys", "groups over a view of rows", "join back"),
    *("lossless join", "lossless outer join", "same outer join", "outer join made inner"),
    *(
        "view joined with tables",
        "groups joined with tables",
        "several views",
        "union",
        "union of groups",
        "view over view",
    ),
)
"""Every rule of matching."""
_ONLY_IN_MEMORY = ("view over view", "several views", "equal")
"""Rules that the views of random lakes are too few for."""
QUERIES = 12
"""Queries for each random database and its views."""
LEAST_SHARE = 0.95


@dataclass
class Findings:
    """What some cases have shown."""

    queries: int = 0
    matches: int = 0
    weaker: int = 0
    weaker_answered: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        self.queries += other.queries
        self.matches += other.matches
        self.weaker += other.weaker
        self.weaker_answered += other.weaker_answered
        self.fired += other.fired
        self.reasons += other.reasons
        self.wrong += other.wrong
        self.missed += other.missed[: max(0, 20 - len(self.missed))]

    @property
    def share(self) -> float:
        return self.weaker_answered / max(1, self.weaker)


def try_case(seed: int) -> Findings:
    """One database with up to three views, and queries over it."""
    rng = Random(seed)
    schema = random_star(rng)
    database = random_star_database(rng, schema)
    answers = Answers(rng, schema)
    specs = [answers.view() for _ in range(rng.choice((1, 1, 2, 3)))]
    views = [StoredView(f"v{i}", s.plan(schema), _fields(s)) for i, s in enumerate(specs)]
    contents = {v.name: _content(rng, v, database) for v in views}
    stored = Database(
        {**database.fields, **{v.name: v.fields for v in views}}, database.before, {**database.after, **contents}
    )
    chained = _view_over_view(answers, views[0], stored) if rng.random() < 0.3 else None
    if chained is not None:
        over, stored = chained
        views.append(over)
    index, proofs = ViewIndex(views), proofs_of(database)
    findings = Findings()
    for number in range(QUERIES):
        place = rng.randrange(len(specs))
        weak = rng.random() < 0.5
        spec = answers.weaker(specs[place]) if weak else answers.changed(specs[place])
        plan = spec.plan(schema)
        if chained is not None and number == 0:
            plan, weak = _unfold(views[-1], views[0]), False
        where = f"seed {seed}, query {number}"
        try:
            found = find_answer(plan, index, proofs, cheaper_only=False)
            findings.queries += 1
            findings.fired.update(found.fired)
            findings.reasons.update(r.code for r in found.reasons)
            if weak:
                findings.weaker += 1
                findings.weaker_answered += bool(found.views)
                if not found.views:
                    findings.missed.append(f"{where}: {'; '.join(map(str, found.reasons))}")
            if not found.views:
                continue
            findings.matches += 1
            right, got = evaluate(plan, stored), evaluate(found.plan, stored)
            if right != got:
                findings.wrong.append(f"{where}: {sorted(found.fired)}: {got} instead of {right}"[:600])
            if [(c.name, c.type) for c in plan.columns] != [(c.name, c.type) for c in found.plan.columns]:
                findings.wrong.append(f"{where}: {found.plan.columns} instead of {plan.columns}")
        except Exception as error:
            findings.wrong.append(f"{where}: {type(error).__name__}: {error}"[:600])
    return findings


def _fields(spec: Spec) -> tuple[str, ...]:
    return tuple(f"{o.column.label}_{i}" for i, o in enumerate(spec.shown))


def _content(rng: Random, view: StoredView, database: Database) -> Bag:
    """The rows of a view: as computed, or as it was before a change, with its pending change added."""
    changed = frozenset(t for t in database.fields if database.delta(t))
    pending = Derivation(changed).d(view.plan) if changed and rng.random() < 0.5 else None
    if pending is None:
        return evaluate(view.plan, database)
    return added(evaluate(reading(view.plan, At.OLD), database), evaluate(pending, database))


def _view_over_view(answers: Answers, view: StoredView, stored: Database) -> tuple[StoredView, Database] | None:
    """A view that reads another one, and the database with its content."""
    columns = tuple(Column(f, c.type, c.nullable) for f, c in zip(view.fields, view.plan.columns, strict=True))
    table = Table(view.name, columns)
    spec = answers.over(table)
    if spec is None:
        return None
    over = StoredView("w", spec.plan((table,)), _fields(spec))
    after = {**stored.after, "w": evaluate(over.plan, stored)}
    return over, Database({**stored.fields, "w": over.fields}, stored.before, after)


def _unfold(view: StoredView, inner: StoredView) -> Node:
    """The plan of a view with that of the view that it reads."""

    def change(node: Node) -> Node:
        if not isinstance(node, Scan) or node.table != inner.name:
            return node
        by_field = dict(zip(inner.fields, inner.plan.columns, strict=True))
        return Project(
            inner.plan, tuple(Named(c, by_field[f].ref) for c, f in zip(node.output, node.fields, strict=True))
        )

    return map_nodes(view.plan, change)


def _block(seeds: tuple[int, int]) -> Findings:
    findings = Findings()
    for seed in range(*seeds):
        findings.add(try_case(seed))
    return findings


def fuzz(matches: int, first: int = 0, processes: int | None = None, most_wrong: int = 20) -> Findings:
    """Cases from a seed on, until so many queries were answered from views."""
    findings, seed, block = Findings(), first, 50
    workers = processes or os.cpu_count() or 1
    if workers == 1:
        while findings.matches < matches and len(findings.wrong) < most_wrong:
            findings.add(_block((seed, seed + block)))
            seed += block
        return findings
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        while findings.matches < matches and len(findings.wrong) < most_wrong:
            blocks = [(seed + i * block, seed + (i + 1) * block) for i in range(4 * workers)]
            seed += 4 * workers * block
            for found in pool.map(_block, blocks):
                findings.add(found)
    return findings


def report(findings: Findings, rules: tuple[str, ...], seconds: float) -> int:
    write = sys.stdout.write
    write(
        f"{findings.queries:,} queries, {findings.matches:,} answered, {len(findings.wrong)} wrong, {seconds:.0f} s\n"
    )
    write(f"weaker queries answered: {findings.share:.2%} of {findings.weaker:,}\n")
    for rule in rules:
        write(f"  {rule:<28} {findings.fired[rule]:>8,}\n")
    for code, number in findings.reasons.most_common():
        write(f"  {code:<28} {number:>8,}\n")
    for text in findings.wrong[:20]:
        write(f"WRONG {text}\n")
    unused = [rule for rule in rules if not findings.fired[rule]]
    if unused:
        write(f"never used: {', '.join(unused)}\n")
    return 1 if findings.wrong or unused or findings.share < LEAST_SHARE else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m nabla.dev.testing.fuzz_answers", description=__doc__)
    parser.add_argument("--matches", type=int, help="answers to check; default: 50000, and 3000 on Spark")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, help="default: as many as there are cores")
    parser.add_argument("--missed", action="store_true", help="show some weaker queries that were not answered")
    parser.add_argument("--spark", action="store_true", help="in lakes, on Spark")
    options = parser.parse_args(arguments)
    began = perf_counter()
    if options.spark:
        from nabla.dev.testing.lake_answers import fuzz_in_lakes  # which needs Java

        findings = fuzz_in_lakes(options.matches or 3000, options.first)
    else:
        findings = fuzz(options.matches or 50_000, options.first, options.processes)
    if options.missed:
        for text in findings.missed[:20]:
            sys.stdout.write(f"missed {text}\n")
    rules = tuple(rule for rule in RULES if rule not in _ONLY_IN_MEMORY) if options.spark else RULES
    return report(findings, rules, perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
