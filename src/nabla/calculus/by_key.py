"""Views that are computed key by key: what they have for a key depends on the rows of the tables with that key alone.

Nested views over relations in PNF are (Liu and Vincent, section 4, implementation form). With K the keys that occur in
the changes,

    op(r ± δ) = [op(r)]∉K ⊕ op([r]∈K ± δ)

The rows of the view with keys in K are replaced by what its query gives over the new rows with keys in K. Old states of
the tables are not read: what the view had for K it still has.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from nabla.algebra.expressions import Column, equal
from nabla.algebra.nodes import At, Distinct, Filter, Join, MalformedPlan, Node, Project, Scan, UnionAll
from nabla.calculus.delta import keys_of
from nabla.calculus.stages import stored_fields

TOUCHED = "@K.touched"
"""The name under which queries scan K."""

Key = tuple[str, ...]
"""The names that the key's columns have in all tables, and in the view."""


def touched_keys(root: Node, key: Key, changed: frozenset[str]) -> Node:
    """K: the keys that occur in the changes of the tables, each once."""
    scans = {node.table: node for node in root.walk() if isinstance(node, Scan) and node.table in changed}
    # Whole rows of the changes: projected to the key, the old and the new version of a row would cancel.
    keys = [
        keys_of(replace(scan, at=At.DELTA), tuple(c.name for c in _key_columns(scan, key))) for scan in scans.values()
    ]
    if len(keys) == 1:
        return keys[0]
    return Distinct(UnionAll(tuple(keys), keys[0].columns))


def of_touched(root: Node, key: Key) -> Node:
    """The view's query over the new rows with keys in K."""
    numbers = count(1)

    def near(node: Node) -> Node:
        match node:
            case Scan():
                return _with_key_in(node, key, f"K{next(numbers)}")
            case Filter() | Project():
                return node.with_inputs(near(node.input))
            case Join():  # both sides, so that either can be the one that is broadcast
                return node.with_inputs(near(node.left), near(node.right))
        raise MalformedPlan(f"{type(node).__name__} in a view that is computed key by key")

    return near(root)


def restricted_scan(node: Node) -> Scan | None:
    """The scan whose rows with keys in K a node is, if it is that."""
    match node:
        case Join(kind="semi", left=Scan() as scan, right=Scan(table=table)) if table == TOUCHED:
            return scan
    return None


def _with_key_in(scan: Scan, key: Key, mark: str) -> Node:
    columns = _key_columns(scan, key)
    keys = Scan(TOUCHED, At.NEW, tuple(c.renamed(f"{c.label}#{mark}") for c in columns), stored_fields(columns))
    on = tuple(equal(a.ref, b.ref, null_safe=True) for a, b in zip(columns, keys.columns, strict=True))
    return Join(scan, keys, on, "semi")


def _key_columns(scan: Scan, key: Key) -> tuple[Column, ...]:
    return tuple(scan.output[scan.fields.index(name)] for name in key)
