"""The algebra for people: an indented tree, and the notation of the papers."""

from __future__ import annotations

from collections.abc import Callable

from nabla.algebra.expressions import Column, readable
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
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)

_JOIN_SIGNS = {"inner": "⋈", "left": "⟕", "right": "⟖", "full": "⟗", "semi": "⋉", "anti": "▷"}
_AT = {At.OLD: "₀", At.NEW: "", At.DELTA: ""}


def _labels(columns: tuple[Column, ...]) -> str:
    return ", ".join(c.label for c in columns)


def _projected(node: Project) -> str:
    return ", ".join(
        o.column.label if readable(o.expr.sql) == o.column.label else f"{o.expr} → {o.column.label}"
        for o in node.outputs
    )


def _and(parts: tuple[object, ...]) -> str:
    return " and ".join(str(p) for p in parts)


def _aggregated(node: Aggregate) -> str:
    keys = ", ".join(node.column(k).label for k in node.keys)
    calls = ", ".join(f"{c} → {c.column.label}" for c in node.calls)
    return "; ".join(part for part in (keys, calls) if part)


def _scanned(node: Scan) -> str:
    return f"{'d' if node.at is At.DELTA else ''}{node.table}{_AT[node.at]}"


_HEADS: dict[type, Callable[..., str]] = {
    Scan: lambda n: f"scan {_scanned(n)} ({_labels(n.output)})",
    Constant: lambda n: f"{len(n.rows)} constant rows ({_labels(n.output)})",
    Filter: lambda n: f"filter {_and(n.conjuncts)}",
    Project: lambda n: f"project {_projected(n)}",
    Join: lambda n: f"{n.kind} join {_JOIN_SIGNS[n.kind]} {_and(n.on) or 'all pairs'}",
    UnionAll: lambda n: "union all",
    Negate: lambda n: "negate",
    Weigh: lambda n: f"weigh as {n.weight.label}",
    Unweigh: lambda n: f"unweigh {n.weight}",
    Consolidate: lambda n: "consolidate",
    Distinct: lambda n: "distinct",
    Aggregate: lambda n: f"aggregate by {_aggregated(n)}" if n.keys else f"aggregate {_aggregated(n)}",
    Window: lambda n: f"window {', '.join(readable(c.over(n.partition)) for c in n.calls)}",
    TopK: lambda n: f"top {n.limit} offset {n.offset} by {', '.join(str(o) for o in n.order) or 'nothing'}",
    ExceptAll: lambda n: "except all",
    IntersectAll: lambda n: "intersect all",
    Generate: lambda n: f"generate {n.generator} → {_labels(n.output)}",
    Opaque: lambda n: f"query {n.sql}",
}


def head(node: Node) -> str:
    """One line for one node."""
    return _HEADS[type(node)](node)


def tree(node: Node, remark: Callable[[Node], str] = lambda node: "") -> str:
    """The plan as an indented tree; `remark` may add something to a line."""
    lines: list[str] = []

    def visit(node: Node, indent: str, branch: str) -> None:
        note = remark(node)
        lines.append(f"{indent}{branch}{head(node)}{'   ' + note if note else ''}")
        below = indent + ("" if not branch else "│  " if branch == "├─ " else "   ")
        for i, part in enumerate(node.inputs):
            visit(part, below, "└─ " if i == len(node.inputs) - 1 else "├─ ")

    visit(node, "", "")
    return "\n".join(lines)


_NOTATION: dict[type, Callable[..., str]] = {
    Scan: _scanned,
    Constant: lambda n: "{" + ", ".join("(" + ", ".join(v.sql for v in row) + ")" for row in n.rows) + "}",
    Filter: lambda n: f"σ[{_and(n.conjuncts)}]({notation(n.input)})",
    Project: lambda n: f"π[{_projected(n)}]({notation(n.input)})",
    Join: lambda n: f"({notation(n.left)} {_JOIN_SIGNS[n.kind]}[{_and(n.on)}] {notation(n.right)})",
    UnionAll: lambda n: "(" + " + ".join(notation(m) for m in n.members) + ")",
    Negate: lambda n: f"−{notation(n.input)}",
    Weigh: lambda n: f"weigh[{n.weight.label}]({notation(n.input)})",
    Unweigh: lambda n: f"unweigh[{n.weight}]({notation(n.input)})",
    Consolidate: lambda n: notation(n.input),
    Distinct: lambda n: f"δ({notation(n.input)})",
    Aggregate: lambda n: f"γ[{_aggregated(n)}]({notation(n.input)})",
    Window: lambda n: f"ω[{', '.join(readable(c.over(n.partition)) for c in n.calls)}]({notation(n.input)})",
    TopK: lambda n: f"τ[{n.limit}; {', '.join(str(o) for o in n.order)}]({notation(n.input)})",
    ExceptAll: lambda n: f"({notation(n.left)} ∸ {notation(n.right)})",
    IntersectAll: lambda n: f"({notation(n.left)} ∩ {notation(n.right)})",
    Generate: lambda n: f"μ[{n.generator}]({notation(n.input)})",
    Opaque: lambda n: f"query({n.sql})",
}


def notation(node: Node) -> str:
    """One line in the notation of the papers; ₀ marks an old state, d a change."""
    return _NOTATION[type(node)](node)
