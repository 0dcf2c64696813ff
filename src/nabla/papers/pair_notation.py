"""A view's maintenance in the papers' own form, for people: `pairs_algebra` in their notation, `pairs_sql` as queries.

Views are bags and the pairs are about sets: they describe how the *set* of a view's rows changes if its tables have no
duplicates. If the view may have duplicates itself, the text says so; if it cannot be read as set algebra, the text says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count

from nabla.algebra.build import is_null_literal
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Expr, quote
from nabla.algebra.memo import Memo, count_uses
from nabla.algebra.names import Mark, label_of
from nabla.algebra.nodes import (
    Aggregate,
    At,
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
from nabla.algebra.notation.formula import JOIN_SIGNS
from nabla.algebra.notation.tree import notation
from nabla.algebra.sql import to_sql
from nabla.algebra.traverse import parts
from nabla.papers.pair_laws import operators
from nabla.papers.pairs import Pairs
from nabla.papers.set_form import NotSetAlgebra, Tables, duplicate_free, set_form
from nabla.papers.sets import keeps_every_column

_STATES = {
    At.OLD: "pre-update: tables are as they were before the change",
    At.NEW: "post-update: tables are as they are after the change",
}


def pairs_algebra(view: Node, changed: frozenset[str], tables: Tables | None = None, at: At = At.OLD) -> str:
    """∇V and ΔV in the notation of the papers, with a line for each result that is used more than once."""
    try:
        query = set_form(view, tables)
    except NotSetAlgebra as reason:
        return _not_sets(reason)
    return "\n".join([*_remarks(view, tables, at), *derivation_lines(Pairs(changed, at), query)])


def derivation_lines(pairs: Pairs, query: Node) -> list[str]:
    """∇V and ΔV of a view in set form, after the results that they use more than once."""
    pair = pairs.of(query)
    lines = SetFormulas((("∇V", pair.delete), ("ΔV", pair.insert)))
    lines.name_parts(pairs, query)
    return lines.lines()


def pairs_sql(
    view: Node,
    changed: frozenset[str],
    tables: Tables | None = None,
    at: At = At.OLD,
    write: Callable[[Node], str] = lambda plan: to_sql(plan, lambda scan: quote(scan.table)),
) -> str:
    """A query for ∇V and one for ΔV. They read the tables, and ∇R and ΔR of each table R that changed."""
    try:
        pair = Pairs(changed, at).of(set_form(view, tables))
    except NotSetAlgebra as reason:
        return "\n".join("-- " + line for line in _not_sets(reason).splitlines())
    queries = [f"-- {line}" for line in _remarks(view, tables, at)]
    for what, plan in (("∇V: rows to delete", pair.delete), ("ΔV: rows to insert", pair.insert)):
        text = write(plan) + ";" if plan is not None else "-- none"
        queries += ["", f"-- {what}", text]
    return "\n".join(queries)


def _not_sets(reason: NotSetAlgebra) -> str:
    return f"The papers' pairs ∇V and ΔV are about sets, and this view cannot be read as one.\n{reason}"


def _remarks(view: Node, tables: Tables | None, at: At) -> Iterator[str]:
    yield _STATES[at]
    if not duplicate_free(view, tables):
        yield "V is the set of the view's rows; the view itself may have duplicates"


class SetFormulas:
    """The lines of a derivation: results with their names, each after the parts that it uses more than once. A line defines a
    name before it is used."""

    def __init__(self, results: Sequence[tuple[str, Node | None]]) -> None:
        self.results = results
        self.names: Memo[Node, str] = Memo()
        self.shown: Memo[Node, str] = Memo()
        self.defined: dict[str, str] = {}
        self.further = count(1)
        self.plans = [plan for _, plan in results if plan is not None]
        self.uses = count_uses(self.plans, lambda part: part.inputs)

    def lines(self) -> list[str]:
        for part in parts(*self.plans):
            self.show(part)
        last = [(name, "∅" if plan is None else self._body(plan)) for name, plan in self.results]
        found = [*self.defined.items(), *last]
        width = max(len(name) for name, _ in found)
        return [f"{name:<{width}} = {_bare(text)}" for name, text in found]

    def name_parts(self, pairs: Pairs, view: Node) -> None:
        """Name every part Vᵢ of the view, ∇Vᵢ, ΔVᵢ, Vᵢᵐ, and the Rᵐ of a table. Another result has a name Xᵢ if it is used
        more than once."""
        numbers = count(1)
        for part in operators(view)[:-1]:
            operand = pairs.operand(part)
            if isinstance(part, Project) and _only_renames(part):
                continue
            name, old = (part.table, "₀") if isinstance(part, Scan) else (f"V{next(numbers)}", "")
            named = ((operand.old, name + old), (operand.deleted, "∇" + name), (operand.inserted, "Δ" + name))
            for rows, text in (*named, (operand.new, name + "ᵐ")):
                if rows.plan is not None:
                    self.names.setdefault(rows.plan, text)
            if operand.kept.plan is not None:
                self.uses[operand.kept.plan] = 1  # S − ∇S is short enough to be written out

    def show(self, node: Node) -> str:
        """The name of a named result, which is defined first; the formula of any other result."""
        named = node in self.names or self.uses.get(node, 0) > 1
        if not named or isinstance(node, Scan | Constant) or (isinstance(node, Project) and _only_renames(node)):
            return self._body(node)
        if node not in self.shown:
            text = self._body(node)
            name = self.names.get(node) or f"X{next(self.further)}"
            while self.defined.setdefault(name, text) != text:
                name += "′"
            self.shown[node] = name
        return self.shown[node]

    def _body(self, node: Node) -> str:
        """The formula of a node in the signs of set algebra, which differ from those of bags."""
        match node:
            case Scan():
                return node.table
            case Distinct(input=UnionAll()):
                return "(" + " ∪ ".join(self.show(member) for member in node.input.inputs) + ")"
            case Distinct():
                return self._body(node.input)
            case ExceptAll():
                return f"({self.show(node.left)} − {self.show(node.right)})"
            case IntersectAll():
                return f"({self.show(node.left)} ∩ {self.show(node.right)})"
            case UnionAll():
                return "(" + " + ".join(self.show(member) for member in node.members) + ")"
            case Join(on=(), kind="inner"):
                return f"({self.show(node.left)} × {self.show(node.right)})"
            case Join() if key := _common_key(node):
                return f"({self.show(node.left)} {JOIN_SIGNS[node.kind]}[{key}] {self.show(node.right)})"
            case Project() if _only_renames(node):
                return self.show(node.input)
            case Project() if _pads(node):
                signs = ("null × ", "") if node.outputs[0].expr.column is None else ("", " × null")
                return f"({signs[0]}{self.show(node.input)}{signs[1]})"
            case Project():
                return f"π[{', '.join(_output(o) for o in node.outputs)}]({self.show(node.input)})"
            case Filter():
                return f"σ[{_all(node.conjuncts)}]({self.show(node.input)})"
            case Join():
                return f"({self.show(node.left)} {JOIN_SIGNS[node.kind]}[{_all(node.on)}] {self.show(node.right)})"
            case Aggregate():
                keys = ", ".join(_label(k) for k in node.keys)
                calls = ", ".join(f"{c} → {c.column.label}" for c in node.calls)
                return f"γ[{'; '.join(filter(None, (keys, calls)))}]({self.show(node.input)})"
        return notation(node)


def _output(output: Named) -> str:
    value, name = str(output.expr), output.column.label
    return name if value == name else f"{value} → {name}"


def _all(conjuncts: tuple[Expr, ...]) -> str:
    return " and ".join(str(c) for c in conjuncts)


def _bare(text: str) -> str:
    """The text without parentheses around the whole of it."""
    depths = list(accumulate((c == "(") - (c == ")") for c in text))
    return text[1:-1] if text[0] == "(" and depths[-1] == 0 and 0 not in depths[:-1] else text


def _label(column: str) -> str:
    return label_of(column.rstrip(Mark.OLD))


def _only_renames(node: Project) -> bool:
    """Whether a projection only gives columns other numbers: `a#1` as `a#7`."""
    same = [o.expr.column is not None and _label(o.expr.column) == _label(o.column.name) for o in node.outputs]
    return all(same) and keeps_every_column(node) and len(node.outputs) == len(node.input.columns)


def _pads(node: Project) -> bool:
    """Whether a projection pads rows of one side of an outer join with NULLs."""
    values = [o.expr.column or is_null_literal(o.expr) for o in node.outputs]
    return all(values) and keeps_every_column(node)


def _common_key(node: Join) -> str:
    """The columns of a join on equal columns of both sides, as the papers write it; empty for other joins."""
    sides = [[side.column or side.sql for side in c.sides] if c.sides and c.null_safe else ["", "?"] for c in node.on]
    return ", ".join(_label(a) for a, b in sides) if all(_label(a) == _label(b) for a, b in sides) else ""
