"""Random histories of writes: `python -m nabla.dev.testing.fuzz_writes --histories 5000 --seed 1`.

A history that fails is told by its seed, and `--histories 1 --seed` makes it again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from random import Random

from nabla.dev.testing.write_histories import History, Tally
from nabla.storage import machine, rewrite
from nabla.storage.machine import Machine

OPERATIONS = 6
SMALL = 8
"""Rows of a file from which on deleted rows are marked, in these histories: files of a few rows are as good as large ones."""


def check(seed: int, tally: Tally, operations: int = OPERATIONS) -> None:
    """One history. AssertionError where a law does not hold."""
    rng = Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="nabla-writes-"))
    before, rewrite.MARKED_FROM = rewrite.MARKED_FROM, rng.choice((SMALL, 1))
    try:
        with machine.use(Machine(syncs=False)):
            History(folder / "lake", rng, tally).run(operations)
    finally:
        rewrite.MARKED_FROM = before
        shutil.rmtree(folder, ignore_errors=True)


def run(histories: int, seed: int, tally: Tally) -> int:
    """Histories of consecutive seeds; returns how many failed."""
    failed = 0
    for number in range(seed, seed + histories):
        try:
            check(number, tally)
        except Exception as error:
            failed += 1
            print(f"seed {number}: {type(error).__name__} {error}", flush=True)
        if (number - seed) % 100 == 99:
            print(f"{tally}; {failed} failed", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000, help="histories (1000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same histories (0)")
    given = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)  # promises of writers that died
    begun, tally = time.perf_counter(), Tally()
    failed = run(given.histories, given.seed, tally)
    print(f"{tally}; {failed} failed; {time.perf_counter() - begun:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
