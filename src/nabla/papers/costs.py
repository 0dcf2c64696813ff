"""The cost functions of the thesis, section 4.3.2: the cost of evaluating a query, and of its incremental expressions.

`TABLE_4_2` is the table of the thesis, with the sizes of each relation instead of one bound for all. It knows neither
projection nor aggregation, which section 4.3.2 leaves out, nor joins, which the thesis writes as σ(Q₁ × Q₂). Operators that
it does not have are counted as the nearest one that it has, and `Costs.beyond` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nabla.algebra.memo import Memo
from nabla.algebra.nodes import (
    Aggregate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Node,
    Project,
    Scan,
    UnionAll,
)

Pair = tuple[int, int]
"""c_ev and c_inc of an expression."""

TABLE_4_2: Mapping[str, Callable[..., Pair]] = {
    "i": lambda: (1, 0),
    "R": lambda b, d: (b, d),
    "σ": lambda q: q,
    "∪": lambda q1, q2: (q1[0] + q2[0], q1[1] + q2[1]),
    "∩": lambda q1, q2: (q1[0] + q2[0], q1[1] + q2[1]),
    "−": lambda q1, q2: (q1[0] + q2[0], q1[1] + q2[1]),
    "×": lambda q1, q2: (q1[0] * q2[0], (q1[0] + q2[0]) * (q1[1] + q2[1])),
}
"""The rows of the table, from the costs of the operands (for R: its rows and its changed rows) to those of the expression."""


@dataclass(frozen=True)
class Costs:
    """The costs of a view: `evaluate` is c_ev, `maintain` is c_inc. `beyond` are its operators that the table does not have,
    each with the row that it is counted as."""

    evaluate: int
    maintain: int
    beyond: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """c_inc / c_ev, which theorem 4.7 says becomes 0 as the tables grow."""
        return self.maintain / self.evaluate if self.evaluate else 0.0

    def __str__(self) -> str:
        said = f"c_inc = {_number(self.maintain)}, c_ev = {_number(self.evaluate)}, c_inc / c_ev = {self.share:.2g}"
        return f"{said}; {', '.join(self.beyond)}" if self.beyond else said


def cost_functions(view: Node, rows: Mapping[str, int], changed: Mapping[str, int]) -> Costs | None:
    """The costs of a view over tables with so many rows and changed rows; None for operators that are like none of the
    table: windows, limits, generators, recursion."""
    beyond: dict[str, None] = {}
    memo: Memo[Node, Pair | None] = Memo()

    def cost(node: Node) -> Pair | None:
        return memo.once(node, find)

    def find(node: Node) -> Pair | None:
        if isinstance(node, Scan):
            return TABLE_4_2["R"](rows.get(node.table, 0), changed.get(node.table, 0))
        if isinstance(node, Constant):
            return TABLE_4_2["i"]()
        row = _ROWS.get(type(node)) if not isinstance(node, Join) else _JOINS[node.kind]
        if row is None:
            return None
        sign, remark = row
        operands = [cost(operand) for operand in node.inputs]
        if remark:
            beyond[f"{remark} as {sign}"] = None
        total: Pair | None = operands[0]
        if sign == "σ" or total is None:
            return total
        for operand in operands[1:]:
            total = TABLE_4_2[sign](total, operand) if total is not None and operand is not None else None
        return total

    found = cost(view)
    return None if found is None else Costs(*found, tuple(beyond))


_ROWS: Mapping[type[Node], tuple[str, str]] = {
    Filter: ("σ", ""),
    UnionAll: ("∪", ""),
    IntersectAll: ("∩", ""),
    ExceptAll: ("−", ""),
    Project: ("σ", "π"),
    Distinct: ("σ", "δ"),
    Aggregate: ("σ", "γ"),
}
_JOINS: Mapping[str, tuple[str, str]] = {
    "inner": ("×", ""),
    "semi": ("∩", "⋉"),
    "anti": ("−", "▷"),
    "left": ("×", "⟕"),
    "right": ("×", "⟖"),
    "full": ("×", "⟗"),
}


def _number(count: int) -> str:
    return f"{count:,}" if count < 10**9 else f"{count:.1e}"
