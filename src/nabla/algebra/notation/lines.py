"""Formulas as lines of text: shared and long parts get names, and lines break at operators.

X1 = σ[day >= '2026-03-01'](d orders) ⋈[customer = customers.id] customers₀
X2 = d customers ⋈[customers.id = customer] orders
d revenue = γ[…](X1 + X2)
"""

from __future__ import annotations

from nabla.algebra.memo import Memo, count_uses
from nabla.algebra.notation.formula import INFIX, MINUS, SUM, Formula

WIDTH = 100
_BREAK = "\0"
"""A place where a line may be broken."""
_WORTH_A_NAME = 12
"""Shorter shared parts are repeated."""


class Page:
    """Lines for several formulas. A part that got a name in one formula has the same name in the next."""

    def __init__(self, width: int = WIDTH) -> None:
        self.width = width
        self.names: Memo[Formula, str] = Memo()

    def lines(self, name: str, formula: Formula) -> list[str]:
        """`name = formula`, after the definitions of the parts that it refers to."""
        uses = count_uses((formula,), lambda part: part.parts)
        done: list[str] = []
        settled: Memo[Formula, bool] = Memo()

        def settle(part: Formula, top: bool) -> None:
            if part in settled or part in self.names:
                return
            settled[part] = True
            for inner in part.parts:
                settle(inner, False)
            room = self.width - 8
            while len(self.text(part)) > room:
                long = [p for p in _nameable(part) if p not in self.names and len(self.text(p)) > room // 3]
                if not long:
                    break
                done.extend(self._name_part(max(long, key=lambda p: len(self.text(p)))))
            if not top and part.parts and uses[part] > 1 and len(self.text(part)) > _WORTH_A_NAME:
                done.extend(self._name_part(part))

        settle(formula, True)
        return [*done, *self._lay_out(name, formula)]

    def _name_part(self, part: Formula) -> list[str]:
        name = f"X{len(self.names) + 1}"
        written = self._lay_out(name, part)
        self.names[part] = name
        return written

    def text(self, formula: Formula) -> str:
        return self._inline(formula).replace(_BREAK, "")

    def _inline(self, f: Formula) -> str:
        if f in self.names:
            return self.names[f]
        if not f.parts:
            return f.sign
        if f.sign == SUM:
            return "".join(
                _BREAK * (i > 0) + (" − " if term.sign == MINUS else " + ") * (i > 0) + self._term(term, i == 0)
                for i, term in enumerate(f.parts)
            )
        if f.sign == MINUS:
            return f"−{self._operand(f.parts[0])}"
        if f.sign in INFIX:
            left, right = f.parts
            chain = left.sign == f.sign or not left.parts
            first = self._inline(left) if chain else self._operand(left)
            return f"{first}{_BREAK} {f.sign}{_arguments(f)} {self._operand(right)}"
        return f"{f.sign}{_arguments(f)}({self._inline(f.parts[0])})"

    def _term(self, term: Formula, first: bool) -> str:
        if term.sign == MINUS and not first and term not in self.names:
            return self._inline(term.parts[0])
        return self._inline(term)

    def _operand(self, f: Formula) -> str:
        text = self._inline(f)
        return f"({text})" if f not in self.names and (f.sign in INFIX or f.sign == SUM) else text

    def _lay_out(self, name: str, formula: Formula) -> list[str]:
        head = f"{name} = "
        if formula.sign == SUM and len(head) + len(self.text(formula)) > self.width:
            lines: list[str] = []
            for i, term in enumerate(formula.parts):
                sign = head if i == 0 else " " * (len(head) - 2) + ("− " if term.sign == MINUS else "+ ")
                lines += self._wrap(sign, self._term(term, i == 0))
            return lines
        return self._wrap(head, self._inline(formula))

    def _wrap(self, head: str, text: str) -> list[str]:
        indent = " " * (len(head) + 2)
        lines, line = [], head
        for piece in text.split(_BREAK):
            if len(line) + len(piece) > self.width and line.strip() and line != head:
                lines.append(line.rstrip())
                line = indent + piece.lstrip()
            else:
                line += piece
        return [*lines, line]


def _arguments(f: Formula) -> str:
    joiner = f"{_BREAK} and " if f.sign == "σ" else f", {_BREAK}"
    return f"[{joiner.join(f.arguments)}]" if f.arguments else ""


def _nameable(f: Formula) -> list[Formula]:
    """The parts that could get a name; a minus stays with the sum that it belongs to."""
    return [p.parts[0] if p.sign == MINUS else p for p in f.parts if p.parts and (p.sign != MINUS or p.parts[0].parts)]
