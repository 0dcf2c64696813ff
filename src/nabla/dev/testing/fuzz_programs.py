"""Random programs against the specification: `python -m nabla.dev.testing.fuzz_programs --programs 5000 --seed 0`.

For each program, facts and changes: evaluation from scratch, the change by maintenance (calculus and fixpoint loop), the
change by delta rules, the answers to random questions and the violations of random denials, before a change is committed,
must be what naive evaluation says, and every change minimal.
With `--engine spark` the programs are created and refreshed in lakes (see `lake_programs`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from nabla.algebra.expressions import Column
from nabla.dev.testing.maintained_programs import MaintainedProgram, SetChange, by_delta_rules
from nabla.dev.testing.random_programs import NUMBERS, TEXTS, RandomProgram, Row, Shape, random_program
from nabla.frontends.datalog.denials import Denial
from nabla.frontends.datalog.evaluate import evaluate_in_memory, memory_of
from nabla.frontends.datalog.magic import ask_in_memory
from nabla.frontends.datalog.naive import naive
from nabla.frontends.datalog.program import Program, parse_program
from nabla.frontends.datalog.syntax import VIOLATION

DENIALS = 2
"""Denials of a program."""


@dataclass
class ProgramTally:
    """The counts of a run, and its failures."""

    programs: int = 0
    recursive: int = 0
    cases: int = 0
    changed_predicates: int = 0
    questions: int = 0
    denials: int = 0
    held: int = 0
    violated: int = 0

    def __str__(self) -> str:
        return (
            f"{self.programs:,} programs ({self.recursive:,} recursive), {self.cases:,} changes of their tables, "
            f"{self.changed_predicates:,} predicates changed, {self.questions:,} questions, "
            f"{self.denials:,} denials asked after a change, {self.held:,} of which held before and "
            f"{self.violated:,} of these were violated"
        )


def check(made: RandomProgram, rng: Random, tally: ProgramTally) -> None:
    """Raises AssertionError where anything differs from the specification."""
    program = parse_program(made.text, made.tables)
    expected = naive(program, made.facts)
    _same("from scratch", evaluate_in_memory(program, made.facts), expected)
    for predicate in program.predicates:
        _check_question(program, made, predicate, expected[predicate], rng)
        tally.questions += 1
    maintained = MaintainedProgram(program, made.facts)
    denials = [_random_denial(program, made, rng) for _ in range(DENIALS)]
    now = {name: Counter(rows) for name, rows in made.facts.items()}
    for change in made.changes:
        before = dict(now)
        for name, (inserts, deletes) in change.items():
            now[name] = now[name] - Counter(deletes) + Counter(inserts)
        after = naive(program, {name: list(rows) for name, rows in now.items()})
        found = maintained.apply(change)
        for predicate in program.predicates:
            old, new = expected[predicate], after[predicate]
            minimal = SetChange(new - old, old - new)
            _same(f"the change of {predicate}", found.get(predicate, SetChange()), minimal)
            if not program.recursive(predicate):
                _same(f"delta rules of {predicate}", by_delta_rules(maintained, predicate, found), minimal)
            tally.changed_predicates += new != old
        for denial in denials:
            _check_denial(denial, before, now, tally)
        expected = after
        tally.cases += 1
    tally.programs += 1
    tally.recursive += any(stratum.recursive for stratum in program.strata)


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{what}: found {found}, expected {expected}")


def _check_question(program: Program, made: RandomProgram, predicate: str, rows: frozenset[Row], rng: Random) -> None:
    columns = program.columns(predicate)
    arguments = [_argument(column, columns, rng) for column in columns]
    text = f"{predicate}({', '.join(arguments)})"
    expected = frozenset(row for row in rows if _matches(arguments, row))
    _same(f"the answer to {text}", ask_in_memory(program, made.facts, text), expected)


def _random_denial(program: Program, made: RandomProgram, rng: Random) -> Denial:
    """A denial about one or two predicates or tables of a program, the second sometimes negated."""
    known: set[str] = set()

    def argument(kind: str, negated: bool) -> str:
        if rng.random() < 0.4:
            return f'"{rng.choice(TEXTS)}"' if kind == "string" else str(rng.choice(NUMBERS))
        name = f"{rng.choice('XY')}_{kind}"
        if negated and name not in known:
            return "_"
        known.add(name)
        return name

    atoms = []
    for place in range(rng.randint(1, 2)):
        predicate, negated = rng.choice((*program.predicates, *program.tables)), place > 0 and rng.random() < 0.3
        given = ", ".join(argument(column.type, negated) for column in program.columns(predicate))
        atoms.append(f"{'not ' if negated else ''}{predicate}({given})")
    return Denial(parse_program(f"{made.text}\n:- {', '.join(atoms)}.", made.tables, denies=True))


def _check_denial(
    denial: Denial, before: Mapping[str, Counter[Row]], now: Mapping[str, Counter[Row]], tally: ProgramTally
) -> None:
    """The violations that are found before a change is committed are those that naive evaluation finds after it."""
    text = denial.program.text.splitlines()[-1]
    expected = naive(denial.program, {name: list(rows) for name, rows in now.items()})[VIOLATION]
    memory = memory_of(denial.program, {name: list(rows.elements()) for name, rows in before.items()})
    memory.after |= {name: Counter(rows) for name, rows in now.items() if name in denial.program.tables}
    _same(f"the violations of {text}", denial.violations(memory, []).set, expected)
    tally.denials += 1
    if not naive(denial.program, {name: list(rows) for name, rows in before.items()})[VIOLATION]:
        changed = [name for name in denial.program.tables if before[name] != now[name]]
        _same(f"the new violations of {text}", denial.new_violations(memory, changed, []).set, expected)
        tally.held += 1
        tally.violated += bool(expected)


def _argument(column: Column, columns: Sequence[Column], rng: Random) -> str:
    roll = rng.random()
    if roll < 0.5:
        return f'"{rng.choice(TEXTS)}"' if column.type == "string" else str(rng.choice(NUMBERS))
    if roll < 0.55:
        return "null"
    alike = len({c.type for c in columns}) == 1
    return rng.choice(("X", "Y", "_")) if alike else "_"


def _matches(arguments: Sequence[str], row: Row) -> bool:
    bound: dict[str, object] = {}
    for argument, value in zip(arguments, row, strict=True):
        if argument in ("X", "Y"):
            if bound.setdefault(argument, value) != value:
                return False
        elif argument != "_" and value != {"null": None}.get(argument, _constant(argument)):
            return False
    return True


def _constant(text: str) -> object:
    return text.strip('"') if not text.isdecimal() else int(text)


def run(programs: int, seed: int, tally: ProgramTally, shape: Shape) -> int:
    """Checks programs of consecutive seeds; returns how many failed."""
    failed = 0
    for number in range(seed, seed + programs):
        made = random_program(Random(number), shape)
        try:
            check(made, Random(number), tally)
        except Exception as error:
            failed += 1
            print(f"seed {number}: {type(error).__name__} {error}\n{made.text}\n{made.facts}\n{made.changes}\n")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--changes", type=int, default=4, help="changes of each program's tables, one after the other")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=("interpreter", "spark"), default="interpreter")
    given = parser.parse_args()
    shape, begun = Shape(changes=given.changes), time.perf_counter()
    if given.engine == "spark":
        from nabla.dev.testing import lake_programs

        seen = lake_programs.LakeTally()
        seeds = range(given.seed, given.seed + given.programs)
        faults = lake_programs.run(seeds, shape, seen, progress=lambda: print(seen, file=sys.stderr, flush=True))
        print(*faults, f"{seen}; {len(faults)} failed; {time.perf_counter() - begun:.0f} s", sep="\n")
        sys.exit(bool(faults))
    tally = ProgramTally()
    failed = run(given.programs, given.seed, tally, shape)
    print(f"{tally}; {failed} failed; {time.perf_counter() - begun:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
