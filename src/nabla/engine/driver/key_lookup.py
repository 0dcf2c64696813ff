"""Looking a small change up in large tables: only the rows that it can join are handed to Spark.

A term of a delta joins the change with tables on equalities. When the values on one side are at hand, the driver pushes
them down the other side to the tables that the column comes from, reads of these the key column, file by file, and of
the rows that match the columns that the query needs. Spark then joins a few rows with a few rows. A table that is too
large to look through on the driver is left to Spark's broadcast join, and so is one that is too small to matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc

from nabla.algebra.equalities import exactly_equal_columns
from nabla.algebra.memo import Memo
from nabla.algebra.names import held_table, place_of, stored_fields
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Consolidate,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Negate,
    Node,
    Project,
    Scan,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.traverse import with_inputs
from nabla.engine.driver.row_search import RowSearch
from nabla.engine.driver.value_bounds import Held, ValueBounds
from nabla.rewrite.drop_empty import drop_empty
from nabla.storage import reading
from nabla.storage.table import Snapshot

SMALLEST, LARGEST = 2_000, 100_000_000
"""Rows of a table that is worth looking through on the driver. A smaller one is read whole; of a larger one that much may
have to be looked through, where statistics tell that the values are nowhere else."""
MOST_LOOKED_UP = 100_000
MUCH_SMALLER = 4
"""A table this many times smaller than another is looked up first: it may leave fewer values for the large one."""
_NUMBERS = count()


@dataclass(frozen=True)
class StoredScan:
    """The table that a scan reads: its version, the stored names of the fields, and rows to add, under these names. `own`
    says that all its files are Nabla's."""

    snapshot: Snapshot
    fields: dict[str, str]
    more: pa.Table | None = None
    own: bool = False


Shown = Callable[[Scan, str, pa.Array], tuple[pa.Table, pa.Array]]
"""Gives the rows with given values in a stored column that the change itself shows, and the values it does not settle."""


