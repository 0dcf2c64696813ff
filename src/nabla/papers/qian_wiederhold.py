"""Qian and Wiederhold's algorithm of 1991, as Griffin, Libkin and Trickey retell it (GLT97, section II).

Put (R − ∇R) ∪ ΔR for every table R that changes, and the view is what it will be. The equations of figure 1, read from
left to right, move these changes up to the root: first all that insert, then all that delete,

    Q((R − ∇R) ∪ ΔR)  ⟹*  Q⁻ ∪ ΔQ  ⟹*  (Q − ∇Q) ∪ ΔQ

The result is a solution but, against what was claimed for it, not always a minimal one: see proposition 1 and its
counterexample in the tests. `pairs.minimal` makes it one; the rules of pair_rules.py never lose minimality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nabla.algebra.nodes import Distinct, ExceptAll, Filter, IntersectAll, Join, Node, Project, Scan, UnionAll
from nabla.papers.pair_laws import Operator
from nabla.papers.pairs import Pair, Pairs
from nabla.papers.sets import EMPTY, RowSet

Sign = Literal["−", "∪"]
Apply = Callable[..., RowSet]
_OPPOSITE: dict[Sign, Sign] = {"−": "∪", "∪": "−"}


@dataclass(frozen=True)
class Equation:
    """An equation of figure 1: the operand at `place` has a change `sign`, which gives the whole a change `result`. What
    that is says `change`, a function of the operator, the operand, its change and the other operand."""

    number: int
    text: str
    operator: str
    sign: Sign
    result: Sign
    change: Callable[[Apply, RowSet, RowSet, RowSet], RowSet]
    place: int = 0


FIGURE_1 = (
    Equation(1, "σ(S − ∇S) = σ(S) − σ(∇S)", "σ", "−", "−", lambda q, s, ds, t: q(ds)),
    Equation(2, "σ(S ∪ ΔS) = σ(S) ∪ σ(ΔS)", "σ", "∪", "∪", lambda q, s, ds, t: q(ds)),
    Equation(3, "Π(S − ∇S) = Π(S) − (Π(S) − Π(S − ∇S))", "Π", "−", "−", lambda q, s, ds, t: q(s) - q(s - ds)),
    Equation(4, "Π(S ∪ ΔS) = Π(S) ∪ (Π(ΔS) − Π(S))", "Π", "∪", "∪", lambda q, s, ds, t: q(ds) - q(s)),
    Equation(5, "(S − ∇S) × T = (S × T) − (∇S × T)", "×", "−", "−", lambda q, s, ds, t: q(ds, t)),
    Equation(6, "(S ∪ ΔS) × T = (S × T) ∪ (ΔS × T)", "×", "∪", "∪", lambda q, s, ds, t: q(ds, t)),
    Equation(7, "(S − ∇S) ∪ T = (S ∪ T) − (∇S − T)", "∪", "−", "−", lambda q, s, ds, t: ds - t),
    Equation(8, "(S ∪ ΔS) ∪ T = (S ∪ T) ∪ (ΔS − T)", "∪", "∪", "∪", lambda q, s, ds, t: ds - t),
    Equation(9, "(S − ∇S) − T = (S − T) − (∇S − T)", "−", "−", "−", lambda q, s, ds, t: ds - t),
    Equation(10, "S − (T − ∇T) = (S − T) ∪ (S ∩ ∇T)", "−", "−", "∪", lambda q, t, dt, s: s & dt, place=1),
    Equation(11, "(S ∪ ΔS) − T = (S − T) ∪ (ΔS − T)", "−", "∪", "∪", lambda q, s, ds, t: ds - t),
    Equation(12, "S − (T ∪ ΔT) = (S − T) − (S ∩ ΔT)", "−", "∪", "−", lambda q, t, dt, s: s & dt, place=1),
    Equation(13, "(S − ∇S) ∩ T = (S ∩ T) − (∇S ∩ T)", "∩", "−", "−", lambda q, s, ds, t: ds & t),
    Equation(14, "(S ∪ ΔS) ∩ T = (S ∩ T) ∪ (ΔS ∩ T)", "∩", "∪", "∪", lambda q, s, ds, t: ds & t),
    Equation(15, "(S − ∇S) ⋈ T = (S ⋈ T) − (∇S ⋈ T)", "⋈", "−", "−", lambda q, s, ds, t: q(ds, t)),
    Equation(16, "(S ∪ ΔS) ⋈ T = (S ⋈ T) ∪ (ΔS ⋈ T)", "⋈", "∪", "∪", lambda q, s, ds, t: q(ds, t)),
)


def operator_sign(q: Node) -> str:
    """The operator as figure 1 writes it; empty for one that it has no equation for."""
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


def equation_for(q: Node, place: int, sign: Sign) -> Equation:
    """Where the operator is commutative, figure 1 has the equation of the first operand only."""
    operator = operator_sign(q)
    stated = place if operator == "−" else 0
    for equation in FIGURE_1:
        if (equation.operator, equation.place, equation.sign) == (operator, stated, sign):
            return equation
    raise LookupError(f"figure 1 has no equation for {type(q).__name__}")


def solution(view: Node, changed: frozenset[str]) -> Pair:
    """∇Q and ΔQ by rewriting, to be evaluated before the change; the view is in set form."""
    rewriting = _Rewriting(changed)
    inserted = rewriting.moved_up(view, "∪", others_first=False)[1]
    deleted = rewriting.moved_up(view, "−", others_first=True)[1]
    return Pair(deleted.plan, inserted.plan)


class _Rewriting:
    def __init__(self, changed: frozenset[str]) -> None:
        self.tables = Pairs(changed)

    def moved_up(self, q: Node, sign: Sign, others_first: bool) -> tuple[RowSet, RowSet]:
        """What is left of q, and the change that was moved up to its root. `others_first` says that the changes of the
        other sign have been moved away before: in the first stage they are still part of what is left."""
        if isinstance(q, Scan):
            return self._table(q, sign, others_first)
        operator, signs = Operator(q), _wanted(q, sign)
        operands = zip(operator.operands, signs, strict=True)
        moved = [self.moved_up(operand, wanted, others_first) for operand, wanted in operands]
        if not moved:
            return RowSet(q), EMPTY
        s, ds = moved[0]
        if len(moved) == 1:
            return operator(s), _moved(q, 0, signs[0], operator, s, ds, EMPTY).under(q.columns)
        t, dt = moved[1]
        # The change of S moves up first: the T beside it still has its own.
        from_s = _moved(q, 0, signs[0], operator, s, ds, t | dt if signs[1] == "∪" else t - dt)
        from_t = _moved(q, 1, signs[1], lambda y, x: operator(x, y), t, dt, s)
        return operator(s, t), (from_s | from_t).under(q.columns)

    def _table(self, scan: Scan, sign: Sign, others_first: bool) -> tuple[RowSet, RowSet]:
        table = self.tables.operand(scan)
        if sign == "∪":
            return table.old if others_first else table.old - table.deleted, table.inserted
        return table.old if others_first else table.old | table.inserted, table.deleted


def _wanted(q: Node, sign: Sign) -> tuple[Sign, ...]:
    """The changes of the operands that become such a change of the whole: on the right of a difference the opposite."""
    if isinstance(q, ExceptAll):
        return sign, _OPPOSITE[sign]
    return (sign,) * len(Operator(q).operands)


def _moved(q: Node, place: int, sign: Sign, apply: Apply, operand: RowSet, change: RowSet, other: RowSet) -> RowSet:
    if change.plan is None:
        return EMPTY
    return equation_for(q, place, sign).change(apply, operand, change, other)
