"""Looking a small change up in large tables: only the rows that it can join are handed to Spark.

A term of a delta joins the change with a table on an equality. When the values on the change's side are at hand, the
driver reads the table's key column, file by file, and of the few files' rows that match the columns that the query needs.
Spark then joins a few rows with a few rows. A table that is too large to look through on the driver is left to Spark's
broadcast join, and so is one that is too small to matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc

from nabla.algebra.nodes import (
    Aggregate,
    At,
    Consolidate,
    Filter,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    UnionAll,
    Unweigh,
    Weigh,
)
from nabla.algebra.rewrite import rewritten
from nabla.storage import reading
from nabla.storage.files import DataFile
from nabla.storage.table import Snapshot

SMALLEST, LARGEST = 100_000, 20_000_000
"""Rows of a table that is worth looking through on the driver."""
MOST_VALUES = 100_000
MOST_ROWS = 500_000
"""Keys that so many rows have are not selective: Spark joins better than the driver copies."""
READERS = 4
_NUMBERS = count()

Held = Callable[[Scan], pa.Table | None]
"""The rows of a relation in the order of its scan's columns, if they are at hand."""
Stored = Callable[[Scan], tuple[Snapshot, dict[str, str]] | None]
"""The snapshot that a scan reads, and what its fields are called in it."""


Shown = Callable[[Scan, str, pa.Array], tuple[pa.Table, pa.Array]]
"""What the change itself shows of the rows with given values in a stored column, and the values it does not settle."""


@dataclass
class Lookup:
    """Rewrites a query; `found` are the reduced relations that it then scans."""

    held: Held
    stored: Stored
    shown: Shown
    looked_at: int = 0
    found: dict[str, pa.Table] = field(default_factory=dict)

    def reduced(self, node: Node) -> Node:
        return rewritten(node, lambda part: self._join(part) if isinstance(part, Join) else part)

    def _join(self, join: Join) -> Join:
        for conjunct in join.on:
            if conjunct.sides is None:
                continue
            names = (conjunct.sides[0].column, conjunct.sides[1].column)
            for mine, other in (names, names[::-1]):
                if mine is None or other is None:
                    continue
                if join.kind in ("inner", "semi") and mine in join.right.names and other in join.left.names:
                    left = self._narrowed(join.left, other, join.right, mine)
                    if left is not None:
                        return replace(join, left=left)
                if (
                    join.kind in ("inner", "left", "semi", "anti")
                    and mine in join.left.names
                    and other in join.right.names
                ):
                    right = self._narrowed(join.right, other, join.left, mine)
                    if right is not None:
                        return replace(join, right=right)
        return join

    def _narrowed(self, table: Node, column: str, change: Node, key: str) -> Node | None:
        """The side `table` with its scan reduced to the values that the column `key` of the other side has."""
        path = list(_chain(table))
        scan = path[-1]
        if not isinstance(scan, Scan) or self.held(scan) is not None:
            return None
        name: str | None = column
        for node in path[:-1]:
            if isinstance(node, Project) and name is not None:
                name = node.definitions[name].column
        stored = self.stored(scan)
        if name is None or stored is None or not SMALLEST <= stored[0].rows <= LARGEST:
            return None
        if pa.types.is_floating(stored[0].schema.field(stored[1][_field(scan, name)]).type):
            return None  # Spark takes -0.0 and 0.0 as equal, Arrow does not
        values = self._values(change, key)
        if values is None or len(values) > MOST_VALUES:
            return None
        smaller: Node | None = self._look_up(scan, name, values, *stored)
        if smaller is None:
            return None
        for node in reversed(path[:-1]):
            smaller = node.with_inputs(smaller)
        return smaller

    def _look_up(
        self, scan: Scan, name: str, values: pa.Array, snapshot: Snapshot, fields: dict[str, str]
    ) -> Node | None:
        by_name = {c.name: fields[f] for c, f in zip(scan.output, scan.fields, strict=True)}
        columns = list(by_name.values())
        shown, left = self.shown(scan, by_name[name], values)
        rows = matching(snapshot, by_name[name], left, columns)
        self.looked_at += snapshot.rows if len(left) else 0
        if rows is None:
            return None
        rows = pa.concat_tables([shown.select(columns).cast(rows.schema), rows])
        label = f"@{scan.table}~{next(_NUMBERS)}"
        self.found[label] = rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
        return Scan(label, At.NEW, scan.output, tuple(f"c{i}" for i in range(len(scan.output))))

    def rows(self, scan: Scan) -> pa.Table | None:
        if scan.table in self.found:
            places = [int(f.removeprefix("c")) for f in scan.fields]
            return self.found[scan.table].select(places)
        return self.held(scan)

    def _values(self, node: Node, name: str) -> pa.Array | None:
        """The values that a column can have, a superset, or None where they are not at hand."""
        match node:
            case Scan():
                rows = self.rows(node)
                if rows is None:
                    return None
                place = [c.name for c in node.output].index(name)
                return _distinct(rows.column(place))
            case Project():
                below = node.definitions[name].column
                return None if below is None else self._values(node.input, below)
            case Filter() | Negate() | Consolidate() | Unweigh():
                return self._values(node.inputs[0], name)
            case Weigh():
                return self._values(node.input, name) if name in node.input.names else None
            case Aggregate():
                return self._values(node.input, name) if name in node.keys else None
            case Join():
                side = node.left if name in node.left.names else node.right
                kept = side is node.left or node.kind == "inner"
                return self._values(side, name) if kept and node.kind not in ("right", "full") else None
            case UnionAll():
                return self._union_values(node, name)
        return None

    def _union_values(self, node: UnionAll, name: str) -> pa.Array | None:
        place = [c.name for c in node.output].index(name)
        pieces = []
        for member in node.members:
            values = self._values(member, member.columns[place].name)
            if values is None:
                return None
            pieces.append(values)
        return pc.unique(pa.chunked_array(pieces))


