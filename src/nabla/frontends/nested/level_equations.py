"""The incremental equations of operators at a level L below the top, as `equations` has those at the top.

An operator at a level works tuple by tuple at the top level, so that the implementation form holds as it does there. Where an
operator distributes over ⊕ at the top, it does so at a level, because ⊕ goes down to the level tuple by tuple. For ⊖ of the
left operand the limited standard form needs r and δ without a common key (lemma 4.7).

The second operand s is one relation for all tuples. Its changes touch the tuples of r that meet them at the level:

    r op@L (s ± δ) = [r op@L s]∉K ⊕ ([r]∈K op@L (s ± δ)),   K = K(L, δ)

No standard form holds for (s ⊖ δ): r op@L δ has all of r's other attributes, and ⊖ would take these away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from nabla.frontends.nested.equations import UPDATES, Form, Sign
from nabla.frontends.nested.levels import Path, apply_at, meeting, subrelations
from nabla.frontends.nested.model import Key, Relation, inside, outside
from nabla.frontends.nested.operators import difference, intersection, join, union

Combine = Callable[[Relation, Relation], Relation]
OPERATORS: dict[str, Combine] = {"⋈": join, "⊙": intersection, "⊖": difference, "⊕": union}


def at_level(symbol: str, r: Relation, s: Relation, path: Path) -> Relation:
    """r op@L s."""
    return apply_at(r, path, lambda u: OPERATORS[symbol](u, s))


def touched_keys(symbol: str, r: Relation, d: Relation, path: Path) -> Iterable[Key]:
    """K(L, δ): the keys of tuples of r that a change δ of the second operand touches. A union at a level adds all of s to
    every subrelation there."""
    if symbol == "⊕":
        return [key for key, t in r.items() if d and subrelations({key: t}, path)]
    return meeting(r, path, d.keys())


def right_standard(symbol: str, view: Relation, r: Relation, d: Relation, path: Path) -> Relation:
    """r op@L (s ⊕ δ) = (r op@L s) ⊕ (r op@L δ), given the view r op@L s."""
    return union(view, at_level(symbol, r, d, path))


def right_implementation(
    symbol: str, sign: Sign, view: Relation, r: Relation, s: Relation, d: Relation, path: Path
) -> Relation:
    """r op@L (s ± δ) = [r op@L s]∉K ⊕ ([r]∈K op@L (s ± δ)), given the view r op@L s."""
    keys = touched_keys(symbol, r, d, path)
    return union(outside(view, keys), at_level(symbol, inside(r, keys), UPDATES[sign](s, d), path))


@dataclass(frozen=True)
class LevelEquation:
    """An equation of an operator at a level; `operand` says which operand changes."""

    operator: str
    operand: Literal["r", "s"]
    sign: Sign
    form: Form
    law: str
    source: str

    def __str__(self) -> str:
        return f"{self.operator}@L {self.sign} of {self.operand} {self.form}: {self.law}   [{self.source}]"


_PAPER = "Liu and Vincent"


def _left(symbol: str, plus: str, minus: str) -> tuple[LevelEquation, ...]:
    """The equations for changes of r, for an operator that distributes over ⊕; the sources are those at the top."""
    op = f"{symbol}@L"
    return (
        LevelEquation(symbol, "r", "⊕", "standard", f"(r⊕δ) {op} s = (r {op} s) ⊕ (δ {op} s)", plus),
        LevelEquation(
            symbol, "r", "⊖", "limited standard", f"(r⊖δ) {op} s = (r {op} s) ⊖ (δ {op} s)", f"{_PAPER}, lemma 4.7"
        ),
        LevelEquation(symbol, "r", "⊖", "implementation", f"(r⊖δ) {op} s = [r {op} s]∉K ⊕ (([r]∈K ⊖ δ) {op} s)", minus),
    )


def _both_by_key(symbol: str, operand: Literal["r", "s"]) -> tuple[LevelEquation, ...]:
    op = f"{symbol}@L"
    law = {
        "r": f"(r±δ) {op} s = [r {op} s]∉K ⊕ (([r]∈K ± δ) {op} s)",
        "s": f"r {op} (s±δ) = [r {op} s]∉K ⊕ ([r]∈K {op} (s±δ)), K = K(L, δ)",
    }[operand]
    signs: tuple[Sign, ...] = ("⊕", "⊖")
    return tuple(
        LevelEquation(symbol, operand, sign, "implementation", law.replace("±", sign), "key by key") for sign in signs
    )


def _right_standard(symbol: str) -> LevelEquation:
    op = f"{symbol}@L"
    return LevelEquation(
        symbol, "s", "⊕", "standard", f"r {op} (s⊕δ) = (r {op} s) ⊕ (r {op} δ)", f"{symbol} distributes over ⊕"
    )


LEVEL_EQUATIONS: tuple[LevelEquation, ...] = (
    *_left("⋈", f"{_PAPER}, equation 15", f"{_PAPER}, equation 14"),
    *_left("⊙", f"{_PAPER}, equation 11", f"{_PAPER}, equation 10"),
    *_left("⊕", "⊕ is idempotent", "key by key"),
    *_both_by_key("⊖", "r"),
    *(_right_standard(symbol) for symbol in ("⋈", "⊙", "⊕")),
    *(equation for symbol in ("⋈", "⊙", "⊖", "⊕") for equation in _both_by_key(symbol, "s")),
)
