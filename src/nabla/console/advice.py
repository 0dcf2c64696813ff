"""What to do first: a short ranked list, each with its reason and a command. From logs and declared keys, without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nabla.algebra.expressions import quote
from nabla.console.commits import Commits
from nabla.console.overview import LakeObject, Overview
from nabla.console.words import ago, plural_of, seconds, size
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import columns_of, table_of
from nabla.lake.objects.view import enforced_key, load_view
from nabla.storage import reading
from nabla.storage.catalog import Entry, LakeState

MOST = 25
LARGEST_CHECKED = 2_000_000
"""Rows of a table up to which its declared key is looked at."""
STALE_AFTER = 300.0
"""Seconds that a view may be behind before it is advised to refresh it. People look at a lake between two refreshes."""
LARGE_STATE = 4 << 20
"""Bytes of hidden state below which nobody need care."""
MANY_FILES = 64
"""Files of a table or view, from which on reading it is slowed down by their number."""


@dataclass(frozen=True)
class Advice:
    """Something to do about an object: `weight` ranks it, `command` does it or is the first step."""

    weight: float
    kind: str
    object: str
    title: str
    why: str
    command: str


class Advisor:
    """Gives advice on a lake. Declared keys are checked once for every version of a table."""

    def __init__(self, context: LakeContext, commits: Commits) -> None:
        self._context = context
        self._commits = commits
        self._lock = threading.Lock()
        self._repeated: dict[tuple[str, int, tuple[str, ...]], int] = {}

    def advise(self, overview: Overview) -> list[Advice]:
        """The advice on a lake, the most urgent first."""
        state = self._context.log.state()
        found: list[Advice] = []
        for one in overview.objects.values():
            if one.name in state.entries:
                entry = state.entries[one.name]
                found += [*_problems(one), *self._recomputed(one, entry), *_stale(one)]
                found += [*self._wrong_key(state, entry), *self._sizes(entry)]
        return sorted(found, key=lambda advice: (-advice.weight, advice.object))[:MOST]

    def _recomputed(self, one: LakeObject, entry: Entry) -> Iterator[Advice]:
        """Views without a rule, and views whose refreshes were recomputed by cost again and again."""
        if one.kind not in ("view", "rule"):
            return
        view = load_view(entry.name, entry.definition)
        cost = one.seconds or 0.0
        if view.obstacles:
            first = view.obstacles[0]
            why = f"{first.code}: {first.what} ({first.place}). {first.remedy}"
            title = f"{one.name} is recomputed at every refresh"
            yield Advice(70 + min(cost, 20), "recompute", one.name, title, why, f"nabla explain {one.name}")
            return
        past = [r for r in self._commits.refreshes(one.name) if not r.is_build][:5]
        if len(past) >= 3 and all(r.mode == "full" for r in past):
            title = f"{one.name} was recomputed {len(past)} times in a row"
            why = f"{past[0].reason}. The last one took {seconds(past[0].seconds)}."
            command = f"nabla refresh {one.name} --mode incremental"
            yield Advice(50 + min(cost, 20), "recompute", one.name, title, why, command)

    def _wrong_key(self, state: LakeState, entry: Entry) -> Iterator[Advice]:
        """A declared key that does not identify rows: plans and paired updates rely on it."""
        key = tuple(entry.definition.get("key") or ())
        if entry.kind not in ("table", "registered") or not key:
            return
        if enforced_key(state, entry.name):
            return
        repeated = self._count_repeated(entry, key)
        if repeated:
            columns = ", ".join(map(quote, key))
            why = f"{plural_of(repeated, 'value')} of ({', '.join(key)}) occur more than once or are NULL."
            query = f"SELECT {columns}, COUNT(*) FROM {quote(entry.name)} GROUP BY {columns} HAVING COUNT(*) > 1"
            title = f"The declared key of {entry.name} is wrong"
            yield Advice(90, "key", entry.name, title, why, f"nabla sql '{query}'")

    def _count_repeated(self, entry: Entry, key: tuple[str, ...]) -> int:
        """Values of a declared key that more than one row has, or that have a NULL in them; 0 for a table that is too large to
        look at."""
        try:
            snapshot = table_of(self._context.log, entry).snapshot()
            if snapshot.rows > LARGEST_CHECKED:
                return 0
            known = (snapshot.folder, snapshot.version, key)
            with self._lock:
                if known not in self._repeated:
                    names = columns_of(entry)
                    stored = [snapshot.schema.names[names.index(column)] for column in key]
                    self._repeated[known] = _repeated(reading.read(snapshot, stored))
                return self._repeated[known]
        except (NablaError, pa.ArrowException, OSError, ValueError):
            return 0  # its own page says what is wrong with it

    def _sizes(self, entry: Entry) -> Iterator[Advice]:
        """Hidden states that are larger than their view, and tables and views in too many files."""
        if entry.kind not in ("view", "table"):
            return
        log = self._context.log
        try:
            data = log.snapshot(entry.parts["data"])
            states = sum(log.snapshot(part).bytes for name, part in entry.parts.items() if name.startswith("@"))
        except NablaError:
            return
        if states > max(LARGE_STATE, 2 * data.bytes):
            title = f"The hidden state of {entry.name} is larger than the view"
            why = f"State {size(states)}, view {size(data.bytes)}. Fewer groups or columns in its aggregates make it smaller."
            yield Advice(20, "state", entry.name, title, why, f"nabla explain {entry.name}")
        if len(data.files) > MANY_FILES and data.bytes < len(data.files) * (8 << 20):
            title = f"{entry.name} is spread over {len(data.files):,} files"
            why = f"They have {size(data.bytes // len(data.files))} on average. Merged, they are read faster."
            yield Advice(25, "files", entry.name, title, why, f"nabla optimize {entry.name}")


def _repeated(table: pa.Table) -> int:
    """The number of distinct rows that occur more than once or have a NULL."""
    if not table.num_rows:
        return 0
    counted = table.group_by(table.column_names, use_threads=False).aggregate([([], "count_all")])
    wrong = pc.greater(counted["count_all"], 1)
    for name in table.column_names:
        wrong = pc.or_(wrong, pc.is_null(counted[name]))
    return int(pc.sum(wrong).as_py() or 0)


def _problems(one: LakeObject) -> Iterator[Advice]:
    if one.problem:
        yield Advice(
            100,
            "problem",
            one.name,
            f"{one.name} cannot be read",
            one.problem,
            f"nabla fsck --quick  # then look at {one.name}",
        )
    if one.kind == "constraint" and one.rows:
        title = f"The constraint {one.name} is violated"
        why = f"{plural_of(one.rows, 'row')} violate it; {one.when or 'warn'} lets them in."
        yield Advice(95, "constraint", one.name, title, why, f"nabla check {one.name}")


def _stale(one: LakeObject, now: Callable[[], float] = time.time) -> Iterator[Advice]:
    if one.freshness != "stale" or one.kind == "constraint":
        return
    behind = now() - one.updated if one.updated else STALE_AFTER
    if behind >= STALE_AFTER:
        why = f"Its sources have moved on. It was refreshed {ago(one.updated)}; {one.when or 'deferred'}."
        weight = 40 + min(behind / 86_400, 10)
        yield Advice(weight, "stale", one.name, f"{one.name} is stale", why, f"nabla refresh {one.name}")
