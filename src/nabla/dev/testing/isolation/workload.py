"""Random transactions on one lake, by many threads and processes, and what each of them saw.

Lists are rows of the tables `a`, `b` and `c`, to whose text an UPDATE appends; sets are the rows of `s` and `t` with one key.
Immediate views show the same, so that whoever reads one reads the list or the set. Whoever has no Spark adds to sets only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from pyspark.sql import DataFrame, SparkSession

import nabla
from nabla.dev.testing.isolation.history import Operation, Outcome, Transaction, add, append, read_list, read_set
from nabla.dev.testing.session import quick_session
from nabla.lake.facade import Lake

LISTS = ("a", "b", "c")
SETS = ("s", "t")
VIEWS = {"a": "a_shown", "s": "s_shown"}
KEYS = range(2)

Reader = Callable[[str], DataFrame]


class _GivenUp(Exception):
    """A transaction that its author decides not to commit."""


def make_lake(path: Path, spark: SparkSession) -> Lake:
    """The tables and views, all lists empty."""
    lake = nabla.open(path, spark=spark)
    for name in LISTS:
        lake.create_table(name, schema="k INT, items STRING", data=[(key, "") for key in KEYS])
    for name in SETS:
        lake.create_table(name, schema="k INT, v BIGINT")
    for table, view in VIEWS.items():
        lake.create_view(view, f"SELECT * FROM {table}", maintain="immediate")
    return lake


def run_threads(
    lake: Lake, names: Iterable[str], seed: int, seconds: float, has_spark: bool = True
) -> list[Transaction]:
    """What threads of these names did until the time was over. Their names must be unique among all that use the lake."""
    workers = [Worker(lake, name, Random(f"{seed} {name}"), has_spark) for name in names]
    threads = [threading.Thread(target=worker.run, args=(time.monotonic() + seconds,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [transaction for worker in workers for transaction in worker.history]


def run_process(path: str, names: tuple[str, ...], seed: int, seconds: float, has_spark: bool, out: str) -> None:
    """The same in a process of its own, which writes what it did into a file."""
    config = {"spark.master": "local[1]", "spark.driver.memory": "800m"}
    lake = nabla.open(path, spark=quick_session("nabla-isolation", config)) if has_spark else nabla.open(path)
    history = run_threads(lake, names, seed, seconds, has_spark)
    Path(out).write_text("".join(transaction.to_json() + "\n" for transaction in history), encoding="utf-8")


def read_all(lake: Lake, name: str = "last") -> Transaction:
    """A transaction that reads every object: what it does not see is lost."""
    began = time.monotonic()
    with lake.transaction() as tx:
        seen = tuple(operation for table in (*LISTS, *SETS) for operation in _read(tx.read, table, table))
    return Transaction(name, seen, "committed", began, time.monotonic())


class Worker:
    """One thread. The values that it writes begin with a number that is its own."""

    def __init__(self, lake: Lake, name: str, rng: Random, has_spark: bool) -> None:
        self.history: list[Transaction] = []
        self._lake = lake
        self._name = name
        self._rng = rng
        self._has_spark = has_spark
        self._value = int.from_bytes(name.encode()[:3]) * 1_000_000

    def run(self, end: float) -> None:
        while time.monotonic() < end:
            self._transact()
            if not self._has_spark:  # it is a hundred times as fast, and would be in everybody's way
                time.sleep(self._rng.uniform(0.0, 0.5))

    def _transact(self) -> None:
        operations: list[Operation] = []
        outcome: Outcome = "committed"
        began = time.monotonic()
        try:
            if self._has_spark and self._rng.random() < 0.25:
                operations += self._look()
            else:
                with self._lake.transaction() as tx:
                    for _ in range(self._rng.randint(1, 3)):
                        self._step(tx, operations)
                    if self._rng.random() < 0.1:
                        raise _GivenUp
        except (_GivenUp, nabla.Conflict):
            outcome = "aborted"
        except nabla.NablaError:
            outcome = "unknown"
        name = f"{self._name}-{len(self.history)}"
        self.history.append(Transaction(name, tuple(operations), outcome, began, time.monotonic()))

    def _step(self, tx: nabla.Transaction, operations: list[Operation]) -> None:
        """One operation. Writes are noted before they are made: one that fails half way may have had an effect."""
        choice, key = self._rng.random(), self._rng.choice(KEYS)
        self._value += 1
        if not self._has_spark or choice < 0.2:
            table = self._rng.choice(SETS)
            operations.append(add(f"{table}/{key}", self._value))
            tx.insert(table, [(key, self._value)])
        elif choice < 0.5:
            table = self._rng.choice(LISTS)
            operations.append(append(f"{table}/{key}", self._value))
            tx.update(table, set={"items": f"concat(items, ' {self._value}')"}, where=f"k = {key}")
        else:
            table = self._rng.choice((*LISTS, *SETS))
            operations += _read(tx.read, table, table)

    def _look(self) -> list[Operation]:
        """A read without a transaction, of a table or of the view that shows it."""
        table = self._rng.choice((*LISTS, *SETS))
        shown = self._rng.choice((table, VIEWS.get(table, table)))
        return _read(self._lake.read, shown, table)


def _read(read: Reader, name: str, table: str) -> list[Operation]:
    """One query, which reads all objects of a table at once."""
    rows = read(name).collect()
    if table in LISTS:
        return [read_list(f"{table}/{k}", *map(int, items.split())) for k, items in rows]
    return [read_set(f"{table}/{key}", *(v for k, v in rows if k == key)) for key in KEYS]
