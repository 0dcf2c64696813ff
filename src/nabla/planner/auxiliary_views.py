"""Auxiliary views: what a view reads of its sources, stored beside it, so that it is maintained without them.

A source is read through *chains*: filters and projections over a scan. The change of a chain is the change of the source,
filtered and projected, so a chain that is stored needs no source. A view over its stored chains is the same view. Chains of
one source share one auxiliary view: it has the columns that any of them needs and the rows that any of them keeps. A view
that somebody else made serves as well, if a chain can be read from it.

The rows of R in R ⋈ σ(S) are not reduced to those that have a partner, R ⋉ σ(S): a row that S gains, or one that an update
lets pass σ, finds its partners among the rows of R that had none. An enforced foreign key from R to S excludes the first, but
not the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nabla.algebra.build import all_of, any_of
from nabla.algebra.calls import Named
from nabla.algebra.clock import reads_clock
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import At, Filter, Node, Project, Recursion, Scan
from nabla.algebra.shape import shape
from nabla.algebra.traverse import parts

Kind = Literal["projection", "whole"]
ORDER: tuple[Kind, ...] = ("projection", "whole")
"""Smallest first, as a rule."""
WORDS = {"projection": "projection of", "whole": "all of"}


@dataclass(frozen=True)
class Auxiliary:
    """An auxiliary view: `outputs` are the names that its columns get."""

    name: str
    kind: Kind
    table: str
    plan: Node
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {WORDS[self.kind]} {self.table} ({', '.join(self.outputs)})"


@dataclass(frozen=True)
class Chain:
    """Filters and projections over a scan. `conditions` and `values` are written with the fields of the table as columns."""

    node: Node
    scan: Scan
    conditions: tuple[Expr, ...]
    values: tuple[Expr, ...]

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it needs."""
        return frozenset().union(*(e.columns for e in (*self.conditions, *self.values)))

    def readable_from(self, view: Chain) -> bool:
        """Whether a view over the same table has all its rows and the fields that it needs."""
        if view.scan.table != self.scan.table:
            return False
        tested = {c.sql for c in view.conditions}
        left = [c for c in self.conditions if c.sql not in tested]
        needed = frozenset[str]().union(*(e.columns for e in (*left, *self.values)))
        kept = {value.column for value in view.values if value.column is not None}
        return tested <= {c.sql for c in self.conditions} and (needed <= kept or shape(self.node) == shape(view.node))


def chain(node: Node) -> Chain | None:
    """The node as a chain; None if it is none, or if it reads the clock or gives other values each time."""
    steps: list[Filter | Project] = []
    below = node
    while isinstance(below, Filter | Project):
        read = below.conjuncts if isinstance(below, Filter) else tuple(o.expr for o in below.outputs)
        if not all(e.deterministic for e in read) or reads_clock(below):
            return None
        steps.append(below)
        below = below.input
    if not isinstance(below, Scan):
        return None
    now: dict[str, Expr] = {
        c.name: Column(f, c.type, c.nullable).ref for c, f in zip(below.output, below.fields, strict=True)
    }
    conditions: tuple[Expr, ...] = ()
    for step in reversed(steps):
        if isinstance(step, Filter):
            conditions += tuple(c.substitute(now) for c in step.conjuncts)
        else:
            now = {o.column.name: o.expr.substitute(now) for o in step.outputs}
    return Chain(node, below, conditions, tuple(now[c.name] for c in node.columns))


def chains(plan: Node, given: frozenset[str]) -> list[Chain]:
    """The chains by which a view reads sources outside of `given`, from left to right."""
    found: list[Chain] = []
    waiting = [plan]
    seen: Memo[Node, bool] = Memo()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen[node] = True
        one = chain(node)
        if one is None:
            waiting += reversed(node.inputs)
        elif one.scan.table not in given:
            found.append(one)
    return found


def detach(
    view: str, plan: Node, columns: Mapping[str, int], given: frozenset[str] = frozenset()
) -> tuple[Node, tuple[Auxiliary, ...]]:
    """The view over auxiliary views, and these. `columns` has the number of columns of each source."""
    own = frozenset(n.table for n in plan.walk() if isinstance(n, Recursion))
    found = chains(plan, given | own)
    replaced: Memo[Node, Node] = Memo()
    made = []
    for table in dict.fromkeys(c.scan.table for c in found):
        here = [c for c in found if c.scan.table == table]
        auxiliary, over = _auxiliary(f"{view}_{table}", here, columns[table])
        made.append(auxiliary)
        for one, node in zip(here, over, strict=True):
            replaced[one.node] = node
    return _replace(plan, replaced), tuple(sorted(made, key=lambda a: ORDER.index(a.kind)))


def _replace(plan: Node, replaced: Memo[Node, Node]) -> Node:
    done: Memo[Node, Node] = Memo()
    for node in parts(plan):
        if node in replaced:
            done[node] = replaced[node]
        else:
            done[node] = node.with_inputs(*(done[part] for part in node.inputs)) if node.inputs else node
    return done[plan]


def _auxiliary(name: str, here: Sequence[Chain], width: int) -> tuple[Auxiliary, list[Node]]:
    """One auxiliary view for the chains of a table, and each chain over it."""
    first = here[0]
    table = first.scan.table
    if all(shape(one.node) == shape(first.node) for one in here):
        kind: Kind = "whole" if isinstance(first.node, Scan) and len(first.node.fields) == width else "projection"
        outputs = _labels(first.node.columns)
        scans: list[Node] = [Scan(name, At.NEW, one.node.columns, outputs) for one in here]
        return Auxiliary(name, kind, table, first.node, outputs), scans
    known = {f: c for one in here for f, c in zip(one.scan.fields, one.scan.output, strict=True)}
    fields = tuple(f for f in known if any(f in one.fields for one in here))
    rows: Node = Scan(table, At.NEW, tuple(known[f] for f in fields), fields)
    if all(one.conditions for one in here):
        refs = {f: known[f].ref for f in fields}
        rows = Filter(rows, (any_of([all_of([c.substitute(refs) for c in one.conditions]) for one in here]),))
    kind = "whole" if isinstance(rows, Scan) and len(fields) == width else "projection"
    return Auxiliary(name, kind, table, rows, fields), [_over(one, name, fields) for one in here]


def _over(one: Chain, name: str, fields: tuple[str, ...]) -> Node:
    """The chain over an auxiliary view with these fields."""
    columns = {f: c for f, c in zip(one.scan.fields, one.scan.output, strict=True) if f in fields}
    rows: Node = Scan(name, At.NEW, tuple(columns.values()), tuple(columns))
    refs = {f: c.ref for f, c in columns.items()}
    if one.conditions:
        rows = Filter(rows, tuple(c.substitute(refs) for c in one.conditions))
    if rows.columns == one.node.columns and all(v.column for v in one.values):
        return rows
    outputs = zip(one.node.columns, one.values, strict=True)
    return Project(rows, tuple(Named(column, value.substitute(refs)) for column, value in outputs))


def _labels(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The columns' own names, numbered where two are the same."""
    found: dict[str, None] = {}
    for column in columns:
        name, number = column.label, 1
        while name.casefold() in (known.casefold() for known in found):
            number += 1
            name = f"{column.label}_{number}"
        found[name] = None
    return tuple(found)
