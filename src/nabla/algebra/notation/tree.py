"""The algebra for people: an indented tree, and the notation of the papers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes import (
    Aggregate,
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
from nabla.algebra.notation.formula import JOIN_SIGNS, Writer, scan_text
from nabla.algebra.notation.lines import Page


class Head(NamedTuple):
    """A node in words: the operator, its details, and its columns if it names them itself."""

    word: str
    detail: str = ""
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        columns = f"({', '.join(self.columns)})" if self.columns else ""
        return " ".join(part for part in (self.word, self.detail, columns) if part)


def _labels(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(c.label for c in columns)


def _projection_text(w: Writer, node: Project) -> str:
    values = [(w.words(o.expr), o.column.label) for o in node.outputs]
    return ", ".join(name if value.rpartition(".")[2] == name else f"{value} → {name}" for value, name in values)


def _aggregation_text(w: Writer, node: Aggregate) -> str:
    keys = ", ".join(node.column(k).label for k in node.keys)
    calls = ", ".join(f"{w.words(c)} → {c.column.label}" for c in node.calls)
    return "; ".join(part for part in (f"by {keys}" if keys else "", calls) if part)


def _top(w: Writer, node: TopK) -> Head:
    after = f"after {node.offset} " if node.offset else ""
    most = f"{node.limit} " if node.limit is not None else ""
    by = f"by {', '.join(w.words(o) for o in node.order) or 'nothing'}"
    return Head("top" if most else "all", f"{most}{after}{by}")


def _conditions(w: Writer, conjuncts: tuple[Expr, ...]) -> str:
    return " and ".join(w.conditions(conjuncts))


_HEADS: dict[type, Callable[..., Head]] = {
    Scan: lambda w, n: Head("scan", scan_text(w.table(n), n.at), _labels(n.output)),
    Constant: lambda w, n: Head("", f"{len(n.rows)} constant rows", _labels(n.output)),
    Filter: lambda w, n: Head("filter", _conditions(w, n.conjuncts)),
    Project: lambda w, n: Head("project", _projection_text(w, n)),
    Join: lambda w, n: Head(f"{n.kind} join {JOIN_SIGNS[n.kind]}", _conditions(w, n.on) or "all pairs"),
    UnionAll: lambda w, n: Head("union all"),
    Negate: lambda w, n: Head("negate"),
    Weigh: lambda w, n: Head("weigh", f"as {n.weight.label}"),
    Unweigh: lambda w, n: Head("unweigh", n.weight),
    Consolidate: lambda w, n: Head("consolidate"),
    Distinct: lambda w, n: Head("distinct"),
    Aggregate: lambda w, n: Head("aggregate", _aggregation_text(w, n)),
    Window: lambda w, n: Head("window", ", ".join(c.over(n.partition, w.name) for c in n.calls)),
    TopK: _top,
    ExceptAll: lambda w, n: Head("except all"),
    IntersectAll: lambda w, n: Head("intersect all"),
    Generate: lambda w, n: Head("generate", f"{w.words(n.generator)} → {', '.join(_labels(n.output))}"),
    Recursion: lambda w, n: Head(
        "recursion", f"{n.table}, level by level{', each row once' * n.once}", _labels(n.output)
    ),
    Opaque: lambda w, n: Head("query", n.sql),
}


def head(writer: Writer, node: Node) -> Head:
    """A node of the writer's tree in words."""
    return _HEADS[type(node)](writer, node)


def tree(root: Node, remark: Callable[[Node], str] = lambda node: "") -> str:
    """The plan as an indented tree; `remark` may add something to a line."""
    writer = Writer(root)
    lines: list[str] = []

    def visit(node: Node, indent: str, branch: str) -> None:
        note = remark(node)
        lines.append(f"{indent}{branch}{head(writer, node)}{'   ' + note if note else ''}")
        below = indent + ("" if not branch else "│  " if branch == "├─ " else "   ")
        for i, part in enumerate(node.inputs):
            visit(part, below, "└─ " if i == len(node.inputs) - 1 else "├─ ")

    visit(root, "", "")
    return "\n".join(lines)


def notation(node: Node) -> str:
    """One line in the notation of the papers; ₀ marks an old state, d a change."""
    return Page().text(Writer(node).write(node))
