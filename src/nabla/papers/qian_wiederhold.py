"""Qian and Wiederhold's algorithm of 1991, as Griffin, Libkin and Trickey retell it (GLT97, section II).

Replace every table R that changes by (R − ∇R) ∪ ΔR, and the view is the new view. The equations of figure 1, read from left
to right, move these changes up to the root: first all insertions, then all deletions,

    Q((R − ∇R) ∪ ΔR)  ⟹*  Q⁻ ∪ ΔQ  ⟹*  (Q − ∇Q) ∪ ΔQ

The result is a solution, but not always a minimal one, although the paper claims that: see proposition 1 and its
counterexample in the tests. `pairs.minimal` makes it minimal; the rules of pair_rules.py never lose minimality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nabla.algebra.memo import Memo
from nabla.algebra.nodes import Distinct, ExceptAll, Filter, IntersectAll, Join, Node, Project, Scan, UnionAll
from nabla.papers.pair_laws import ViewOperator
from nabla.papers.pairs import Pair, Pairs
from nabla.papers.sets import EMPTY, RowSet

Sign = Literal["−", "∪"]
Apply = Callable[..., RowSet]
_OPPOSITE: dict[Sign, Sign] = {"−": "∪", "∪": "−"}


@dataclass(frozen=True)
class FigureEquation:
    """An equation of figure 1: a change `sign` of the operand at `place` gives the whole a change `result`, which `change`
    computes from the operator, the operand, its change and the other operand."""

    number: int
    text: str
    operator: str
    sign: Sign
    result: Sign
    change: Callable[[Apply, RowSet, RowSet, RowSet], RowSet]
    place: int = 0


FIGURE_1 = (
    FigureEquation(1, "σ(S − ∇S) = σ(S) − σ(∇S)", "σ", "−", "−", lambda q, s, ds, t: q(ds)),
    FigureEquation(2, "σ(S ∪ ΔS) = σ(S) ∪ σ(ΔS)", "σ", "∪", "∪", lambda q, s, ds, t: q(ds)),
    FigureEquation(3, "Π(S − ∇S) = Π(S) − (Π(S) − Π(S − ∇S))", "Π", "−", "−", lambda q, s, ds, t: q(s) - q(s - ds)),
    FigureEquation(4, "Π(S ∪ ΔS) = Π(S) ∪ (Π(ΔS) − Π(S))", "Π", "∪", "∪", lambda q, s, ds, t: q(ds) - q(s)),
    FigureEquation(5, "(S − ∇S) × T = (S × T) − (∇S × T)", "×", "−", "−", lambda q, s, ds, t: q(ds, t)),
    FigureEquation(6, "(S ∪ ΔS) × T = (S × T) ∪ (ΔS × T)", "×", "∪", "∪", lambda q, s, ds, t: q(ds, t)),
    FigureEquation(7, "(S − ∇S) ∪ T = (S ∪ T) − (∇S − T)", "∪", "−", "−", lambda q, s, ds, t: ds - t),
    FigureEquation(8, "(S ∪ ΔS) ∪ T = (S ∪ T) ∪ (ΔS − T)", "∪", "∪", "∪", lambda q, s, ds, t: ds - t),
    FigureEquation(9, "(S − ∇S) − T = (S − T) − (∇S − T)", "−", "−", "−", lambda q, s, ds, t: ds - t),
    FigureEquation(10, "S − (T − ∇T) = (S − T) ∪ (S ∩ ∇T)", "−", "−", "∪", lambda q, t, dt, s: s & dt, place=1),
    FigureEquation(11, "(S ∪ ΔS) − T = (S − T) ∪ (ΔS − T)", "−", "∪", "∪", lambda q, s, ds, t: ds - t),
    FigureEquation(12, "S − (T ∪ ΔT) = (S − T) − (S ∩ ΔT)", "−", "∪", "−", lambda q, t, dt, s: s & dt, place=1),
    FigureEquation(13, "(S − ∇S) ∩ T = (S ∩ T) − (∇S ∩ T)", "∩", "−", "−", lambda q, s, ds, t: ds & t),
    FigureEquation(14, "(S ∪ ΔS) ∩ T = (S ∩ T) ∪ (ΔS ∩ T)", "∩", "∪", "∪", lambda q, s, ds, t: ds & t),
    FigureEquation(15, "(S − ∇S) ⋈ T = (S ⋈ T) − (∇S ⋈ T)", "⋈", "−", "−", lambda q, s, ds, t: q(ds, t)),
    FigureEquation(16, "(S ∪ ΔS) ⋈ T = (S ⋈ T) ∪ (ΔS ⋈ T)", "⋈", "∪", "∪", lambda q, s, ds, t: q(ds, t)),
)


def operator_sign(q: Node) -> str:
    """The sign of an operator in figure 1; empty if the figure has no equation for it."""
    match q:
        case Filter():
            return "σ"
        case Project() | Distinct(input=Project()):
            return "Π"
        case Join(kind="inner"):
            return "⋈" if q.on else "×"
        case Distinct(input=UnionAll()):
            return "∪"
        case IntersectAll():
            return "∩"
        case ExceptAll():
            return "−"
    return ""


def equation_for(q: Node, place: int, sign: Sign) -> FigureEquation:
    """The equation for a change of the operand at `place`. For commutative operators figure 1 has only the equation of the
    first operand."""
    operator = operator_sign(q)
    stated = place if operator == "−" else 0
    for equation in FIGURE_1:
        if (equation.operator, equation.place, equation.sign) == (operator, stated, sign):
            return equation
    kind = f" ({q.kind})" if isinstance(q, Join) else ""
    raise LookupError(f"figure 1 has no equation for {type(q).__name__}{kind}")


def solution(view: Node, changed: frozenset[str]) -> Pair:
    """∇Q and ΔQ by rewriting, to be evaluated before the change; the view is in set form."""
    rewriting = _Figure1Rewriting(changed)
    inserted = rewriting.move_up(view, "∪", others_first=False)[1]
    deleted = rewriting.move_up(view, "−", others_first=True)[1]
    return Pair(deleted.plan, inserted.plan)


class _Figure1Rewriting:
    def __init__(self, changed: frozenset[str]) -> None:
        self.tables = Pairs(changed)
        self.moved: dict[tuple[Sign, bool], Memo[Node, tuple[RowSet, RowSet]]] = {}

    def move_up(self, q: Node, sign: Sign, others_first: bool) -> tuple[RowSet, RowSet]:
        """Move the changes of one sign up to the root of q; return the rest of q and the change. With `others_first`, the
        changes of the other sign have been moved away before; otherwise they stay in the rest of q."""
        known = self.moved.setdefault((sign, others_first), Memo())
        return known.once(q, lambda q: self._move_up(q, sign, others_first))

    def _move_up(self, q: Node, sign: Sign, others_first: bool) -> tuple[RowSet, RowSet]:
        if isinstance(q, Scan):
            return self._table(q, sign, others_first)
        operator, signs = ViewOperator(q), _operand_signs(q, sign)
        operands = zip(operator.operands, signs, strict=True)
        moved = [self.move_up(operand, wanted, others_first) for operand, wanted in operands]
        if not moved:
            return RowSet(q), EMPTY
        s, ds = moved[0]
        if len(moved) == 1:
            return operator(s), _move(q, 0, signs[0], operator, s, ds, EMPTY).under(q.columns)
        t, dt = moved[1]
        # The change of S moves up first, so that T still has its own change then.
        from_s = _move(q, 0, signs[0], operator, s, ds, t | dt if signs[1] == "∪" else t - dt)
        from_t = _move(q, 1, signs[1], lambda y, x: operator(x, y), t, dt, s)
        return operator(s, t), (from_s | from_t).under(q.columns)

    def _table(self, scan: Scan, sign: Sign, others_first: bool) -> tuple[RowSet, RowSet]:
        table = self.tables.operand(scan)
        if sign == "∪":
            return table.old if others_first else table.old - table.deleted, table.inserted
        return table.old if others_first else table.old | table.inserted, table.deleted


def _operand_signs(q: Node, sign: Sign) -> tuple[Sign, ...]:
    """The signs of the operands' changes that give the whole a change of this sign: on the right of a difference it is the
    opposite sign."""
    if isinstance(q, ExceptAll):
        return sign, _OPPOSITE[sign]
    return (sign,) * len(ViewOperator(q).operands)


def _move(q: Node, place: int, sign: Sign, apply: Apply, operand: RowSet, change: RowSet, other: RowSet) -> RowSet:
    if change.plan is None:
        return EMPTY
    return equation_for(q, place, sign).change(apply, operand, change, other)
