"""A disk that fails at every write of every call: `python -m nabla.dev.testing.faults`.

The calls are those of a user: transactions that insert, mark deleted rows and rewrite files, one that must be refused,
refreshes, changes computed ahead, a revert, housekeeping, a vacuum. Each is made on a copy of a bank once for every write
that it does, and that write fails: a full disk, a missing permission, a broken disk, before or after the operation was
done, once or from then on. The call must succeed or raise a NablaError that names a code, the books must balance, and once
the disk works again the same call must succeed, exactly once.
"""

from __future__ import annotations

import argparse
import errno
import logging
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

import nabla
from nabla.dev.testing.bank import audit, embezzle, found_bank, transfer
from nabla.dev.testing.faulty_machine import FaultyMachine
from nabla.lake.facade import Lake
from nabla.storage import machine, reading

CARDS = 30_000
"""Rows of a table that is large enough for its deleted rows to be marked."""

CODES = frozenset({"NABLA_WRITE_FAILED", "NABLA_READ_FAILED"})


@dataclass(frozen=True)
class Fault:
    """How an operation fails: the error number, whether it was done all the same, and whether all later ones fail."""

    error: int
    after: bool
    lasting: bool

    def machine(self, fails: int | None) -> FaultyMachine:
        return FaultyMachine(self.error, fails, after=self.after, lasting=self.lasting)


FAULTS = tuple(
    Fault(error, after, lasting)
    for error in (errno.ENOSPC, errno.EACCES, errno.EIO)
    for after, lasting in ((False, False), (True, False), (False, True))
)

Call = Callable[[Lake], object]


def add_cards(path: Path, spark: SparkSession) -> None:
    """Give a bank a table of cards, of which a transaction marks rows, and a view of them."""
    lake = nabla.open(path, spark=spark)
    lake.create_table("cards", schema="id INT, account INT", data=[(i, i % 5) for i in range(CARDS)], key="id")
    lake.create_view("cards_by_account", "SELECT account, COUNT(*) AS n FROM cards GROUP BY account")
    lake.refresh()
    transfer(lake, "before", Random(0))


def _give_up_cards(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.delete("cards", rows=[(i, i % 5) for i in range(10, 20)])
        tx.insert("cards", [(CARDS, 0)])
        tx.insert("postings", [("cards", 0, -7), ("cards", 1, 7)])


def _refused(lake: Lake) -> None:
    embezzle(lake, "stolen", Random(0))


def _transfer(lake: Lake) -> None:
    transfer(lake, "one", Random(1))


CALLS: Mapping[str, Call] = {
    "transfer": _transfer,
    "mark rows": _give_up_cards,
    "refuse": _refused,
    "refresh": lambda lake: lake.refresh(mode="incremental"),
    "propagate": lambda lake: lake.propagate(),
    "revert": lambda lake: lake.revert(lake.version),
    "optimize": lambda lake: lake.optimize(),
    "vacuum": lambda lake: lake.vacuum(older_than=timedelta(0)),
}

WRITTEN: Mapping[Call, Collection[str]] = {_transfer: ("one",), _give_up_cards: ("cards",)}
"""The transfers that must be there once a call has succeeded."""


def points(bank: Path, scratch: Path, call: Call) -> int:
    """The number of operations of a call that may fail."""
    counting = FAULTS[0].machine(None)
    with _copy(bank, scratch) as path, machine.use(counting):
        call(nabla.open(path))
    return counting.done


class _copy:
    """A copy of a bank, for as long as it is needed."""

    def __init__(self, bank: Path, scratch: Path) -> None:
        self._bank, self._path = bank, scratch / "copy"

    def __enter__(self) -> Path:
        shutil.rmtree(self._path, ignore_errors=True)
        shutil.copytree(self._bank, self._path)
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def attempt(bank: Path, scratch: Path, call: Call, fault: Fault, fails: int) -> str:
    """Make a call whose operation number `fails` fails, and again on a disk that works; how the first ended."""
    with _copy(bank, scratch) as path:
        outcome = "succeeded"
        lake = nabla.open(path)
        with machine.use(fault.machine(fails)):
            try:
                call(lake)
            except nabla.NablaError as error:
                if error.code not in CODES or not error.place or not error.remedy:
                    raise AssertionError(f"{error} has no code of a machine's fault, no place or no remedy") from error
                outcome = error.code
        _check_books(path)
        if outcome != "succeeded":
            call(nabla.open(path))
        _check_books(path, WRITTEN.get(call, ()))
        after = nabla.open(path)
        transfer(after, "after", Random(2))
        after.refresh(mode="incremental")
        _check_books(path)
        return outcome


def _check_books(path: Path, acknowledged: Collection[str] = ()) -> None:
    """The books of the bank balance, transfers that were acknowledged are there, and cards fit their view."""
    audit(path, acknowledged)
    lake = nabla.open(path)
    log, state = lake.context.log, lake.context.log.state()
    cards, view = state.entries["cards"].parts["data"], state.entries["cards_by_account"]
    then = reading.read(log.table(cards).snapshot(view.facts["sources"]["cards"]))
    counts = Counter(then["account"].to_pylist())
    shown = reading.read(log.snapshot(view.parts["data"]))
    assert Counter(dict(zip(*(c.to_pylist() for c in shown.columns), strict=True))) == counts
    now = reading.read(log.snapshot(cards))["id"].to_pylist()
    whole = set(range(CARDS))
    assert len(now) == len(set(now))
    assert set(now) in (whole, (whole - set(range(10, 20))) | {CARDS})


def run(bank: Path, scratch: Path, calls: Mapping[str, Call], every: int = 1) -> Iterator[tuple[str, Counter[str]]]:
    """How the calls ended, by call. With `every`, only one of so many operations fails."""
    for name, call in calls.items():
        ended: Counter[str] = Counter()
        number = points(bank, scratch, call)
        for i, fault in enumerate(FAULTS):
            for fails in range(i % every, number, every):
                try:
                    ended[attempt(bank, scratch, call, fault, fails)] += 1
                except BaseException as error:
                    error.add_note(f"{name}, operation {fails} of {number}, {fault}")
                    raise
        yield name, ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="let one of so many operations fail (1)")
    parser.add_argument("--only", default="", help="calls whose names contain this")
    given = parser.parse_args()
    from nabla.engine.spark.session import build_session

    warnings.simplefilter("ignore")  # a commit that stands although a table could not be written is a warning
    logging.getLogger("nabla").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="nabla-faults-") as folder:
        bank = Path(folder) / "founded"
        spark = build_session("nabla-faults")
        found_bank(bank, spark)
        add_cards(bank, spark)
        spark.stop()
        chosen = {name: call for name, call in CALLS.items() if given.only in name}
        for name, ended in run(bank, Path(folder), chosen, given.every):
            outcomes = ", ".join(f"{n} {outcome}" for outcome, n in ended.most_common())
            sys.stdout.write(f"{name}: {ended.total()} faults ({outcomes}); nothing lost, repeating succeeded\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
