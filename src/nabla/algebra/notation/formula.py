"""Formulas: the algebra in the signs of the papers, as a person would write it down.

`d R` is the change of R, `R₀` its state before. Projections that only drop columns or give them other internal names are left
out. A caller that knows more about a tree, for example which part of it reads a stored state, passes a `reading`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from nabla.algebra.build import is_null_literal
from nabla.algebra.calls import Call, Order
from nabla.algebra.expressions import Expr
from nabla.algebra.memo import Memo
from nabla.algebra.names import Mark, is_inner, part_name, read_name
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Consolidate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Negate,
    Node,
    Opaque,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.traverse import parts as nodes_of

JOIN_SIGNS = {"inner": "⋈", "left": "⟕", "right": "⟖", "full": "⟗", "semi": "⋉", "anti": "▷"}
INFIX = frozenset({*JOIN_SIGNS.values(), "∸", "∩", "×"})
SUM, MINUS = "+", "−"


@dataclass(frozen=True, eq=False)
class Formula:
    """`sign[arguments](part)` with one part, `part sign[arguments] part` with two, a name with none; `+` has any number.
    Equal formulas of one writer are the same object."""

    sign: str
    arguments: tuple[str, ...] = ()
    parts: tuple[Formula, ...] = ()


Reading = Callable[["Writer", Node], Formula | None]
"""The formula of a subtree, or None if it is to be written as the algebra has it."""

_LITERAL_CAST = re.compile(
    r"CAST\(((?:DATE |TIMESTAMP )?'[^']*'|-?[\d.]+) AS \w+(?:\(\d+(?:, ?\d+)?\))?\)", re.IGNORECASE
)
MOST_TERMS = 12
_MARKS: dict[str, str] = {Mark.CHANGE: "d {}", Mark.DELETED: "∇{}", Mark.NOW: "{}"}


class Writer:
    """Writes trees that share columns and tables."""

    def __init__(self, *trees: Node, reading: Reading = lambda writer, node: None) -> None:
        self.reading = reading
        self._written: Memo[Node, Formula] = Memo()
        self._known: dict[tuple[object, ...], Formula] = {}
        self._occurrences: dict[tuple[str, tuple[str, ...]], int] = {}
        self._tables: dict[str, str] = {}
        for tree in trees:
            for node in tree.walk():
                if isinstance(node, Scan) and not is_inner(node.table):  # a stage has the columns of its tables
                    self._number_scan(node)
        labels = Counter(_label(name) for name in self._tables)
        self._ambiguous = {label for label, times in labels.items() if times > 1}

    def _number_scan(self, scan: Scan) -> None:
        """Number the scans of a table: a table that is scanned under two sets of names is two relations to a reader."""
        names = tuple(c.name for c in scan.output)
        if (scan.table, names) not in self._occurrences:
            if all(name in self._tables for name in names):
                return
            number = 1 + sum(table == scan.table for table, _ in self._occurrences)
            self._occurrences[scan.table, names] = number
            for name in names:
                self._tables.setdefault(name, _number(scan.table, number))

    # ------------------------------------------------------------------ making

    def make(self, sign: str, arguments: tuple[str, ...] = (), *parts: Formula) -> Formula:
        if sign == SUM:
            parts = tuple(term for part in parts for term in (part.parts if _in_line(part) else (part,)))
        key = (sign, arguments, *map(id, parts))
        return self._known.setdefault(key, Formula(sign, arguments, parts))

    def write(self, node: Node) -> Formula:
        if node not in self._written:
            for part in nodes_of(node):  # innermost first, so that a deep plan needs no deep stack
                self._written.once(part, self._write)
        return self._written[node]

    def _write(self, node: Node) -> Formula:
        return self.reading(self, node) or _WRITINGS[type(node)](self, node)

    # ------------------------------------------------------------------- words

    def name(self, column: str) -> str:
        """A column for people: with its table only if another column has the same label."""
        found = read_name(column)
        if found is None:
            return column
        plain = part_name(found.label, found.part) if found.part else found.label
        if found.label in self._ambiguous and found.unmarked in self._tables:
            plain = f"{self._tables[found.unmarked]}.{plain}"
        return _mark(plain, found.marks)

    def words(self, expr: Expr | Order | Call) -> str:
        """An expression for people, without the casts of constants."""
        text, before = expr.spell(self.name), ""
        while text != before:
            text, before = _LITERAL_CAST.sub(r"\1", text), text
        return strip_parentheses(text)

    def conditions(self, conjuncts: tuple[Expr, ...]) -> tuple[str, ...]:
        return tuple(self._condition(c) for c in conjuncts)

    def _condition(self, conjunct: Expr) -> str:
        """A conjunct for people; an equality of two columns with one name is written as that name."""
        if conjunct.sides is not None:
            names = [_unmark(side.column) for side in conjunct.sides if side.column is not None]
            if len(names) == 2 and names[0] == names[1]:
                return _label(names[0])
        return self.words(conjunct)

    def table(self, scan: Scan) -> str:
        number = self._occurrences.get((scan.table, tuple(c.name for c in scan.output)), 1)
        return _number(scan.table, number)

    def project(self, node: Project) -> Formula:
        inner = self.write(node.input)
        kept = [o for o in node.outputs if not is_null_literal(o.expr)]
        if all(o.expr.column and _label(o.expr.column) == _label(o.column.name) for o in kept):
            return inner if kept == list(node.outputs) else self.make("×", (), inner, self.make("null"))
        listed = []
        for o in node.outputs:
            value, name = self.words(o.expr), o.column.label
            listed.append(name if value.rpartition(".")[2] == name else f"{value} → {name}")
        return self.make("π", tuple(listed), inner)

    def aggregate(self, node: Aggregate) -> Formula:
        keys = tuple(_label(k) for k in node.keys)
        weighed = isinstance(node.input, Weigh)
        if not node.calls:
            return self.make("G" if weighed else "δ", keys, self.write(node.input))
        calls = tuple(
            self.name(c.column.name) if _is_change(c.column.name) else f"{self.words(c)} → {c.column.label}"
            for c in node.calls
        )
        sign = "γ±" if weighed else "γ"
        return self.make(
            sign, (*keys[:-1], f"{keys[-1]}; {calls[0]}", *calls[1:]) if keys else calls, self.write(node.input)
        )


def _in_line(part: Formula) -> bool:
    """Whether the terms of a sum within a sum are written one after the other. A sum of sums that share their parts would
    have exponentially many."""
    return part.sign == SUM and len(part.parts) <= MOST_TERMS


def _is_change(name: str) -> bool:
    """Whether a column of a change table has the change of a partial result, or its deleted extreme."""
    found = read_name(name)
    return found is not None and found.marks in (Mark.CHANGE, Mark.DELETED)


def _mark(name: str, marks: str) -> str:
    return _MARKS.get(marks, "{}′" if marks else "{}").format(name)


def _label(name: str) -> str:
    found = read_name(name)
    return found.label if found else name


def _unmark(name: str) -> str:
    found = read_name(name)
    return found.unmarked if found else name


def _number(table: str, number: int) -> str:
    return table if number == 1 else f"{table}·{number}"


def strip_parentheses(text: str) -> str:
    """The text without parentheses around the whole of it."""
    while text.startswith("(") and text.endswith(")"):
        depth = 0
        for i, sign in enumerate(text):
            depth += (sign == "(") - (sign == ")")
            if depth == 0 and i < len(text) - 1:
                return text
        text = text[1:-1]
    return text


def scan_text(name: str, at: At) -> str:
    return {At.OLD: f"{name}₀", At.NEW: name, At.DELTA: f"d {name}"}[at]


def _constant(w: Writer, n: Constant) -> Formula:
    rows = ", ".join("(" + ", ".join(v.sql for v in row) + ")" for row in n.rows[:3])
    return w.make("{" + rows + (", …" if len(n.rows) > 3 else "") + "}")


def _window(w: Writer, n: Window) -> Formula:
    return w.make(
        "ω",
        tuple(f"{strip_parentheses(c.over(n.partition, w.name))} → {c.column.label}" for c in n.calls),
        w.write(n.input),
    )


def _top(w: Writer, n: TopK) -> Formula:
    most = f"{n.limit if n.limit is not None else 'all'}" + (f" after {n.offset}" if n.offset else "")
    order = tuple(w.words(o) for o in n.order)
    return w.make("τ", (f"{most} by {order[0]}", *order[1:]) if order else (most,), w.write(n.input))


_WRITINGS: dict[type, Callable[..., Formula]] = {
    Scan: lambda w, n: w.make(scan_text(w.table(n), n.at)),
    Constant: _constant,
    Filter: lambda w, n: w.make("σ", w.conditions(n.conjuncts), w.write(n.input)),
    Project: lambda w, n: w.project(n),
    Join: lambda w, n: w.make(JOIN_SIGNS[n.kind], w.conditions(n.on), w.write(n.left), w.write(n.right)),
    UnionAll: lambda w, n: w.make(SUM, (), *(w.write(m) for m in n.members)) if n.members else w.make("∅"),
    Negate: lambda w, n: w.make(MINUS, (), w.write(n.input)),
    Weigh: lambda w, n: w.write(n.input),
    Unweigh: lambda w, n: w.write(n.input),
    Consolidate: lambda w, n: w.write(n.input),
    Distinct: lambda w, n: w.make("δ", (), w.write(n.input)),
    Aggregate: lambda w, n: w.aggregate(n),
    Window: _window,
    TopK: _top,
    ExceptAll: lambda w, n: w.make("∸", (), w.write(n.left), w.write(n.right)),
    IntersectAll: lambda w, n: w.make("∩", (), w.write(n.left), w.write(n.right)),
    Generate: lambda w, n: w.make("μ", (w.words(n.generator),), w.write(n.input)),
    Recursion: lambda w, n: w.make("↻", (n.table,), w.make(SUM, (), w.write(n.start), w.write(n.step))),
    Opaque: lambda w, n: w.make("query"),
}
