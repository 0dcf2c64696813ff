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

JOIN_SIGNS = {"inner": "⋈", "left": "⟕", "right": "⟖", "full": "⟗", "semi": "⋉", "anti": "▷"}
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
    Join: lambda n: f"{n.kind} join {JOIN_SIGNS[n.kind]} {_and(n.on) or 'all pairs'}",
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


Show = Callable[[Node], str]

_NOTATION: dict[type, Callable[..., str]] = {
    Scan: lambda n, show: _scanned(n),
    Constant: lambda n, show: "{" + ", ".join("(" + ", ".join(v.sql for v in row) + ")" for row in n.rows) + "}",
    Filter: lambda n, show: f"σ[{_and(n.conjuncts)}]({show(n.input)})",
    Project: lambda n, show: f"π[{_projected(n)}]({show(n.input)})",
    Join: lambda n, show: f"({show(n.left)} {JOIN_SIGNS[n.kind]}[{_and(n.on)}] {show(n.right)})",
    UnionAll: lambda n, show: "(" + " + ".join(show(m) for m in n.members) + ")",
    Negate: lambda n, show: f"−{show(n.input)}",
    Weigh: lambda n, show: f"weigh[{n.weight.label}]({show(n.input)})",
    Unweigh: lambda n, show: f"unweigh[{n.weight}]({show(n.input)})",
    Consolidate: lambda n, show: show(n.input),
    Distinct: lambda n, show: f"δ({show(n.input)})",
    Aggregate: lambda n, show: f"γ[{_aggregated(n)}]({show(n.input)})",
    Window: lambda n, show: f"ω[{', '.join(readable(c.over(n.partition)) for c in n.calls)}]({show(n.input)})",
    TopK: lambda n, show: f"τ[{n.limit}; {', '.join(str(o) for o in n.order)}]({show(n.input)})",
    ExceptAll: lambda n, show: f"({show(n.left)} ∸ {show(n.right)})",
    IntersectAll: lambda n, show: f"({show(n.left)} ∩ {show(n.right)})",
    Generate: lambda n, show: f"μ[{n.generator}]({show(n.input)})",
    Opaque: lambda n, show: f"query({n.sql})",
}


def notation(node: Node, show: Show | None = None) -> str:
    """One line in the notation of the papers; ₀ marks an old state, d a change. `show` may print the inputs otherwise."""
    return _NOTATION[type(node)](node, show or notation)