@dataclass
class Lookup:
    """Rewrites a query; `found` are the reduced relations that it then scans."""

    held: Held
    stored: Callable[[Scan], StoredScan | None]
    shown: Shown
    found: dict[str, pa.Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bounds = ValueBounds(self.rows)
        self._search = RowSearch()
        self._done: Memo[Node, Node] = Memo()
        self._driven: set[str] = set()
        self._narrowed: Memo[Node, Memo[pa.Array, dict[str, Node]]] = Memo()

    @property
    def looked_at(self) -> int:
        return self._search.looked_at

    def reduce(self, node: Node) -> Node:
        """Look up in small tables first, then reduce the inputs, then use the values that these made known."""
        return self._done.once(node, self._reduce_once)

    def _reduce_once(self, node: Node) -> Node:
        if isinstance(node, Scan):
            return self._whole(node)
        before = self._join(node, first=True) if isinstance(node, Join) else node
        below = with_inputs(before, [self.reduce(part) for part in before.inputs])
        after = self._join(below) if isinstance(below, Join) else below
        return drop_empty(after, self._bounds.empty)

    def rows(self, scan: Scan) -> pa.Table | None:
        if scan.table in self.found:
            places = [place_of(f) for f in scan.fields]
            return self.found[scan.table].select(places)
        return self.held(scan)

    def _join(self, join: Join, first: bool = False) -> Join:
        """Each side narrowed to the values of the other, where rows without a partner do not matter."""
        for mine, other in exactly_equal_columns(join):
            if not first:
                join = self._narrow_left(self._narrow_right(join, mine, other), mine, other)
            elif self._smaller(join.right, join.left):
                join = self._narrow_right(join, mine, other)
                join = self._narrow_left(join, mine, other) if self._fewer(join.right, other, join.left, mine) else join
            elif self._smaller(join.left, join.right):
                join = self._narrow_left(join, mine, other)
                join = (
                    self._narrow_right(join, mine, other) if self._fewer(join.left, mine, join.right, other) else join
                )
        return join

    def _narrow_right(self, join: Join, mine: str, other: str) -> Join:
        if join.kind not in ("inner", "left", "semi", "anti"):
            return join
        right = self._narrow(join.right, other, self._driving(join.left, mine))
        return join if right is join.right else replace(join, right=right)

    def _narrow_left(self, join: Join, mine: str, other: str) -> Join:
        if join.kind not in ("inner", "right", "semi"):
            return join
        left = self._narrow(join.left, mine, self._driving(join.right, other))
        return join if left is join.left else replace(join, left=left)

    def _fewer(self, one: Node, name: str, other: Node, its: str) -> bool:
        """Whether one column has clearly fewer values than the other, or its values cannot be narrowed further."""
        fewer, more = self._values(one, name), self._values(other, its)
        if fewer is None:
            return False
        return self._largest(one) == 0 if more is None else len(fewer) * MUCH_SMALLER <= len(more)

    def _values(self, node: Node, name: str) -> pa.Array | None:
        values = self._bounds.values(node, name)
        return None if values is None or len(values) > MOST_LOOKED_UP else values

    def _driving(self, node: Node, name: str) -> pa.Array | None:
        """Values that come from a change. Those of a table that is small anyway are not worth reading a large one for."""
        driven = any(
            scan.table in self._driven or (scan.table not in self.found and self.held(scan) is not None)
            for scan in node.scans
        )
        return self._values(node, name) if driven else None

    def _smaller(self, one: Node, other: Node) -> bool:
        return self._largest(one) * MUCH_SMALLER <= self._largest(other)

    def _largest(self, node: Node) -> int:
        """The rows of the largest table that would have to be read."""
        scans = {scan for scan in node.scans if self.rows(scan) is None}
        return max((s.snapshot.rows for n in scans if (s := self.stored(n)) is not None), default=0)

    def _narrow(self, node: Node, name: str, values: pa.Array | None) -> Node:
        """The query less rows whose column `name` has none of the values; nothing else changes."""
        if values is None:
            return node
        known = self._narrowed.setdefault(node, Memo()).setdefault(values, {})
        if name not in known:
            known[name] = self._narrow_once(node, name, values)
        return known[name]

    def _narrow_once(self, node: Node, name: str, values: pa.Array) -> Node:
        match node:
            case Scan():
                return self._look_up(node, name, values)
            case Filter() | Negate() | Consolidate() | Unweigh() | Distinct():
                return self._through(node, name, values)
            case Weigh() if name in node.input.names:
                return self._through(node, name, values)
            case Aggregate(keys=group) | Window(partition=group) if name in group:
                return self._through(node, name, values)
            case Project():
                below = node.definitions[name].column
                return node if below is None else self._through(node, below, values)
            case UnionAll() | ExceptAll() | IntersectAll():
                place = [c.name for c in node.columns].index(name)
                parts = [self._narrow(part, part.columns[place].name, values) for part in node.inputs]
                return with_inputs(node, parts)
            case Join():
                return self._through_join(node, name, values)
        return node

    def _through(self, node: Node, name: str, values: pa.Array) -> Node:
        return with_inputs(node, [self._narrow(node.inputs[0], name, values)])

    def _through_join(self, join: Join, name: str, values: pa.Array) -> Join:
        """Narrowing a side may let the other be narrowed in turn."""
        smaller = join
        if name in join.left.names and join.kind in ("inner", "left", "semi", "anti"):
            left = self._narrow(join.left, name, values)
            smaller = join if left is join.left else replace(join, left=left)
        elif name in join.right.names and join.kind in ("inner", "right"):
            right = self._narrow(join.right, name, values)
            smaller = join if right is join.right else replace(join, right=right)
        return join if smaller is join else self._join(smaller)

    def _whole(self, scan: Scan) -> Scan:
        """Read a small table as a whole; leave others as they are."""
        stored = self.stored(scan) if self.rows(scan) is None else None
        if stored is None or stored.snapshot.rows >= SMALLEST:
            return scan
        columns = [stored.fields[f] for f in scan.fields]
        pieces = [reading.read(stored.snapshot, columns)]
        if stored.more is not None:
            pieces.append(stored.more.select(columns).cast(pieces[0].schema))
        return self._hold(scan, pa.concat_tables(pieces)) if columns else scan

    def _look_up(self, scan: Scan, name: str, values: pa.Array) -> Scan:
        scan = self._whole(scan)
        if scan.table in self.found:
            return self._among_found(scan, name, values)
        stored = self.stored(scan) if self.held(scan) is None else None
        if stored is None or stored.snapshot.rows < SMALLEST:
            return scan
        by_name = {c.name: stored.fields[f] for c, f in zip(scan.output, scan.fields, strict=True)}
        columns = list(by_name.values())
        shown, left = self.shown(scan, by_name[name], values)
        if len(left) * 2 > len(values):  # look up all values, so that both versions share the columns that are read
            shown, left = shown.slice(0, 0), values
        rows = self._search.rows(stored.snapshot, by_name[name], left, columns, LARGEST, own=stored.own)
        if rows is None:
            return scan
        pieces = [shown.select(columns).cast(rows.schema), rows]
        if stored.more is not None:
            here = stored.more[by_name[name]]
            wanted = pc.is_in(here, value_set=values.cast(here.type))
            pieces.append(stored.more.filter(wanted).select(columns).cast(rows.schema))
        return self._driven_by_change(self._hold(scan, pa.concat_tables(pieces)))

    def _among_found(self, scan: Scan, name: str, values: pa.Array) -> Scan:
        rows = self.rows(scan)
        assert rows is not None
        column = rows.column([c.name for c in scan.output].index(name))
        if column.type != values.type:
            return scan
        fewer = rows.filter(pc.is_in(column, value_set=values))
        return self._driven_by_change(self._hold(scan, fewer)) if fewer.num_rows * 2 < rows.num_rows else scan

    def _driven_by_change(self, scan: Scan) -> Scan:
        self._driven.add(scan.table)
        return scan

    def _hold(self, scan: Scan, rows: pa.Table) -> Scan:
        label = held_table(scan.table, next(_NUMBERS))
        fields = stored_fields(rows.columns)
        self.found[label] = rows.rename_columns(list(fields))
        return Scan(label, At.NEW, scan.output, fields)
