"""The simulation as a command: `python -m nabla.dev.simulate --seconds 60 --seed 1`, or `--schedules 100000`.

Several processes work on one lake, in an order that the seed chooses at every file operation, on a machine where operations
fail, processes die and the power goes. A schedule that violates an invariant is made small and printed as a script. The exit
status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nabla.dev.simulate.run import Stage
from nabla.dev.simulate.schedule import Schedule, random_schedule, script_of, smaller
from nabla.dev.testing.fuzz.budget import Budget
from nabla.dev.testing.fuzz.shrinking import shrink

BLOCK = 50
TOLD_EVERY = 30.0
"""Seconds between two lines of progress."""


@dataclass
class Found:
    """How many schedules were run, and those that violate an invariant, one for each place where that was noticed."""

    schedules: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failing: dict[str, tuple[int, Schedule, str]] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        self.schedules += other.schedules
        self.faults += other.faults
        self.failing = {**other.failing, **self.failing}


def run_block(seed: int, first: int, count: int, syncs: bool = True) -> Found:
    """Consecutive schedules of a seed."""
    found = Found()
    with Stage(syncs) as stage:
        for number in range(first, first + count):
            schedule = random_schedule(seed, number)
            violation = stage.play(schedule).violation
            found.schedules += 1
            found.faults.update(fault.kind for fault in schedule.faults)
            if violation:
                found.failing.setdefault(_place(violation), (number, schedule, violation))
    return found


def run(
    seed: int, budget: Budget, jobs: int, first: int = 0, tell: Callable[[Found], None] = lambda found: None
) -> Found:
    """Schedules of a seed, from number `first` on, in `jobs` processes. `tell` hears what was found so far."""
    found = Found()
    blocks = ((seed, *block) for block in budget.blocks(first, BLOCK))
    if jobs == 1:
        for block in blocks:
            found.add(run_block(*block))
            tell(found)
        return found
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=100) as pool:
        running = [pool.apply_async(run_block, block) for block, _ in zip(blocks, range(2 * jobs), strict=False)]
        while running:
            found.add(running.pop(0).get())
            tell(found)
            following = next(blocks, None)
            if following is not None:
                running.append(pool.apply_async(run_block, following))
    return found


def make_small(schedule: Schedule, violation: str, seconds: float = 60.0, syncs: bool = True) -> Schedule:
    """A smaller schedule that violates the same invariant at the same place."""
    with Stage(syncs) as stage:
        return shrink(
            schedule, smaller, lambda s: _place(stage.play(s).violation) == _place(violation), lambda s: s.size, seconds
        )


def _place(violation: str) -> str:
    """What tells violations apart: the kind of the error, the first words of its message, and where it was raised."""
    lines = violation.splitlines()
    return f"{lines[0].split(': found')[0][:60]} {lines[-1]}" if lines else ""


class Progress:
    """Says on standard error, every now and then, how far a run is."""

    def __init__(self) -> None:
        self._start = self._told = time.monotonic()

    def __call__(self, found: Found) -> None:
        now = time.monotonic()
        if now - self._told >= TOLD_EVERY:
            self._told = now
            sys.stderr.write(
                f"{found.schedules} schedules in {now - self._start:.0f} s, {len(found.failing)} violations\n"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="how long (60, unless schedules are counted)")
    parser.add_argument("--schedules", type=int, help="how many schedules")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other schedules (0)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first schedule (0)")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="processes (one a core)")
    parser.add_argument("--out", type=Path, help="a folder for the scripts of schedules that fail")
    given = parser.parse_args()
    seconds = 60.0 if given.seconds is None and given.schedules is None else given.seconds
    start = time.monotonic()
    found = run(given.seed, Budget(seconds, given.schedules), given.jobs, given.first, Progress())
    took = time.monotonic() - start
    for number, schedule, violation in found.failing.values():
        script = script_of(make_small(schedule, violation), violation)
        sys.stdout.write(f"schedule {number} of seed {given.seed}\n{script}\n")
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"schedule_{given.seed}_{number}.py").write_text(script, encoding="utf-8")
    faults = ", ".join(f"{n} {kind}" for kind, n in sorted(found.faults.items()))
    sys.stdout.write(
        f"{found.schedules} schedules in {took:.0f} s ({found.schedules / took:.0f} a second), faults planned: {faults}; "
        f"{len(found.failing)} violations\n"
    )
    sys.exit(bool(found.failing))
