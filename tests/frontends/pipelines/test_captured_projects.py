"""Change data capture against a plain Python oracle, on random streams of events, without Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from nabla.frontends.pipelines.capture import target_query
from nabla.frontends.pipelines.elements import ChangeCapture

CASES = 1000
COLUMNS = ["k", "a", "b"]
Row = tuple[int | None, ...]


@dataclass(frozen=True)
class Event:
    sequence: int
    operation: str
    k: int | None
    a: int | None
    b: int | None


def latest(events: list[Event]) -> set[tuple[int | None, ...]]:
    """Type 1: what the events say if they are applied in the order of their sequence."""
    rows: dict[int | None, Event] = {}
    for event in sorted(set(events), key=lambda e: e.sequence):
        if event.operation == "truncate":
            rows.clear()
        elif event.operation == "delete":
            rows.pop(event.k, None)
        else:
            rows[event.k] = event
    return {(row.k, row.a, row.b) for row in rows.values()}


def history(events: list[Event], tracked: tuple[str, ...]) -> set[tuple[int | None, ...]]:
    """Type 2: the rows that open and close if the events are applied in the order of their sequence."""
    closed: list[tuple[int | None, ...]] = []
    current: dict[int | None, tuple[Event, int]] = {}
    for event in sorted(set(events), key=lambda e: e.sequence):
        row, start = current.pop(event.k, (None, 0))
        if event.operation == "delete":
            if row is not None:
                closed.append((row.k, row.a, row.b, start, event.sequence))
        elif row is not None and all(getattr(row, c) == getattr(event, c) for c in tracked):
            current[event.k] = (event, start)
        else:
            if row is not None:
                closed.append((row.k, row.a, row.b, start, event.sequence))
            current[event.k] = (event, event.sequence)
    return {*closed, *((row.k, row.a, row.b, start, None) for row, start in current.values())}


def stream(chance: random.Random, truncates: bool) -> list[Event]:
    """Events in any order, some of them twice. No two different ones have the same sequence."""
    events = []
    for sequence in chance.sample(range(40), chance.randrange(1, 25)):
        operation = chance.choices(("upsert", "delete", "truncate"), (8, 2, 1 if truncates else 0))[0]
        values = [chance.choice((1, 2, None)) for _ in "ab"]
        events.append(Event(sequence, operation, None if operation == "truncate" else chance.randrange(3), *values))
    events += chance.sample(events, len(events) // 4)
    chance.shuffle(events)
    return events


def answered(capture: ChangeCapture, events: list[Event]) -> list[tuple[int | None, ...]]:
    """The target by its query, which DuckDB runs here."""
    return [row[1:] for row in all_answered(capture, {0: events})]


def all_answered(capture: ChangeCapture, streams: dict[int, list[Event]]) -> list[tuple[int | None, ...]]:
    """The targets of many streams, whose numbers are the first part of the key and of the rows."""
    keyed = replace(
        capture, keys=("stream", *capture.keys), columns=("stream", *capture.columns) if capture.columns else ()
    )
    query = target_query(keyed, "events", ["stream", *COLUMNS], "")
    (text,) = sqlglot.transpile(query, read="spark", write="duckdb")
    names = ("stream", "k", "a", "b", "__sequence", "__operation")
    rows = [(n, e.k, e.a, e.b, e.sequence, e.operation) for n, events in streams.items() for e in events]
    types = [pa.int32()] * 5 + [pa.string()]
    table = pa.table(
        {name: pa.array(column, t) for name, t, column in zip(names, types, zip(*rows, strict=True), strict=True)}
    )
    with duckdb.connect() as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE events AS SELECT *, 0 AS __tie FROM given")
        return connection.execute(text).fetchall()


def check(capture: ChangeCapture, streams: dict[int, list[Event]], oracle: Callable[[list[Event]], set[Row]]) -> None:
    found: dict[int, list[Row]] = {seed: [] for seed in streams}
    for row in all_answered(capture, streams):
        found[row[0] or 0].append(row[1:])
    for seed, events in streams.items():
        assert len(found[seed]) == len(set(found[seed])), f"seed {seed}"
        assert set(found[seed]) == oracle(events), f"seed {seed}: {events}"


def test_the_last_event_of_each_key_counts_in_whatever_order_they_come() -> None:
    streams = {seed: stream(random.Random(seed), truncates=False) for seed in range(CASES)}
    check(ChangeCapture(("k",), "s", deletes="d"), streams, latest)


def test_a_truncation_empties_the_target_of_earlier_events() -> None:
    for seed in range(60):
        events = stream(random.Random(seed), truncates=True)
        assert set(answered(ChangeCapture(("k",), "s", truncates="t"), events)) == latest(events), f"seed {seed}"


@pytest.mark.parametrize("tracked", [("a", "b"), ("a",), ("b",)])
def test_history_opens_and_closes_rows_in_whatever_order_events_come(tracked: tuple[str, ...]) -> None:
    streams = {seed: stream(random.Random(seed), truncates=False) for seed in range(CASES // 2)}
    capture = ChangeCapture(("k",), "s", deletes="d", scd_type=2, track=tracked)
    check(capture, streams, lambda events: history(events, tracked))


def test_of_events_with_one_sequence_a_deletion_counts() -> None:
    events = [Event(1, "upsert", 1, 1, 1), Event(2, "upsert", 1, 2, 2), Event(2, "delete", 1, None, None)]
    assert answered(ChangeCapture(("k",), "s"), events) == []
    assert answered(ChangeCapture(("k",), "s", scd_type=2), events) == [(1, 1, 1, 1, 2)]


def test_only_the_chosen_columns_are_in_the_target() -> None:
    events = [Event(1, "upsert", 1, 5, 6)]
    assert answered(ChangeCapture(("k",), "s", columns=("k", "b")), events) == [(1, 6)]
    assert answered(ChangeCapture(("k",), "s", except_columns=("k",), scd_type=2), events) == [(5, 6, 1, None)]
