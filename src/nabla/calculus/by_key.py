"""Views that are computed key by key: their rows with a key depend only on the rows of the tables with the same key.

Nested views over relations in PNF are (Liu and Vincent, section 4, implementation form). With K the keys that occur in
the changes,

    op(r ± δ) = [op(r)]∉K ⊕ op([r]∈K ± δ)

The rows of the view with keys in K are replaced by the result of its query over the new rows with keys in K. Old states of
the tables are not read, because the view itself has the old result for K.
"""

from __future__ import annotations

from dataclasses import replace

from nabla.algebra.build import equal
from nabla.algebra.expressions import Column
from nabla.algebra.names import Mark, inner_table, mark_name, stored_fields, touched_table
from nabla.algebra.nodes import At, Distinct, Filter, Join, MalformedPlan, Node, Project, Scan, UnionAll
from nabla.calculus.delta import keys_of, mark_columns

TOUCHED = touched_table(inner_table("K"))
"""The name under which queries scan K."""

Key = tuple[str, ...]
"""The names that the key's columns have in all tables, and in the view."""


def touched_keys(root: Node, key: Key, changed: frozenset[str]) -> Node:
    """K: the keys that occur in the changes of the tables, each once."""
    scans = {node.table: node for node in root.walk() if isinstance(node, Scan) and node.table in changed}
    # Whole rows of the changes: projected to the key, the old and the new version of a row would cancel.
    keys = [_keys_in_change(scan, key) for scan in scans.values()]
    if len(keys) == 1:
        return keys[0]
    return Distinct(UnionAll(tuple(keys), keys[0].columns))


def _keys_in_change(scan: Scan, key: Key) -> Node:
    names = tuple(c.name for c in _key_columns(scan, key))
    return mark_columns(keys_of(replace(scan, at=At.DELTA), names))


def restrict_to_touched(root: Node, key: Key) -> Node:
    """The view's query over the new rows with keys in K."""
    match root:
        case Scan():
            return _with_key_in(root, key)
        case Filter() | Project():
            return root.with_inputs(restrict_to_touched(root.input, key))
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
