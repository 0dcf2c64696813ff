"""Random histories of writes, without Spark, judged by two laws and by other readers.

    table = old − deleted + inserted, as a bag            recorded change = new − old

A history makes some tables, with and without deletion vectors, and then operations: rows come and go, files are marked as
executors mark them, two writers meet in the middle of their transactions, transactions are refused, a writer dies at any of its
writes, everything is reverted to an earlier version. After each of them the newest version of every table is compared with a
model in plain Python, with the log as delta-rs reads it, and its recorded change with the difference of both versions. In
the end every version that was made is compared again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyroaring import BitMap64
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import nabla
from nabla.errors import NablaError
from nabla.lake.facade import Lake
from nabla.storage import changes, files, machine, reading, rewrite
from nabla.storage.catalog import DELTA_FEED
from nabla.storage.machine import Machine

SHAPE = StructType([StructField("id", IntegerType()), StructField("a", IntegerType()), StructField("b", StringType())])
ARROW = pa.schema([("id", pa.int32()), ("a", pa.int32()), ("b", pa.string())])
TEXTS = (None, "", "x", "y", "ÿ\n'")

Row = tuple[Any, ...]
Bag = Counter[Row]


class Died(BaseException):
    """The process was killed: nothing catches it, and nothing is cleaned up."""


class DyingMachine(Machine):
    """Does `operations` writes and no more."""

    def __init__(self, operations: int) -> None:
        super().__init__(syncs=False)
        self._left = operations

    def _live(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Died

    def write(self, path: str, fill: Callable[[str], None]) -> None:
        self._live()
        super().write(path, fill)

    def link(self, source: str, target: str) -> None:
        self._live()
        super().link(source, target)

    def move(self, source: str, target: str) -> None:
        self._live()
        super().move(source, target)

    def remove(self, path: str) -> None:
        self._live()
        super().remove(path)


@dataclass
class Tally:
    """What the histories had in them."""

    histories: int = 0
    commits: int = 0
    refused: int = 0
    conflicts: int = 0
    deaths: int = 0
    reverts: int = 0
    marked: int = 0
    compared: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{value} {name}" for name, value in vars(self).items())


@dataclass
class History:
    """A lake and what must be in it: the rows of each table, now and at every version of the lake that was looked at."""

    path: Path
    rng: Random
    tally: Tally
    tables: dict[str, Bag] = field(default_factory=dict)
    versions: dict[int, dict[str, Bag]] = field(default_factory=dict)
    checked: dict[str, tuple[int, Bag]] = field(default_factory=dict)
    marked: bool = False  # by this module, which keeps no feed of it

    def run(self, operations: int) -> None:
        self._begin()
        kinds = [self._change, self._mark, self._meet, self._refuse, self._die, self._revert]
        for number in range(operations):
            if number % len(kinds) == 0:
                self.rng.shuffle(kinds)
            kinds[number % len(kinds)]()
            self._check()
        self._check_versions()
        self.tally.histories += 1

    # What happens

    def _begin(self) -> None:
        lake = nabla.open(self.path, deletion_vectors=self.rng.random() < 0.7)
        for name in ("t", "u")[: self.rng.randint(1, 2)]:
            rows = self._rows(self.rng.choice((0, 5, 60)))
            key = "id" if self.rng.random() < 0.5 else None
            feed: Literal["delta"] | None = "delta" if self.rng.random() < 0.3 else None
            lake.create_table(name, SHAPE, pa.Table.from_pylist(_named(rows), ARROW), key=key, feed=feed)
            self.tables[name] = Counter(rows)
        self._check()

    def _change(self) -> None:
        plan = self._plan(self.tables)
        with self.lake().transaction() as tx:
            for table, rows, sign in plan:
                tx.insert(table, rows) if sign > 0 else tx.delete(table, rows=rows)
        self._apply(plan)

    def _mark(self) -> None:
        """A change as executors make it: rows are marked by their places, and new ones are in files of their own."""
        name = self.rng.choice(list(self.tables))
        lake = self.lake()
        with lake.transaction() as tx:
            change = tx.changes.change(name)
            plan: list[tuple[str, list[Row], int]] = []
            for _ in range(self.rng.randint(1, 2)):
                places, gone = self._chosen(change.snapshot)
                new = self._rows(self.rng.choice((0, 3)))
                with tx.changes.uncommitted:
                    marked = rewrite.mark(change.snapshot, places)
                    rest = [reading.read_file(change.snapshot, file) for file in marked.rest]
                    rows = pa.concat_tables([*rest, pa.Table.from_pylist(_named(new), ARROW)])
                    adds = (*marked.adds, *files.write(change.snapshot.folder, rows))
                change.advance(adds, marked.removes, len(new), len(gone))
                plan += [(name, gone, -1), (name, new, 1)]
            if self.rng.random() < 0.5:
                more = self._rows(2)
                tx.insert(name, more)
                plan.append((name, more, 1))
        self._apply(plan)
        self.marked = True
        self.tally.marked += 1

    def _chosen(self, snapshot: files.Snapshot) -> tuple[dict[str, BitMap64], list[Row]]:
        """Places of rows that a table has, and the rows there."""
        places: dict[str, BitMap64] = {}
        gone: list[Row] = []
        for file in snapshot.files:
            alive = [i for i in range(file.written) if (keep := snapshot.keep(file)) is None or keep[i].as_py()]
            some = self.rng.sample(alive, self.rng.choice((0, min(1, len(alive)), len(alive) // 2, len(alive))))
            if some:
                places[file.path] = BitMap64(some)
                found = reading.read_rows(snapshot, file, pa.array(sorted(some), pa.int64()))
                gone += _tuples(found)
        return places, gone

    def _meet(self) -> None:
        """Another writer commits in the middle of a transaction. Both take place, one after the other, unless the first has
        read what the second has changed, or a row that it deletes is gone."""
        ours, theirs = self._plan(self.tables), self._plan(self.tables)
        reads = self.rng.random() < 0.2
        lake = self.lake()
        with lake.transaction() as tx:
            if reads:
                tx._reads.add(theirs[0][0])  # noqa: SLF001  (to read it by `tx.read` takes Spark)
            for table, rows, sign in ours:
                tx.insert(table, rows) if sign > 0 else tx.delete(table, rows=rows)
            with self.lake().transaction() as other:
                for table, rows, sign in theirs:
                    other.insert(table, rows) if sign > 0 else other.delete(table, rows=rows)
            self._apply(theirs)
            missing = not self._is_possible(ours)
            refused = _refusal(tx.commit)
            if refused is not None:
                self.tally.conflicts += 1
                allowed = {"NABLA_ABSENT_ROW"} if missing else set()
                allowed |= {"NABLA_CONFLICT"} if reads else set()
                assert refused.code in allowed, f"{refused} is no reason to refuse {ours} after {theirs}"
                return
        assert not missing, f"{ours} deletes rows that {theirs} has deleted"
        self._apply(ours)

    def _refuse(self) -> None:
        """A transaction that must be refused, and leaves nothing behind."""
        before = self._files()
        table = self.rng.choice(list(self.tables))
        tx = self.lake().transaction()
        tx.insert(table, self._rows(2))
        tx.delete(table, rows=[(10**6, 0, "never there")])
        refused = _refusal(tx.commit)
        assert refused is not None, "a row was deleted that was never there"
        assert refused.code == "NABLA_ABSENT_ROW", refused
        assert self._files() == before, f"a refused transaction left {self._files() - before}"
        self.tally.refused += 1

    def _die(self) -> None:
        """A writer is killed at one of its writes. What it did took place as a whole, or not at all."""
        plan = self._plan(self.tables)
        before = self.tables
        lake = self.lake()
        try:
            with machine.use(DyingMachine(self.rng.randint(0, 14))), lake.transaction() as tx:
                for table, rows, sign in plan:
                    tx.insert(table, rows) if sign > 0 else tx.delete(table, rows=rows)
        except (Died, NablaError, OSError):
            self.tally.deaths += 1
        self._apply(plan)
        after, self.tables = self.tables, before
        found = self._now()
        assert found in (before, after), f"half of {plan} took place"
        self.tables = found

    def _revert(self) -> None:
        version = self.rng.choice(list(self.versions))
        self.lake().revert(version)
        self.tables = {name: Counter(self.versions[version].get(name, rows)) for name, rows in self.tables.items()}
        self.tally.reverts += 1

    # What they change

    def _plan(self, tables: dict[str, Bag]) -> list[tuple[str, list[Row], int]]:
        """Operations on tables that are possible one after the other."""
        left = {name: Counter(rows) for name, rows in tables.items()}
        plan = []
        for _ in range(self.rng.randint(1, 3)):
            name = self.rng.choice(list(left))
            there = sorted(left[name].elements(), key=repr)
            if there and self.rng.random() < 0.6:
                rows = self.rng.sample(there, self.rng.choice((1, min(3, len(there)), len(there))))
                left[name] -= Counter(rows)
                plan.append((name, rows, -1))
            else:
                rows = self._rows(self.rng.choice((1, 3, 8)))
                left[name] += Counter(rows)
                plan.append((name, rows, 1))
        return plan

    def _is_possible(self, plan: list[tuple[str, list[Row], int]]) -> bool:
        """Whether all rows that operations delete, one after the other, would be there."""
        left = {name: Counter(rows) for name, rows in self.tables.items()}
        for name, rows, sign in plan:
            if sign < 0 and Counter(rows) - left[name]:
                return False
            left[name] = left[name] + Counter(rows) if sign > 0 else left[name] - Counter(rows)
        return True

    def _apply(self, plan: list[tuple[str, list[Row], int]]) -> None:
        self.tables = {name: Counter(rows) for name, rows in self.tables.items()}
        for name, rows, sign in plan:
            if sign > 0:
                self.tables[name] += Counter(rows)
            else:
                self.tables[name] -= Counter(rows)

    def _rows(self, count: int) -> list[Row]:
        few = self.rng.random() < 0.3  # of few different rows there are several copies
        return [self._row(2 if few else 50) for _ in range(count)]

    def _row(self, values: int) -> Row:
        a = None if self.rng.random() < 0.2 else self.rng.randrange(values)
        return self.rng.randrange(values), a, self.rng.choice(TEXTS)

    # What must hold

    def lake(self) -> Lake:
        """The lake as another process would open it."""
        return nabla.open(self.path)

    def _now(self) -> dict[str, Bag]:
        log = self.lake().context.log
        state = log.state()
        return {
            name: Counter(_tuples(reading.read(log.snapshot(state.entries[name].parts["data"]))))
            for name in self.tables
        }

    def _check(self) -> None:
        log = self.lake().context.log
        state = log.state()
        for name, expected in self.tables.items():
            part = state.entries[name].parts["data"]
            table = log.table(part)
            snapshot = table.snapshot(part.version)
            if self.checked.get(name) == (part.version, expected):
                continue
            self.checked[name] = (part.version, expected)
            found = Counter(_tuples(reading.read(snapshot)))
            assert found == expected, f'"{name}" has {found - expected} too many and lacks {expected - found}'
            assert state.entries[name].facts["rows"] == expected.total()
            other = _by_delta_rs(snapshot.folder, part.version)
            assert other == expected, (
                f'delta-rs finds {other - expected} too many in "{name}", and lacks {expected - other}'
            )
            if part.version:
                change = self._check_change(table, part.version, found)
                if state.entries[name].definition.get(DELTA_FEED) and not self.marked:
                    fed = _feed_by_delta_rs(snapshot.folder, part.version)
                    assert fed == change, f"the feed of version {part.version} has {fed} instead of {change}"
            self.tally.compared += 1
        self.marked = False
        if state.version not in self.versions:
            self.versions[state.version] = self.tables
            self.tally.commits += 1

    def _check_change(self, table: Any, version: int, now: Bag) -> dict[Row, int]:
        """The change of the newest version, and the one since an earlier version: each is the difference of both. Gives the
        first of them."""
        found: dict[Row, int] = {}
        for older in (self.rng.randrange(version), version - 1):
            before = Counter(_tuples(reading.read(table.snapshot(older))))
            signed = changes.signed(changes.between(table, older, version))
            recorded = {tuple(row[:-1]): row[-1] for row in _tuples(signed)}
            difference = {row: now[row] - before[row] for row in now | before if now[row] != before[row]}
            assert recorded == difference, f"from version {older} to {version}: {recorded} instead of {difference}"
            found = difference
        return found

    def _check_versions(self) -> None:
        """Every version of the lake is still what it was."""
        log = self.lake().context.log
        for version, tables in self.versions.items():
            entries = log.state(version).entries
            for name, expected in tables.items():
                found = Counter(_tuples(reading.read(log.snapshot(entries[name].parts["data"]))))
                assert found == expected, f'"{name}" at version {version}'

    def _files(self) -> set[str]:
        """The data files of the lake, wherever they are."""
        return {
            str(path)
            for path in self.path.rglob("*")
            if path.suffix in (".parquet", ".bin") and "_log" not in str(path)
        }


def _refusal(commit: Callable[[], None]) -> NablaError | None:
    try:
        commit()
    except NablaError as error:
        return error
    return None


def _named(rows: list[Row]) -> list[dict[str, Any]]:
    return [dict(zip(ARROW.names, row, strict=True)) for row in rows]


def _tuples(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_rows else []


def _feed_by_delta_rs(folder: str, version: int) -> dict[Row, int]:
    """The change of a version as another reader of Delta's change data feed finds it. No row may come and go."""
    read = pa.table(DeltaTable(folder).load_cdf(starting_version=version, ending_version=version))
    kinds = read["_change_type"].to_pylist()
    found: dict[Row, int] = {}
    for row, kind in zip(_tuples(read.select(ARROW.names)), kinds, strict=True):
        sign = 1 if kind == "insert" else -1
        assert found.get(row, sign) * sign > 0, f"{row} is deleted and inserted"
        found[row] = found.get(row, 0) + sign
    return found


def _by_delta_rs(folder: str, version: int) -> Bag:
    """A version as another reader finds it."""
    batches = QueryBuilder().register("t", DeltaTable(folder, version=version)).execute("SELECT * FROM t")
    return Counter(row for batch in batches for row in _tuples(pa.table(batch)))
