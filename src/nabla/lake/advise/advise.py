"""`lake.advise`: which views to store for a workload (thesis 8.3).

Candidates come from the queries (`nabla.advise`). Spark counts their groups approximately, in one query for all candidates that
join the same tables. The time of a query is estimated from the rows that it reads, without and with each candidate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.errors import PySparkException

from nabla.advise.candidates import Candidate, candidates_of
from nabla.advise.choose import Chosen, Offer, choose_offers, without_needless_constants
from nabla.advise.text import keys_of, source_of, text_of
from nabla.answer.answers import FoundAnswer, ViewIndex, find_answer
from nabla.answer.facts import Proofs, Sizes
from nabla.answer.match import StoredView
from nabla.errors import NablaError
from nabla.frontends.spark_sql.code import find_code
from nabla.lake.advise.workload import Asked, Query, Unreadable, Workload, listed, name_of, recorded
from nabla.lake.answer.answer import plain_frame, readable_plan
from nabla.lake.answer.candidates import Candidates, candidates_in
from nabla.lake.answer.proofs import proofs_in
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import table_of
from nabla.lake.objects.view import load_view
from nabla.planner.estimates import CHANGE_ROWS_PER_SECOND, QUERY_SECONDS, WORK_ROWS_PER_SECOND
from nabla.storage.catalog import Entry, LakeState

ADVISED = "made on the advice of `nabla advise`"
"""The note of a view that was created from a proposal."""
ASSUMED_CHANGE = 0.001
"""The share of a table's rows that is assumed to change between two refreshes, where no change was ever seen."""
SHARE_OF_SPACE = 0.2
"""The part of the size of all tables that views may take, where no limit is given."""
_BYTES_OF_KEY, _BYTES_OF_MEASURE, _COPIES = 4, 8, 2
"""Bytes of a value in a file, and how often it is stored: in the view and in its hidden state."""
_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Proposal:
    """A view to create. `benefit` are the seconds that it saves in one run of the workload, `upkeep` those of a refresh,
    `bytes` the size that it is expected to have, and `serves` the queries that would read it."""

    name: str
    sql: str
    benefit: float
    upkeep: float
    bytes: int
    serves: tuple[str, ...]

    def __str__(self) -> str:
        queries = "\n".join(f"    serves {query}" for query in self.serves)
        price = f"saves {self.benefit:.1f} s, a refresh takes {self.upkeep:.1f} s, about {self.bytes / 1e6:.1f} MB"
        text = "\n".join(f"    {line}" for line in self.sql.splitlines())
        return f"{self.name}: {price}\n{text}\n{queries}"


@dataclass(frozen=True)
class UnusedView:
    """A view that no query of the workload reads, and what it costs."""

    name: str
    upkeep: float
    bytes: int
    advised: bool

    def __str__(self) -> str:
        return (
            f"{self.name} answers no query; its last refresh took {self.upkeep:.1f} s, it has {self.bytes / 1e6:.1f} MB"
        )


@dataclass(frozen=True)
class Advice(Sequence[Proposal]):
    """Proposals, the most beneficial first. `seconds` are those of the workload as it is, `then` those with all proposals, both
    estimated; `skipped` are queries that were left out, `unused` are views that no query reads."""

    proposals: tuple[Proposal, ...]
    seconds: float
    then: float
    skipped: tuple[Unreadable, ...] = ()
    unused: tuple[UnusedView, ...] = ()

    def __getitem__(self, place: Any) -> Any:
        return self.proposals[place]

    def __len__(self) -> int:
        return len(self.proposals)

    def __iter__(self) -> Iterator[Proposal]:
        return iter(self.proposals)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"the workload takes about {self.seconds:.1f} s, and {self.then:.1f} s with these views"]
        lines = lines if self.proposals else ["no view would pay"]
        lines += map(str, self.proposals)
        lines += [f"left out: {one.name}: {one.reason}" for one in self.skipped]
        return "\n".join([*lines, *map(str, self.unused)])


