"""The papers' own form of a change: ∇Q, the rows that it deletes from a set, and ΔQ, the rows that it inserts.

`Pairs(changed).of(q)` derives the pair of expressions for a view in set form (see set_form.py), by one rule an operator.
A rule is a row of the papers' tables with its transcription below it. The pairs are *minimal*, ∇Q ⊆ Q and ΔQ ∩ Q = ∅,
if those of the tables are. Nothing is computed: both are plans, which share their common parts. As a graph a pair
is linear in the size of the view; written out it would be exponential (thesis 4.3.1).

Nabla's engine uses signed bags instead (rules.py), because views have duplicates. The papers prove their theorems about
pairs, `explain` can show them in the papers' notation, and tests compare them with the engine's derivation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nabla.algebra.memo import Memo
from nabla.algebra.nodes import At, Node, Scan
from nabla.papers import pair_rules as pair_rules  # registers the rules
from nabla.papers.pair_laws import BaseRelation, Operand, ViewOperator, operators, pair_rule_of
from nabla.papers.sets import RowSet


@dataclass(frozen=True, eq=False)
class Pair:
    """∇Q and ΔQ as plans; None is the empty set."""

    delete: Node | None
    insert: Node | None


class Pairs:
    """∇Q and ΔQ for every part Q of a view, for a change of the tables `changed`.

    Read at OLD these are *pre-update* expressions: the tables are as they were before the change. Read at NEW they are
    *post-update*: each R is replaced by (R − ΔR) ∪ ∇R (thesis, theorem 4.2)."""

    def __init__(self, changed: frozenset[str], at: At = At.OLD) -> None:
        self.changed = changed
        self.at = at
        self._operands: Memo[Node, Operand] = Memo()

    def of(self, q: Node) -> Pair:
        for part in operators(q):
            self.operand(part)
        operand = self.operand(q)
        return Pair(operand.deleted.plan, operand.inserted.plan)

    def operand(self, q: Node) -> Operand:
        return self._operands.once(q, lambda q: self.base(q) if isinstance(q, Scan) else self._derive(q))

    def base(self, scan: Scan) -> Operand:
        """The operand of a table; its ∇R and ΔR are tables of their own."""
        table = RowSet(replace(scan, at=self.at))
        if scan.table not in self.changed:
            return Operand(table)
        deleted, inserted = (RowSet(replace(scan, at=self.at, table=sign + scan.table)) for sign in "∇Δ")
        if self.at is At.OLD:
            return Operand(table, deleted, inserted)
        return BaseRelation((table - inserted) | deleted, deleted, inserted, now=table)

    def _derive(self, q: Node) -> Operand:
        operator = ViewOperator(q)
        operands = [self.operand(part) for part in operator.operands]
        old = operator(*(operand.old for operand in operands)) if operands else RowSet(q)
        if not any(operand.deleted.plan or operand.inserted.plan for operand in operands):
            return Operand(old)
        deleted, inserted = pair_rule_of(q).derive(operator, *operands)
        return Operand(old, deleted.under(q.columns), inserted.under(q.columns))


def minimal(pair: Pair, q: Node) -> Pair:
    """Make a solution minimal: ∇₂ = (Q ∩ ∇₁) − Δ₁, Δ₂ = Δ₁ − Q, where q is Q before the change (GLT97, proposition 2)."""
    before, deleted, inserted = RowSet(q), RowSet(pair.delete), RowSet(pair.insert)
    return Pair(((before & deleted) - inserted).plan, (inserted - before).plan)
