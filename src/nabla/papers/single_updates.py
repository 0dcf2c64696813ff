"""Griffin and Kumar's equations for a single update, figure 3: how a deletion from or an insertion into one operand moves up
through a semijoin, an anti-semijoin or an outer join.

A deletion or insertion can cause both a deletion and an insertion here: S ⟕ (T ∪ ΔT) loses rows with NULLs and gains joined
ones. So an equation has two sets, X and Y, and says that Q of the changed operand is (Q − X) ∪ Y. With figure 2 (figure 1 of
Griffin, Libkin and Trickey) they move a transaction up to the root of a view *leaf by leaf* (section 3, thesis 2.3): one
table, or one of several occurrences of a table, after the other, and of each the deletions before the insertions.

`pair_rules.py` has the rules for all operands *at once*. Only these keep deltas minimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nabla._cached import cached_property
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import At, Join, JoinKind, Node, Scan
from nabla.papers.pair_laws import ViewOperator, operators
from nabla.papers.pair_rules import as_kind, met, mirror, pad
from nabla.papers.pairs import Pair, Pairs
from nabla.papers.qian_wiederhold import Sign, equation_for, operator_sign
from nabla.papers.sets import EMPTY, RowSet


@dataclass(frozen=True, eq=False)
class SingleUpdate:
    """A change of one operand of a join: `d` is ∇S, ΔS, ∇T or ΔT, and `place` says of which operand."""

    q: ViewOperator
    s: RowSet
    t: RowSet
    d: RowSet
    place: int

    def join(self, s: RowSet, t: RowSet) -> RowSet:
        return as_kind(self.q, "inner")(s, t)

    def left(self, s: RowSet, t: RowSet) -> RowSet:
        return as_kind(self.q, "left")(s, t)

    def right(self, s: RowSet, t: RowSet) -> RowSet:
        return as_kind(self.q, "right")(s, t)

    def anti(self, s: RowSet, t: RowSet) -> RowSet:
        return as_kind(self.q, "anti")(s, t)

    def semi(self, rows: RowSet, others: RowSet) -> RowSet:
        """S ⋉ D, or T ⋉ D for a change D of S."""
        return as_kind(self.q if self.place else mirror(self.q), "semi")(rows, others)

    def null(self, rows: RowSet) -> RowSet:
        """× {d_T}, or {d_S} × for rows of T."""
        return pad(self.q, rows)

    @cached_property
    def deserted(self) -> RowSet:
        """S ⋉ ((∇T ∩ T) ▷ (T − ∇T)): the rows that join a *loyal* tuple, one that is deleted and leaves no friends behind."""
        if self.place:
            return met(self.q, self.s, self.d & self.t, self.t - self.d)
        return met(mirror(self.q), self.t, self.d & self.s, self.s - self.d)


Part = Callable[[SingleUpdate], RowSet]


@dataclass(frozen=True)
class Figure3Equation:
    """An equation of figure 3. A change `sign` of the operand at `place` takes `lost` from the result and adds `gained`."""

    number: int
    text: str
    kind: JoinKind
    place: int
    sign: Sign
    lost: Part = lambda u: EMPTY
    gained: Part = lambda u: EMPTY

    @property
    def name(self) -> str:
        return f"P{self.number}"


def _e(number: int, text: str, *, lost: Part = lambda u: EMPTY, gained: Part = lambda u: EMPTY) -> Figure3Equation:
    """An equation, of which kind, place and sign are those of its number: four for each operator."""
    kinds: tuple[JoinKind, ...] = ("semi", "anti", "left", "right", "full")
    group, within = divmod(number - 17, 4)
    sign: Sign = "−" if within % 2 == 0 else "∪"
    return Figure3Equation(number, text, kinds[group], within // 2, sign, lost, gained)


FIGURE_3 = (
    _e(17, "(S − ∇S) ⋉ T = (S ⋉ T) − ∇S", lost=lambda u: u.d),
    _e(18, "(S ∪ ΔS) ⋉ T = (S ⋉ T) ∪ (ΔS ⋉ T)", gained=lambda u: u.q(u.d, u.t)),
    _e(19, "S ⋉ (T − ∇T) = (S ⋉ T) − (S ⋉ ((∇T ∩ T) ▷ (T − ∇T)))", lost=lambda u: u.deserted),
    _e(20, "S ⋉ (T ∪ ΔT) = (S ⋉ T) ∪ (S ⋉ ΔT)", gained=lambda u: u.semi(u.s, u.d)),
    _e(21, "(S − ∇S) ▷ T = (S ▷ T) − ∇S", lost=lambda u: u.d),
    _e(22, "(S ∪ ΔS) ▷ T = (S ▷ T) ∪ (ΔS ▷ T)", gained=lambda u: u.anti(u.d, u.t)),
    _e(23, "S ▷ (T − ∇T) = (S ▷ T) ∪ (S ⋉ ((∇T ∩ T) ▷ (T − ∇T)))", gained=lambda u: u.deserted),
    _e(24, "S ▷ (T ∪ ΔT) = (S ▷ T) − (S ⋉ ΔT)", lost=lambda u: u.semi(u.s, u.d)),
    _e(25, "(S − ∇S) ⟕ T = (S ⟕ T) − (∇S ⟕ T)", lost=lambda u: u.left(u.d, u.t)),
    _e(26, "(S ∪ ΔS) ⟕ T = (S ⟕ T) ∪ (ΔS ⟕ T)", gained=lambda u: u.left(u.d, u.t)),
    _e(
        27,
        "S ⟕ (T − ∇T) = ((S ⟕ T) − (S ⋈ ∇T)) ∪ ((S ⋉ ((T ∩ ∇T) ▷ (T − ∇T))) × {d_T})",
        lost=lambda u: u.join(u.s, u.d),
        gained=lambda u: u.null(u.deserted),
    ),
    _e(
        28,
        "S ⟕ (T ∪ ΔT) = ((S ⟕ T) − ((S ⋉ ΔT) × {d_T})) ∪ (S ⋈ ΔT)",
        lost=lambda u: u.null(u.semi(u.s, u.d)),
        gained=lambda u: u.join(u.s, u.d),
    ),
    _e(
        29,
        "(S − ∇S) ⟖ T = ((S ⟖ T) − (∇S ⋈ T)) ∪ ({d_S} × (T ⋉ ((S ∩ ∇S) ▷ (S − ∇S))))",
        lost=lambda u: u.join(u.d, u.t),
        gained=lambda u: u.null(u.deserted),
    ),
    _e(
        30,
        "(S ∪ ΔS) ⟖ T = ((S ⟖ T) − ({d_S} × (T ⋉ ΔS))) ∪ (ΔS ⋈ T)",
        lost=lambda u: u.null(u.semi(u.t, u.d)),
        gained=lambda u: u.join(u.d, u.t),
    ),
    _e(31, "S ⟖ (T − ∇T) = (S ⟖ T) − (S ⟖ ∇T)", lost=lambda u: u.right(u.s, u.d)),
    _e(32, "S ⟖ (T ∪ ΔT) = (S ⟖ T) ∪ (S ⟖ ΔT)", gained=lambda u: u.right(u.s, u.d)),
    _e(
        33,
        "(S − ∇S) ⟗ T = ((S ⟗ T) − (∇S ⟕ T)) ∪ ({d_S} × (T ⋉ ((∇S ∩ S) ▷ (S − ∇S))))",
        lost=lambda u: u.left(u.d, u.t),
        gained=lambda u: u.null(u.deserted),
    ),
    _e(
        34,
        "(S ∪ ΔS) ⟗ T = ((S ⟗ T) − ({d_S} × (T ⋉ ΔS))) ∪ (ΔS ⟕ T)",
        lost=lambda u: u.null(u.semi(u.t, u.d)),
        gained=lambda u: u.left(u.d, u.t),
    ),
    _e(
        35,
        "S ⟗ (T − ∇T) = ((S ⟗ T) − (S ⟖ ∇T)) ∪ ((S ⋉ ((∇T ∩ T) ▷ (T − ∇T))) × {d_T})",
        lost=lambda u: u.right(u.s, u.d),
        gained=lambda u: u.null(u.deserted),
    ),
    _e(
        36,
        "S ⟗ (T ∪ ΔT) = ((S ⟗ T) − ((S ⋉ ΔT) × {d_T})) ∪ (S ⟖ ΔT)",
        lost=lambda u: u.null(u.semi(u.s, u.d)),
        gained=lambda u: u.right(u.s, u.d),
    ),
)


def equation(kind: JoinKind, place: int, sign: Sign) -> Figure3Equation:
    return next(e for e in FIGURE_3 if (e.kind, e.place, e.sign) == (kind, place, sign))


@dataclass(frozen=True, eq=False)
class Moved:
    """A part of a view while one leaf changes: `old` before, (old − lost) ∪ gained after."""

    old: RowSet
    lost: RowSet = EMPTY
    gained: RowSet = EMPTY

    @property
    def changes(self) -> bool:
        return self.lost.plan is not None or self.gained.plan is not None


def leaf_by_leaf(view: Node, changed: frozenset[str]) -> Iterator[Pair]:
    """Pairs that bring a view in set form up to date, one for each occurrence of a table that changes, to be applied one after
    the other: η(Q) = (…((Q − ∇₁) ∪ Δ₁)… − ∇ₙ) ∪ Δₙ. They are evaluated on the old state; the tables of earlier pairs are
    written as (R − ∇R) ∪ ΔR. No pair need be minimal."""
    leaves = [scan for scan in operators(view) if isinstance(scan, Scan) and scan.table in changed]
    for done, leaf in enumerate(leaves):
        parts: Memo[Node, Moved] = Memo()
        for q in operators(view):
            parts[q] = _leaf(q, leaf, leaves[:done]) if isinstance(q, Scan) else _operator(q, parts)
        yield Pair(parts[view].lost.plan, parts[view].gained.plan)


def _leaf(scan: Scan, leaf: Scan, done: list[Scan]) -> Moved:
    table = Pairs(frozenset((scan.table,)), At.OLD).base(scan)
    if scan is leaf:
        return Moved(table.old, table.deleted, table.inserted)
    return Moved(table.new if any(scan is other for other in done) else table.old)


def _operator(q: Node, parts: Memo[Node, Moved]) -> Moved:
    """The change of an operator by the equations. Of each operand that changes first the deletions move up, then the
    insertions; an operand that has moved is read as it is then."""
    operator = ViewOperator(q)
    operands = [parts[part] for part in operator.operands]
    now = [operand.old for operand in operands]
    whole = Moved(operator(*now) if operands else RowSet(q))
    lost, gained = EMPTY, EMPTY
    signs: tuple[Sign, Sign] = ("−", "∪")
    for place, operand in enumerate(operands):
        for sign, change in zip(signs, (operand.lost, operand.gained), strict=True):
            if change.plan is not None:
                lose, gain = _step(q, operator, now, place, sign, change)
                lost, gained = lost | lose, (gained - lose) | gain
                now[place] = now[place] - change if sign == "−" else now[place] | change
    return Moved(whole.old, lost.under(q.columns), gained.under(q.columns))


def _step(
    q: Node, operator: ViewOperator, now: list[RowSet], place: int, sign: Sign, change: RowSet
) -> tuple[RowSet, RowSet]:
    """One equation: of figure 3 for joins that it has, else of figure 2."""
    if isinstance(q, Join) and q.kind != "inner":
        found, update = equation(q.kind, place, sign), SingleUpdate(operator, now[0], now[1], change, place)
        return found.lost(update), found.gained(update)
    basic = equation_for(q, place, sign)
    other = now[1 - place] if len(now) == 2 else EMPTY
    turned = place == 1 and operator_sign(q) != "−"
    made = basic.change((lambda x, y: operator(y, x)) if turned else operator, now[place], change, other)
    return (made, EMPTY) if basic.result == "−" else (EMPTY, made)