def advise(context: LakeContext, workload: Workload | None, space: str | int | None, upkeep: float | None) -> Advice:
    """The views that would pay for a workload: the given one, or the queries that the lake was asked."""
    state = context.log.state()
    room = _bytes(space) if space is not None else round(SHARE_OF_SPACE * sum(_sizes_of_tables(context, state)))
    queries: list[tuple[Query, float]] = list(recorded(context)) if workload is None else listed(workload)
    asked, skipped = _read(context, state, queries, stored=workload is None)
    return _Advisor(context, state, asked).advice(room, upkeep, tuple(skipped))


def _bytes(space: str | int) -> int:
    match = _SIZE.fullmatch(str(space)) if not isinstance(space, bool) else None
    if match is None or match[2].lower() not in _UNITS:
        raise NablaError(
            "NABLA_ARGUMENT", f"{space!r} is no size", place="space=", remedy='Pass bytes, or a text such as "2 GB".'
        )
    return round(float(match[1]) * _UNITS[match[2].lower()])


def _sizes_of_tables(context: LakeContext, state: LakeState) -> Iterator[int]:
    for entry in state.entries.values():
        if entry.kind == "table":
            yield context.log.snapshot(entry.parts["data"]).bytes


def _read(
    context: LakeContext, state: LakeState, queries: Sequence[tuple[Query, float]], stored: bool
) -> tuple[list[Asked], list[Unreadable]]:
    """The plans of queries. Those that are `stored` in the lake's folder may come from anybody: only plain queries are read."""
    asked, skipped = [], []
    for place, (query, weight) in enumerate(queries):
        name = name_of(query, place)
        found = find_code(context.spark.named_session, query) if stored and isinstance(query, str) else None
        if found is not None:
            skipped.append(Unreadable(name, f"it has {found}"))
            continue
        try:
            frame = plain_frame(context, query) if isinstance(query, str) else query
            asked.append(Asked(name, readable_plan(context, state, frame), weight))
        except NablaError as error:
            skipped.append(Unreadable(name, f"{error.code}: {error.message}"))
    return asked, skipped


