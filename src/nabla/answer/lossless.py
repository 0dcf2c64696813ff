"""Joins of a view that the query does not have, and that neither lose nor multiply a row of the others."""

from __future__ import annotations

from collections.abc import Sequence

from nabla.algebra.expressions import Expr
from nabla.answer.blocks import Leaf
from nabla.answer.facts import Proofs
from nabla.answer.predicates import Known
from nabla.answer.reasons import NoMatch


def equated(conjuncts: Sequence[Expr], leaf: Leaf) -> dict[str, str]:
    """The fields of a leaf that conjuncts equate with columns of other leaves."""
    own = {name: field for field, name in leaf.fields.items()}
    found: dict[str, str] = {}
    for conjunct in conjuncts:
        if conjunct.sides is None or conjunct.null_safe:
            continue
        for one, other in (conjunct.sides, conjunct.sides[::-1]):
            if one.column in own and other.column is not None and other.column not in own and one.type == other.type:
                found.setdefault(own[one.column], other.column)
    return found


def drop_extras(
    extras: Sequence[Leaf], others: Sequence[Leaf], conjuncts: Sequence[Expr], known: Known, proofs: Proofs
) -> tuple[list[Expr], list[Expr]]:
    """Prove that the leaves that only the view has are lossless. Gives the view's other conjuncts, which the query has to
    imply, and those that hold by the proof. Raises NoMatch where a join may lose or multiply rows."""
    waiting, left, proved = list(extras), list(conjuncts), list[Expr]()
    while waiting:
        joined = [*others, *waiting]
        leaf = next((e for e in waiting if _partners(e, joined, left) <= 1), None)
        if leaf is None:
            raise NoMatch("TABLES", f"it joins {waiting[0].table or 'a subquery'}, which the query does not read")
        inside = [c for c in left if not c.columns.isdisjoint(leaf.node.names)]
        _prove(leaf, joined, inside, known, proofs)
        waiting.remove(leaf)
        left = [c for c in left if c not in inside]
        proved += inside
    return left, proved


def _partners(leaf: Leaf, joined: Sequence[Leaf], conjuncts: Sequence[Expr]) -> int:
    """The number of leaves that a leaf is joined with. A view's extra tables go from their ends inwards."""
    own = [c for c in (*conjuncts, *(leaf.on or ())) if not c.columns.isdisjoint(leaf.node.names)]
    own += [c for o in joined if o is not leaf for c in o.on or () if not c.columns.isdisjoint(leaf.node.names)]
    return sum(any(not c.columns.isdisjoint(o.node.names) for c in own) for o in joined if o is not leaf)


def _prove(leaf: Leaf, others: Sequence[Leaf], inside: Sequence[Expr], known: Known, proofs: Proofs) -> None:
    if leaf.table is None:
        raise NoMatch("TABLES", "it joins a subquery that the query does not have")
    conditions = inside if leaf.on is None else leaf.on
    pairs = equated(conditions, leaf)
    fields = tuple(sorted(pairs))
    if not pairs or not proofs.unique(leaf.table, fields):
        raise NoMatch("KEY", f"it joins {leaf.table}, and nothing proves that each row meets one row of it at most")
    if leaf.on is not None:
        if inside:
            raise NoMatch("PREDICATE", f"it filters {leaf.table}, which the query does not read")
        return
    if len(inside) > len(pairs):
        raise NoMatch("PREDICATE", f"it filters {leaf.table}, which the query does not read")
    if len(pairs) > 1:
        raise NoMatch(
            "KEY", f"it joins {leaf.table} by several columns, and nothing proves that each row meets one of it"
        )
    ((field, column),) = pairs.items()
    source = next((o for o in others if column in o.node.names), None)
    if source is None or source.table is None or source.on is not None:
        raise NoMatch("KEY", f"it joins {leaf.table} by a column that refers to no table")
    name = next(f for f, n in source.fields.items() if n == column)
    if not proofs.refers(source.table, name, leaf.table, field):
        raise NoMatch("KEY", f"it joins {leaf.table}, and nothing proves that each {source.table}.{name} is in it")
    if not proofs.has_values(source.table, name) and known.same(column) not in known.valued:
        raise NoMatch("KEY", f"it joins {leaf.table}, and {source.table}.{name} may be NULL")
