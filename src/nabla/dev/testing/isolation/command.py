"""Isolation under test: `python -m nabla.dev.testing.isolation --seconds 60 --seed 1`.

Threads of several processes run random transactions on one lake: some processes have a Spark of their own, one has none and
only writes. All that they saw is checked for Adya's anomalies. The exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from pathlib import Path

from nabla.dev.testing.isolation.anomalies import dependencies, find_anomalies
from nabla.dev.testing.isolation.history import Transaction
from nabla.dev.testing.isolation.workload import make_lake, read_all, run_process, run_threads
from nabla.dev.testing.session import quick_session
from nabla.lake.facade import Lake


def run(lake: Lake, seed: int, seconds: float, threads: int, processes: int, context: BaseContext) -> list[Transaction]:
    """The history of threads here, of `processes` processes with Spark and of one without, and a last look at all of it."""
    folder = Path(lake.path).parent
    plan = [(f"{chr(ord('p') + i)}", True) for i in range(processes)] + [("w", False)]
    started, files = [], []
    for name, has_spark in plan:
        files.append(folder / f"history-{name}")
        names = tuple(f"{name}{i}" for i in range(threads))
        task = (lake.path, names, seed, seconds, has_spark, str(files[-1]))
        started.append(context.Process(target=run_process, args=task))  # type: ignore[attr-defined]
        started[-1].start()
    history = run_threads(lake, [f"h{i}" for i in range(threads)], seed, seconds)
    for process in started:
        process.join()
        if process.exitcode:
            raise AssertionError(f"a process ended with {process.exitcode}")
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return [*history, *map(Transaction.from_json, lines), read_all(lake)]


def summary(history: Sequence[Transaction]) -> str:
    outcomes = Counter(transaction.outcome for transaction in history)
    kinds = Counter(kind for edges in dependencies(history).values() for kind, _ in edges)
    ended = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
    depend = ", ".join(f"{kinds[kind]} {kind}" for kind in ("ww", "wr", "rw"))
    return f"{len(history)} transactions ({ended}), dependencies {depend}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (60)")
    parser.add_argument("--seed", type=int, default=0, help="what the transactions do (0); how they meet is chance")
    parser.add_argument("--threads", type=int, default=3, help="threads of each process (3)")
    parser.add_argument("--processes", type=int, default=1, help="more processes with a Spark of their own (1)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nabla-isolation-") as folder:
        config = {"spark.master": "local[1]", "spark.driver.memory": "800m"}
        lake = make_lake(Path(folder) / "lake", quick_session("nabla-isolation", config))
        context = multiprocessing.get_context("spawn")
        history = run(lake, given.seed, given.seconds, given.threads, given.processes, context)
    anomalies = find_anomalies(history)
    for anomaly in anomalies:
        sys.stdout.write(f"{anomaly}\n")
    verdict = f"{len(anomalies)} anomalies" if anomalies else "no anomaly"
    sys.stdout.write(f"{summary(history)}: {verdict}\n")
    sys.exit(bool(anomalies))
