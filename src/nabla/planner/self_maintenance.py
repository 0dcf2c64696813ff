"""Can a view be maintained without its sources, from their changes and what is stored beside it? What would make it so?

A view is self-maintainable if no step of its maintenance reads a source, before or after, but only what changed in it.
Most joins are not. What they read of each source is then stored as an auxiliary view: the columns and rows that the view
uses, and the whole source as the last resort. The view over its auxiliary views is the same view, and each auxiliary view
needs no more than the change of its own source.

That is why the rows of R in R ⋈ σ(S) are not reduced to those that have a partner, R ⋉ σ(S): a row that S gains, or one
that an update lets pass σ, finds its partners among the rows of R that had none. An enforced foreign key from R to S excludes
the first, but not the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from nabla.algebra.clock import reads_clock
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Filter, Node, Project, Recursion, Scan
from nabla.algebra.notation.tree import tree
from nabla.calculus.stages import Staged
from nabla.planner.delta_steps import maintenance_steps
from nabla.planner.steps import Step

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
class SelfMaintenance:
    """The answer for one view within a set of views: `reads` are the sources outside of the set that maintenance reads,
    `states` what is kept beside the view, `auxiliaries` what would have to be."""

    view: str
    reads: tuple[str, ...]
    states: tuple[str, ...]
    auxiliaries: tuple[Auxiliary, ...]
    obstacle: str = ""
    insertions: bool = False
    """Whether insertions alone need no source."""

    @property
    def alone(self) -> bool:
        """By its own rows, as the papers mean it."""
        return self.maintainable and not self.states

    @property
    def maintainable(self) -> bool:
        return not self.reads and not self.obstacle

    def __str__(self) -> str:
        return "\n".join([f"{self.view}: {self._verdict}", *(f"  {line}" for line in self._details())])

    @property
    def _verdict(self) -> str:
        if self.alone:
            return "self-maintainable: its own rows and the changes of its sources are enough"
        if self.maintainable:
            return "not self-maintainable by its own rows; it is with the counts that are kept beside it"
        return "not self-maintainable"

    def _details(self) -> Iterator[str]:
        yield from (f"kept beside it: {state}" for state in self.states)
        if self.obstacle:
            yield f"it is recomputed: {self.obstacle}"
        elif self.reads:
            yield f"a change makes it read {', '.join(self.reads)}"
            if self.insertions:
                yield "insertions alone do not"
        if self.auxiliaries:
            yield "auxiliary views that would make it so:"
            yield from (f"  {auxiliary}" for auxiliary in self.auxiliaries)

    def to_dict(self) -> dict[str, object]:
        kinds = [{"name": a.name, "kind": a.kind, "table": a.table, "columns": a.outputs} for a in self.auxiliaries]
        return {
            "view": self.view,
            "alone": self.alone,
            "self_maintainable": self.maintainable,
            "reads": self.reads,
            "states": self.states,
            "insertions": self.insertions,
            "obstacle": self.obstacle,
            "auxiliaries": kinds,
        }


def assess(
    view: str, plan: Node, staged: Staged, columns: Mapping[str, int], given: frozenset[str], obstacle: str = ""
) -> SelfMaintenance:
    """`columns` says how many columns each source has; `given` are the views of the set that it belongs to."""
    sources = columns.keys() - given
    steps = maintenance_steps(staged, frozenset(columns)) if not obstacle else ()
    reads = _read(steps) & sources
    gently = _read(steps, as_a_rule=True) & sources  # unless a minimum or maximum was deleted
    states = tuple(f"{tree(stage.node).splitlines()[0]}: {stage.how.state}" for stage in staged.stages)
    wanted = detach(view, plan, columns, given)[1] if reads or obstacle else ()
    return SelfMaintenance(view, tuple(sorted(reads)), states, wanted, obstacle, insertions=bool(reads) and not gently)


def _read(steps: tuple[Step, ...], *, as_a_rule: bool = False) -> set[str]:
    """The relations of which steps read the old or new rows, and not just the change."""
    scans = (scan for step in steps for scan in step.scans(as_a_rule=as_a_rule))
    return {scan.table for scan in scans if scan.at is not At.DELTA}


def detach(
    view: str, plan: Node, columns: Mapping[str, int], given: frozenset[str] = frozenset()
) -> tuple[Node, tuple[Auxiliary, ...]]:
    """The view over auxiliary views, and these."""
    work = _Detaching(view, columns, given | {n.table for n in plan.walk() if isinstance(n, Recursion)})
    root = work.replace_sources(plan)
    return root, tuple(sorted(work.made, key=lambda a: ORDER.index(a.kind)))


class _Detaching:
    def __init__(self, view: str, columns: Mapping[str, int], given: frozenset[str]) -> None:
        self.view = view
        self.columns = columns
        self.given = given
        self.made: list[Auxiliary] = []

    def replace_sources(self, node: Node) -> Node:
        scan = _chain(node)
        if scan is not None:
            return node if scan.table in self.given else self._auxiliary(node, scan)
        return node.with_inputs(*map(self.replace_sources, node.inputs)) if node.inputs else node

    def _auxiliary(self, node: Node, scan: Scan) -> Scan:
        whole = isinstance(node, Scan) and len(node.fields) == self.columns[scan.table]
        kind: Kind = "whole" if whole else "projection"
        number = sum(a.table == scan.table for a in self.made)
        name = f"{self.view}_{scan.table}{number or ''}"
        outputs = _labels(node.columns)
        self.made.append(Auxiliary(name, kind, scan.table, node, outputs))
        return Scan(name, At.NEW, node.columns, outputs)


def _chain(node: Node) -> Scan | None:
    """The scan below filters and projections, whose change is the change of the source, filtered and projected."""
    while isinstance(node, Filter | Project):
        expressions = node.conjuncts if isinstance(node, Filter) else tuple(o.expr for o in node.outputs)
        if not all(e.deterministic for e in expressions) or reads_clock(node):
            return None
        node = node.input
    return node if isinstance(node, Scan) else None


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
