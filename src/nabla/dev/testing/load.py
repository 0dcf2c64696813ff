"""A bank under load: `python -m nabla.dev.testing.load --seconds 60`.

Two processes write transfers (and try what the bank must refuse), one refreshes, one audits every version that it can
catch. One more is killed, again and again, in the middle of a transaction or a refresh. All invariants must hold
throughout, and at the end no acknowledged transfer may be missing or there twice.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import nabla
from nabla.dev.testing.bank import audit, embezzle, found_bank, sell_account, transfer
from nabla.storage import machine

POINTS = tuple(
    f"{point}:{visit}"
    for point, visits in {
        "files.write": (1, 2, 4, 6),
        "files.written": (1, 3, 5),
        "refresh.computed": (1, 2, 3),
        "refresh.written": (1, 2, 3),
        "commit.ready": (1, 2),
        "lake.commit": (1, 2),
        "lake.committed": (1, 2),
        "roll.part": (1, 2, 3, 5),
        "roll.done": (3, 4),
    }.items()
    for visit in visits
)
"""Points at which a process may die: while files are written, views computed, the commit made, and its promises kept."""


def write(path: str, name: str, seconds: float, acknowledged: str) -> None:
    """Transfers, until the time is over. What is acknowledged is noted after the lake has said so."""
    rng, lake, end = Random(name), nabla.open(path), time.monotonic() + seconds
    number = 0
    with open(acknowledged, "a", encoding="utf-8") as notes:
        while time.monotonic() < end:
            number += 1
            try:
                if rng.random() < 0.2:
                    embezzle(lake, f"{name}-{number}-stolen", rng)
                else:
                    transfer(lake, f"{name}-{number}", rng)
                    notes.write(f"{name}-{number}\n")
                    notes.flush()
            except nabla.Conflict:
                continue  # too many others; nothing was written


def refresh(path: str, seconds: float) -> None:
    """Computes changes ahead and refreshes, while accounts get other owners, until the time is over."""
    rng, lake, end = Random(path), nabla.open(path), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            sell_account(lake, f"owner {rng.randrange(100)}", rng)
            if rng.random() < 0.7:
                lake.propagate()
            if rng.random() < 0.7:
                lake.refresh(mode="incremental")
        except nabla.Conflict:
            continue


def read(path: str, seconds: float, audited: str) -> None:
    end, seen = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        audit(path)
        seen += 1
        Path(audited).write_text(str(seen), encoding="utf-8")


def die(path: str, point: str, seed: int) -> None:
    """A transfer, an attempt that is refused, a change that is computed ahead, a refresh, and another transfer: as far as it
    comes."""
    rng, lake = Random(seed), nabla.open(path)
    machine.arm(point)
    transfer(lake, f"dying-{seed}-{os.getpid()}", rng)
    embezzle(lake, f"dying-{seed}-{os.getpid()}-stolen", rng)
    sell_account(lake, "heir", rng)
    lake.propagate()
    transfer(lake, f"dying-{seed}-{os.getpid()}-again", rng)
    lake.refresh(mode="incremental")


def run(path: Path, seconds: float, context: SpawnContext | None = None) -> str:
    """The load on a bank that was founded; what was seen. Raises AssertionError where an invariant did not hold."""
    context = context or multiprocessing.get_context("spawn")
    notes, seen = path.parent / "acknowledged", path.parent / "audits"
    notes.touch()
    started: list[BaseProcess] = [
        *(context.Process(target=write, args=(str(path), name, seconds, str(notes))) for name in ("ann", "bob")),
        context.Process(target=refresh, args=(str(path), seconds)),
        context.Process(target=read, args=(str(path), seconds, str(seen))),
    ]
    for process in started:
        process.start()
    deaths: Counter[int | None] = Counter()
    points, end = Random(0), time.monotonic() + seconds
    while time.monotonic() < end:
        dying = context.Process(target=die, args=(str(path), points.choice(POINTS), sum(deaths.values())))
        dying.start()
        dying.join()
        deaths[dying.exitcode] += 1
    for process in started:
        process.join()
    codes = [process.exitcode for process in started]
    if any(codes) or set(deaths) - {0, 1, -signal.SIGKILL}:
        raise AssertionError(f"processes ended with {codes}, the dying ones with {dict(deaths)}")
    acknowledged = notes.read_text(encoding="utf-8").split()
    version = audit(path, acknowledged)
    audits = seen.read_text(encoding="utf-8") if seen.exists() else "0"
    return (
        f"{len(acknowledged)} transfers acknowledged, {version} versions of the lake, {audits} audits, "
        f"{deaths[-signal.SIGKILL]} processes killed; all invariants held"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    given = parser.parse_args()
    from nabla.engine.spark.session import build_session

    with tempfile.TemporaryDirectory(prefix="nabla-load-") as folder:
        path = Path(folder) / "bank"
        spark = build_session("nabla-load")
        found_bank(path, spark)
        spark.stop()
        sys.stdout.write(run(path, given.seconds) + "\n")


if __name__ == "__main__":
    main()