def _field(scan: Scan, name: str) -> str:
    return scan.fields[[c.name for c in scan.output].index(name)]


def _chain(node: Node) -> Iterator[Node]:
    """Filters and projections down to what they stand on."""
    yield node
    while isinstance(node, Filter | Project):
        node = node.input
        yield node


def _distinct(column: pa.ChunkedArray) -> pa.Array:
    values = pc.unique(column)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def matching(snapshot: Snapshot, key: str, values: pa.Array, columns: list[str]) -> pa.Table | None:
    """The rows of a version whose column `key` has one of the values, NULL among them if it is given; None if too many."""
    kind = snapshot.schema.field(key).type
    wanted = values.cast(kind)
    low, high = (bound.as_py() for bound in pc.min_max(wanted).values()) if len(wanted) else (None, None)

    taken: list[int] = []

    def read(file: DataFile) -> pa.Table | None:
        if _outside(file, key, low, high, wanted.null_count > 0) or sum(taken) > MOST_ROWS:
            return None
        mask = pc.is_in(reading.read_file(snapshot, file, [key])[key], value_set=wanted)
        here = pc.sum(mask).as_py() or 0
        taken.append(here)
        if not here or sum(taken) > MOST_ROWS:
            return None
        return reading.read_file(snapshot, file, columns).filter(mask)

    with ThreadPoolExecutor(READERS) as pool:
        pieces = [piece for piece in pool.map(read, snapshot.files) if piece is not None] if len(wanted) else []
    if sum(taken) > MOST_ROWS:
        return None
    empty = pa.schema([snapshot.schema.field(c) for c in columns]).empty_table()
    return pa.concat_tables([empty, *pieces])


def _outside(file: DataFile, key: str, low: object, high: object, nulls: bool) -> bool:
    """Whether the statistics of a file tell that no value is in it."""
    if nulls and file.nulls.get(key) != 0:
        return False
    if low is None or high is None:
        return True
    smallest, largest = file.minimum.get(key), file.maximum.get(key)
    try:
        return (smallest is not None and high < smallest) or (largest is not None and low > largest)  # type: ignore[operator]
    except TypeError:
        return False