class _Advisor:
    """The workload over a state of the lake, with the views that are there."""

    def __init__(self, context: LakeContext, state: LakeState, asked: Sequence[Asked]) -> None:
        self.context, self.state, self.asked = context, state, asked
        self.known: Candidates = candidates_in(context, state)
        self.proofs: Proofs = proofs_in(context.log, state)
        self.existing = [self.known.stored(name) for name in self.known.usable]
        tables = {scan.table for query in asked for scan in query.plan.scans}
        tables |= {table for view in self.existing for table in (*view.tables, view.name)}
        self.rows = {name: self.known.rows(name) for name in tables if name in state.entries}

    def advice(self, space: int, upkeep: float | None, skipped: tuple[Unreadable, ...]) -> Advice:
        now = [self._find(query, self.existing, {}) for query in self.asked]
        seconds = [_seconds(found) for found in now]
        weights = [query.weight for query in self.asked]
        offers = without_needless_constants(self._offers(seconds), seconds, space)
        chosen = choose_offers(offers, seconds, weights, space, upkeep)
        then = [
            min([plain, *(c.offer.seconds[i] for c in chosen if i in c.offer.seconds)])
            for i, plain in enumerate(seconds)
        ]
        return Advice(
            tuple(self._proposal(one, number) for number, one in enumerate(chosen)),
            sum(s * w for s, w in zip(seconds, weights, strict=True)),
            sum(s * w for s, w in zip(then, weights, strict=True)),
            skipped,
            tuple(self._unused({view for found in now for view in found.views})),
        )

    def _find(self, query: Asked, views: Sequence[StoredView], rows: dict[str, int]) -> FoundAnswer:
        return find_answer(query.plan, ViewIndex(views), self.proofs, Sizes({**self.rows, **rows}))

    def _offers(self, seconds: Sequence[float]) -> list[Offer]:
        candidates = [c for c in candidates_of(q.plan for q in self.asked) if c.tables <= self.rows.keys()]
        groups = self._count_groups(candidates)
        found = []
        for candidate, rows in groups.items():
            view = StoredView("candidate", candidate.plan, candidate.labels)
            served = {}
            for place, query in enumerate(self.asked):
                answer = self._find(query, [view], {view.name: rows})
                if answer.views and _seconds(answer) < seconds[place]:
                    served[place] = _seconds(answer)
            if served:
                width = _BYTES_OF_KEY * len(candidate.keys) + _BYTES_OF_MEASURE * len(candidate.measures)
                found.append(Offer(candidate, _COPIES * rows * width, self._upkeep(candidate), served))
        return found

    def _count_groups(self, candidates: Sequence[Candidate]) -> dict[Candidate, int]:
        """The number of groups that each candidate has, approximately."""
        alike: dict[object, list[Candidate]] = {}
        for candidate in candidates:
            alike.setdefault((candidate.tables, candidate.joins, candidate.kept), []).append(candidate)
        found: dict[Candidate, int] = {}
        for group in alike.values():
            counted = [f"approx_count_distinct(xxhash64({', '.join(keys_of(c))}))" if c.keys else "1" for c in group]
            try:
                row = plain_frame(self.context, f"SELECT {', '.join(counted)} {source_of(group[0])}").first()
            except (NablaError, PySparkException):
                continue  # a constant that was left out may not fit its column
            assert row is not None
            found |= {c: max(1, int(n)) for c, n in zip(group, row, strict=True)}
        return found

    def _upkeep(self, candidate: Candidate) -> float:
        """The seconds of a refresh, after a change of the size that is usual."""
        changed = max((self._usual_change(table) for table in candidate.tables), default=0.0)
        return QUERY_SECONDS + changed / CHANGE_ROWS_PER_SECOND

    def _usual_change(self, table: str) -> float:
        """The changed rows of a table between two refreshes of a view of it."""
        seen = [
            past["changed_rows"]
            for entry in self.state.entries.values()
            for past in entry.facts.get("past", ())
            if table in past.get("changed", ())
        ]
        return sum(seen) / len(seen) if seen else ASSUMED_CHANGE * self.rows[table]

    def _proposal(self, chosen: Chosen, number: int) -> Proposal:
        candidate = chosen.offer.candidate
        serves = tuple(self.asked[place].name for place in chosen.serves)
        name = self._free_name(candidate, number)
        return Proposal(name, text_of(candidate), chosen.benefit, chosen.offer.upkeep, chosen.offer.bytes, serves)

    def _free_name(self, candidate: Candidate, number: int) -> str:
        largest = max(candidate.tables, key=lambda table: self.rows[table])
        wanted = f"{re.sub(r'[^a-z0-9_]', '_', largest.lower())}_summary_{number + 1}"
        taken = {name.lower() for name in self.state.entries}
        while wanted in taken:
            wanted += "_"
        return wanted

    def _unused(self, used: set[str]) -> Iterator[UnusedView]:
        for entry in self.state.entries.values():
            if entry.kind == "view" and entry.name not in used and not self._is_read(entry):
                view = load_view(entry.name, entry.definition)
                last = entry.facts.get("last") or {}
                size = table_of(self.context.log, entry).snapshot(entry.parts["data"].version).bytes
                yield UnusedView(entry.name, float(last.get("seconds", 0.0)), size, ADVISED in view.notes)

    def _is_read(self, entry: Entry) -> bool:
        """Whether a query names the view, or another object of the lake reads it."""
        if any(scan.table == entry.name for query in self.asked for scan in query.plan.scans):
            return True
        readers = (e for e in self.state.entries.values() if e.kind in ("view", "constraint"))
        return any(entry.name in load_view(r.name, r.definition).sources for r in readers)


def _seconds(found: FoundAnswer) -> float:
    return QUERY_SECONDS + found.rows / WORK_ROWS_PER_SECOND
