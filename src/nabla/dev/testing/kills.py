"""Processes killed at any moment: `python -m nabla.dev.testing.kills --kills 1000 --seed 1`.

Two writers, a refresher, a vacuum, a housekeeper and a reader work on one bank, without Spark. Again and again one of them
gets a SIGKILL, wherever it is, and is replaced. After every kill the books are audited: no acknowledged transfer is missing
or there twice, none is there by half, every view is what its sources say, and every feed replays to its view. The reader
audits all the while.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

import nabla
from nabla.dev.testing.bank import audit, embezzle, found_bank, transfer
from nabla.dev.testing.load import refresh, write

ROLES = {"ann": 3, "bob": 3, "refresher": 2, "vacuum": 1, "housekeeper": 2, "reader": 1}
"""Who works on the bank, and how often each is killed in twelve times."""

KILLS_A_LAKE = 100
GRACE = datetime.timedelta(seconds=15)
"""How old a file is before the vacuum takes it: longer than an audit or a transaction takes on a busy machine."""

_PATIENCE = 120.0
_FOREVER = 86_400.0


def work(role: str, path: str, name: str, acknowledged: str, ready: Connection) -> None:
    """Do what a role does until the process dies. Tells when it begins."""
    nabla.open(path)
    ready.send(role)
    if role in ("ann", "bob"):
        write(path, name, _FOREVER, acknowledged)
    elif role == "refresher":
        refresh(path, _FOREVER)
    else:
        while True:
            if role == "vacuum":
                nabla.open(path).vacuum(older_than=GRACE)
            elif role == "housekeeper":
                nabla.open(path).optimize()
            else:
                audit(path)


@dataclass
class Crew:
    """The processes that work on a bank, by role."""

    path: Path | str
    notes: Path
    context: BaseContext
    rng: Random
    hired: int = 0

    def __post_init__(self) -> None:
        self.notes.touch()
        self.working: dict[str, BaseProcess] = {}

    def hire(self, role: str) -> None:
        """Start a process and wait until it is at work."""
        self.hired += 1
        ready, told = self.context.Pipe(duplex=False)
        task = (role, str(self.path), f"{role}{self.hired}", str(self.notes), told)
        process: BaseProcess = self.context.Process(target=work, args=task)  # type: ignore[attr-defined]
        process.start()
        told.close()
        self.working[role] = process
        if not ready.poll(_PATIENCE):
            raise AssertionError(f"the {role} does not begin")
        ready.close()

    def kill(self, role: str) -> None:
        """End a process the hard way. One that has ended by itself has found a violation, or made one."""
        process = self.working.pop(role)
        process.kill()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            raise AssertionError(f"the {role} ended with {process.exitcode}")

    @property
    def acknowledged(self) -> list[str]:
        return self.notes.read_text(encoding="utf-8").split()


@contextmanager
def crew_of(path: Path | str, notes: Path, context: BaseContext, rng: Random) -> Iterator[Crew]:
    crew = Crew(path, notes, context, rng)
    try:
        for role in ROLES:
            crew.hire(role)
        yield crew
    finally:
        for process in crew.working.values():
            process.kill()


def run(path: Path | str, notes: Path, kills: int, rng: Random, context: BaseContext) -> Counter[str]:
    """Kill processes that work on a founded bank; who was killed how often. The file `notes` has what was acknowledged.
    AssertionError where an invariant does not hold."""
    killed: Counter[str] = Counter()
    with crew_of(path, notes, context, rng) as crew:
        while killed.total() < kills:
            time.sleep(rng.uniform(0.0, 0.3))
            role = rng.choices(list(ROLES), list(ROLES.values()))[0]
            crew.kill(role)
            killed[role] += 1
            audit(path, crew.acknowledged)
            if killed.total() < kills:
                crew.hire(role)
        for role in list(crew.working):
            crew.kill(role)
            killed[role] += 1
        lake = nabla.open(path)
        transfer(lake, "after", rng)
        embezzle(lake, "never", rng)
        lake.refresh(mode="incremental")
        audit(path, [*crew.acknowledged, "after"])
    return killed


def run_many(founded: Path, kills: int, seed: int, context: BaseContext, tell: Callable[[str], object]) -> Counter[str]:
    """The same on copies of a founded bank, so that logs stay short."""
    killed: Counter[str] = Counter()
    transfers = versions = lakes = 0
    start = time.monotonic()
    while killed.total() < kills:
        path = founded.parent / f"bank{lakes}"
        notes = founded.parent / f"bank{lakes}-acknowledged"
        shutil.copytree(founded, path)
        killed += run(path, notes, min(KILLS_A_LAKE, kills - killed.total()), Random(f"{seed} {lakes}"), context)
        transfers += len(notes.read_text(encoding="utf-8").split())
        versions += nabla.open(path).version
        lakes += 1
        shutil.rmtree(path)
        who = ", ".join(f"{role} {n}" for role, n in sorted(killed.items()))
        tell(
            f"{killed.total()} kills ({who}) in {time.monotonic() - start:.0f} s, {transfers} transfers acknowledged, "
            f"{versions} versions; all invariants held\n"
        )
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="how many processes to kill (100)")
    parser.add_argument("--seed", type=int, default=0, help="who is killed, and after how long (0); the rest is chance")
    given = parser.parse_args()
    from nabla.engine.spark.session import build_session

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["nabla.dev.testing.load", "nabla.lake.facade", "pyarrow.dataset", "pyarrow.acero"])
    with tempfile.TemporaryDirectory(prefix="nabla-kills-") as folder:
        path = Path(folder) / "founded"
        spark = build_session("nabla-kills")
        found_bank(path, spark)
        spark.stop()
        run_many(path, given.kills, given.seed, context, sys.stdout.write)


if __name__ == "__main__":
    main()
