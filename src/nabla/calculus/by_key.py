"""Views that are computed key by key: their rows with a key depend only on the rows of the tables with the same key.

Nested views over relations in PNF are (Liu and Vincent, section 4, implementation form). With K the keys that occur in
the changes,

    op(r ± δ) = [op(r)]∉K ⊕ op([r]∈K ± δ)

The rows of the view with keys in K are replaced by the result of its query over the new rows with keys in K. Old states of
the tables are not read, because the view itself has the old result for K.

A join below the top level (`stud.join("test", at="Subjs")`) reads one more relation, whose rows have keys of their own: a row
of the view depends on those that its tuples at that level meet. If such rows change, K has the keys of the rows that meet
them, which have to be looked for: that is the only part of maintenance that reads a whole table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nabla.algebra.build import equal
from nabla.algebra.equalities import equality_of
from nabla.algebra.expressions import Column
from nabla.algebra.names import Mark, inner_table, mark_name, stored_fields, touched_table
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Distinct,
    Filter,
    Generate,
    Join,
    MalformedPlan,
    Node,
    Project,
    Scan,
    UnionAll,
)
from nabla.calculus.delta import Derivation, keys_of, mark_columns

TOUCHED = touched_table(inner_table("K"))
"""The name under which queries scan K."""

Key = tuple[str, ...]
"""The names that the key's columns have in all tables, and in the view."""


@dataclass(frozen=True)
class TouchedKeys:
    """K, the keys of the view that the changes touch: those of the changed rows of `tables`, and of the rows that meet changed
    rows of other tables below the top level, which the query `met` finds. `node` gives them all."""

    tables: tuple[str, ...]
    met: Node | None
    node: Node


def touched_keys(root: Node, key: Key, changed: frozenset[str]) -> TouchedKeys | None:
    """K, each key once; None if no change touches the view."""
    scans: _Scans = {}
    matches: list[_Matches] = []
    _collect(root, scans, matches)
    moved = [scan for scan in scans.values() if scan.table in changed]
    # All that is read of the changes: projected to the key, the old and the new version of a row would cancel.
    own = [_keys_in_change(scan, key) for scan in moved]
    met = [found for one in matches if (found := one.keys_of_changed(key, changed)) is not None]
    if not own and not met:
        return None
    tables = tuple(dict.fromkeys(scan.table for scan in moved))
    return TouchedKeys(tables, _all_of(met) if met else None, _all_of([*own, *met]))


def meets_changed(root: Node, changed: frozenset[str]) -> bool:
    """Whether a join below the top level reads a table that changed: then any row of the view may be touched."""
    matches: list[_Matches] = []
    _collect(root, {}, matches)
    return any(scan.table in changed for one in matches for scan in one.join.right.scans)


def bounding_tables(root: Node) -> frozenset[str]:
    """Tables that have all keys of the view. A key that is new in one of them is new in the view, too."""
    match root:
        case Scan():
            return frozenset((root.table,))
        case Join(kind="inner" | "semi"):
            return bounding_tables(root.left) | bounding_tables(root.right)
        case Join(kind="full"):
            return bounding_tables(root.left) & bounding_tables(root.right)
        case Filter() | Project() | Join(kind="left" | "anti"):
            return bounding_tables(root.inputs[0])
    return frozenset()


def _all_of(keys: list[Node]) -> Node:
    return keys[0] if len(keys) == 1 else Distinct(UnionAll(tuple(keys), keys[0].columns))


def _keys_in_change(scan: Scan, key: Key) -> Node:
    names = tuple(c.name for c in _key_columns(scan, key))
    return mark_columns(keys_of(replace(scan, at=At.DELTA), names))


@dataclass(frozen=True)
class _Matches:
    """A join below the top level: an aggregate that lists for each key the rows of another relation that meet it. Its input
    is a join of the unnested keys of the level with that relation, which has no rows by the key of the view."""

    node: Aggregate

    @property
    def join(self) -> Join:
        join = self.node.input
        while isinstance(join, Filter | Project):
            join = join.input
        if not isinstance(join, Join) or join.kind != "inner":
            raise MalformedPlan("an aggregate that lists no matches, in a view that is computed key by key")
        return join

    def keys_of_changed(self, key: Key, changed: frozenset[str]) -> Node | None:
        """The keys of rows that meet changed rows of the other relation. Rows are those of the new state: a row that changed
        itself is touched anyway."""
        near, other = self.join.left, self.join.right
        change = Derivation(changed).d(other)
        if change is None:
            return None
        pairs = [found.columns for on in self.join.on if (found := equality_of(self.join, on)) and found.columns]
        met = mark_columns(keys_of(change, tuple(theirs for _, theirs in pairs)), Mark.KEY)
        on = tuple(
            equal(near.column(ours).ref, met.column(mark_name(theirs, Mark.KEY)).ref, null_safe=True)
            for ours, theirs in pairs
        )
        by_label = {near.column(name).label: name for name in self.node.keys}
        return mark_columns(Aggregate(Join(near, met, on, "semi"), tuple(by_label[name] for name in key)))

    def restrict(self, key: Key) -> Node:
        """The matches of the keys in K."""

        def visit(node: Node) -> Node:
            if node is self.join:
                return node.with_inputs(restrict_to_touched(self.join.left, key), self.join.right)
            return node.with_inputs(*map(visit, node.inputs))

        return visit(self.node)


_Scans = dict[tuple[str, tuple[str, ...]], Scan]
"""Scans by their tables and what they read of them."""


def _collect(node: Node, scans: _Scans, matches: list[_Matches]) -> None:
    """The scans of tables whose rows have the key of the view, and the joins below the top level."""
    if isinstance(node, Scan):
        scans.setdefault((node.table, node.fields), node)
    elif isinstance(node, Aggregate):
        matches.append(found := _Matches(node))
        _collect(found.join.left, scans, matches)
    else:
        for part in node.inputs:
            _collect(part, scans, matches)


def restrict_to_touched(root: Node, key: Key) -> Node:
    """The view's query over the new rows with keys in K."""
    match root:
        case Scan():
            return _with_key_in(root, key)
        case Filter() | Project() | Generate():
            return root.with_inputs(restrict_to_touched(root.input, key))
        case Aggregate():
            return _Matches(root).restrict(key)
        case Join():  # both sides are restricted, so that Spark can broadcast either
            return root.with_inputs(restrict_to_touched(root.left, key), restrict_to_touched(root.right, key))
    raise MalformedPlan(f"{type(root).__name__} in a view that is computed key by key")


def restricted_scan(node: Node) -> Scan | None:
    """The scan that a node restricts to keys in K; None if the node is something else."""
    match node:
        case Join(kind="semi", left=Scan() as scan, right=Scan(table=table)) if table == TOUCHED:
            return scan
    return None


def _with_key_in(scan: Scan, key: Key) -> Node:
    columns = _key_columns(scan, key)
    marked = tuple(c.rename(mark_name(c.name, Mark.KEY)) for c in columns)
    keys = Scan(TOUCHED, At.NEW, marked, stored_fields(columns))
    on = tuple(equal(a.ref, b.ref, null_safe=True) for a, b in zip(columns, keys.columns, strict=True))
    return Join(scan, keys, on, "semi")


def _key_columns(scan: Scan, key: Key) -> tuple[Column, ...]:
    return tuple(scan.output[scan.fields.index(name)] for name in key)
