"""A small lake with a table and a view that move together, step by step: what each step leaves behind is known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Schema
from storage_oracle import bag

from nabla.storage import bags, changes, files, reading
from nabla.storage.catalog import Entry, Part
from nabla.storage.lakelog import LakeLog
from nabla.storage.rewrite import rewrite
from nabla.storage.table import StoredTable
from nabla.storage.vacuum import vacuum

STEPS = 3
ROWS = pa.schema([("id", pa.int64())])
FEED = pa.schema([("id", pa.int64()), ("_change_type", pa.string()), ("_version", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())}, schema=ROWS)


def create(lake: LakeLog, name: str, schema: pa.Schema, content: pa.Table | None = None) -> Part:
    path = lake.new_path(name)
    adds = () if content is None else files.write(lake.folder(path), content)
    StoredTable.create(lake.folder(path), Schema.from_arrow(schema).to_json(), adds)
    return Part(path, 0)


def steps_done(lake: LakeLog) -> int:
    """The commits of the story; those of vacuums do not belong to it, and neither does the first, which makes the lake."""
    return sum(record.operation != "vacuum" for record in lake.history()) - 1


def step(lake: LakeLog, number: int) -> None:
    """Step 0 makes a table, step 1 a view of it; step k puts row k into both and takes row k - 2 out."""
    state = lake.state()
    assert steps_done(lake) == number
    if number == 0:
        part = create(lake, "orders", ROWS, rows(0, 1, 1))
        lake.commit({"orders": Entry("orders", "table", {"key": "id"}, {"data": part})}, state, "create table")
    elif number == 1:
        # The build of the view is a promise: its table exists, empty, before the lake knows of it.
        data, feed = create(lake, "doubled", ROWS), create(lake, "doubled-feed", FEED)
        data = data.advanced(files.write(lake.folder(data), rows(0, 1, 1)))
        view = Entry("doubled", "view", {"sql": "SELECT id FROM orders"}, {"data": data, "feed": feed})
        lake.commit({"doubled": view}, state, "create view")
    else:
        _move(lake, number)


def _move(lake: LakeLog, number: int) -> None:
    state = lake.state()
    delete, insert = rows(number - 2), rows(number)
    orders, view = state.entries["orders"], state.entries["doubled"]
    change = bags.consolidate(pa.concat_tables([bags.negated(bags.counted(delete)), bags.counted(insert)]))
    recorded = changes.record(lake.folder(orders.parts["data"]), change)
    said = {changes.KEY: [file.to_json() for file in recorded]}
    fed = pa.table(
        {"id": [number - 2, number], "_change_type": ["delete", "insert"], "_version": [number, number]}, schema=FEED
    )
    parts = {
        "data": _rewritten(lake, view.parts["data"], delete, insert, {}),
        "feed": view.parts["feed"].advanced(files.write(lake.folder(view.parts["feed"]), fed)),
    }
    moved = {
        "orders": Entry(
            "orders", "table", orders.definition, {"data": _rewritten(lake, orders.parts["data"], delete, insert, said)}
        ),
        "doubled": Entry("doubled", "view", view.definition, parts),
    }
    lake.commit(moved, state, "move", {"doubled": {"inserted": 1, "deleted": 1}})


def _rewritten(lake: LakeLog, part: Part, delete: pa.Table, insert: pa.Table, said: dict[str, Any]) -> Part:
    done = rewrite(lake.table(part).snapshot(part.version), delete, insert)
    assert done.missing.num_rows == 0
    return part.advanced(done.adds, done.removes, said)


def run(path: str | Path) -> None:
    """The whole story, from wherever an earlier teller was interrupted; it ends with a vacuum."""
    lake = LakeLog.open(path) if LakeLog.exists(path) else LakeLog.create(path)
    for number in range(steps_done(lake), STEPS):
        step(lake, number)
    vacuum(lake, {}, grace=0)


def content(lake: LakeLog, part: Part) -> Counter[Any]:
    return bag(reading.read(lake.table(part).snapshot(part.version)))


def check(lake: LakeLog) -> None:
    """The lake is exactly as its steps leave it, and its tables have no version beyond that."""
    state = lake.state()
    number = steps_done(lake)
    assert set(state.entries) == {"orders", "doubled"} - ({"doubled"} if number < 2 else set()) - (
        {"orders"} if number < 1 else set()
    )
    expected = Counter({(0,): 1, (1,): 2})
    for k in range(2, number):
        expected[(k,)] += 1
        expected[(k - 2,)] -= 1
    for entry in state.entries.values():
        assert content(lake, entry.parts["data"]) == +expected
        for part in entry.parts.values():
            assert lake.table(part).latest() == part.version
    if number >= 2:
        fed = Counter({row: 1 for k in range(2, number) for row in ((k, "insert", k), (k - 2, "delete", k))})
        assert content(lake, state.entries["doubled"].parts["feed"]) == fed
