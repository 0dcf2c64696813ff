"""The page of operators in the docs, made from the registry: `python -m nabla.explain.operators_page > docs/operators.md`."""

from __future__ import annotations

import sys

from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column, Ref
from nabla.algebra.nodes import WEIGHT
from nabla.calculus.laws import LAWS, Law
from nabla.calculus.methods import AFFECTED_GROUPS, CHANGE_TABLE, GROUPING, METHODS
from nabla.calculus.partials import FUNCTIONS, Maintained, maintain
from nabla.explain.tables import markdown_table

_TYPES = {
    "integers": ("tinyint", "smallint", "int", "bigint"),
    "decimals": ("decimal(12,2)", "decimal(17,10)"),
    "decimals of more than 17 digits with a scale above 6": ("decimal(38,10)",),
    "floating point numbers": ("float", "double"),
    "strings, dates, times, booleans, binary": ("string", "date", "timestamp", "timestamp_ntz", "boolean", "binary"),
    "arrays, structs": ("array<int>", "struct<a:int>"),
}

_INTRODUCTION = """\
# Operators

Made from the registry of laws by `make docs`; do not edit.

`dS` is the change of S: a bag in which deleted rows count negative. `S₀` is S before the change, `S₁` after it. Operators
without state need nothing but the change and, for joins, the other side. Operators that group rows keep state beside the
view, so that a refresh reads only the groups that the change touches.
"""

_SOURCES = """\
Sources: GLT97 is Griffin, Libkin, Trickey, *An improved algorithm for the incremental recomputation of active relational
expressions*; GK98 is Griffin, Kumar, *Algebraic Change Propagation for Semijoin and Outerjoin Queries*; the thesis is
Barbier, *Incremental Evaluation of Relational Expressions*, which also describes the count algorithm and Quass's work.
"""


def page() -> str:
    return "\n".join([_INTRODUCTION, _operators(), "", _SOURCES, "## State", "", _methods(), "", _aggregates(), ""])


def _operators() -> str:
    headings = ("operator", "in SQL", "law", "from", "kept", "state")
    return markdown_table(headings, [_operator(law) for law in LAWS.values()])


def _operator(law: Law) -> tuple[str, ...]:
    methods = [m for m in METHODS if law.operator in m.operators] if law.operator in GROUPING else []
    kept = " or ".join(dict.fromkeys(m.name for m in methods)) or "stateless"
    state = "; or ".join(dict.fromkeys(m.state for m in methods)) or "none"
    return law.name.replace("_", " "), law.sql, f"`{law.law}`", law.source, kept, state


def _methods() -> str:
    names = {operator: law.name.replace("_", " ") for law in LAWS.values() for operator in (law.operator,)}
    rows = [
        (m.name, ", ".join(names[operator] for operator in m.operators), f"`{m.law}`", m.source, m.state)
        for m in METHODS
    ]
    return markdown_table(("kept by", "operators", "law with stored state", "from", "what is stored"), rows)


def _aggregates() -> str:
    lines = [
        "## Aggregate functions",
        "",
        f"An aggregate is kept by a {CHANGE_TABLE.name} if all its functions can be; otherwise by its {AFFECTED_GROUPS.name}.",
        "",
        markdown_table(
            ("function", "of", "kept by", "stored for each group"), [row for f in FUNCTIONS for row in _function(f)]
        ),
        "",
        "With `FILTER (WHERE …)` the same. `DISTINCT` and every other aggregate function: affected groups.",
    ]
    return "\n".join(lines)


def _function(name: str) -> list[tuple[str, ...]]:
    """The rows of the table for one function. Kinds of arguments that are maintained alike share a row."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for kind, types in _TYPES.items():
        for type_ in types:
            kinds.setdefault(_method_and_state(_probe(name, type_)), []).append(kind)
    rows = []
    for (method, stored), of in kinds.items():
        rest = "anything" if len(kinds) == 1 else "anything else" if method == AFFECTED_GROUPS.name else ""
        rows.append((f"`{name}`", rest or ", ".join(dict.fromkeys(of)), method, stored))
    return sorted(rows, key=lambda row: row[1] == "anything else")


def _probe(name: str, type_: str) -> Maintained | None:
    call = Call(Column("result#1", type_), name, (Ref("x#0", type_),))
    return maintain(call, WEIGHT)


def _method_and_state(found: Maintained | None) -> tuple[str, str]:
    if found is None:
        return AFFECTED_GROUPS.name, "the result"
    parts = ", ".join(p.column.name.rpartition(".")[2] for p in found.partials)
    lost = "" if all(p.cancels for p in found.partials) else "; a group whose extreme is deleted is read again"
    return CHANGE_TABLE.name + lost, parts


if __name__ == "__main__":
    sys.stdout.write(page())
