"""The operators of a view, each with its law, its stage, its size and its role in the next refresh."""

from __future__ import annotations

from collections.abc import Mapping

from nabla.algebra.equalities import has_equality
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import (
    Aggregate,
    Constant,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Node,
    Opaque,
    Scan,
    TopK,
    UnionAll,
)
from nabla.algebra.notation.formula import Writer
from nabla.algebra.notation.tree import head
from nabla.algebra.traverse import parts
from nabla.calculus.laws import law_of
from nabla.calculus.methods import CHANGE_TABLE, GROUPING
from nabla.calculus.stages import Stage, Staged
from nabla.explain.formulas import stage_name
from nabla.explain.notes import NodeNote, Role, Stored
from nabla.planner.steps import Plan

Size = tuple[int | None, bool]
"""Rows, and whether they are known exactly."""


def stages_by_node(root: Node, staged: Staged) -> Memo[Node, Stage]:
    """The stage of each grouping operator. Operators and stages are both in order from the innermost outwards."""
    found: Memo[Node, Stage] = Memo()
    grouping = (node for node in parts(root) if isinstance(node, GROUPING))
    for node, stage in zip(grouping, staged.operators, strict=False):  # a view that is recomputed has no stages
        found[node] = stage
    return found


class _Noter:
    def __init__(self, root: Node, staged: Staged, plan: Plan, stored: Mapping[str, Stored], read: set[str]) -> None:
        self.writer = Writer(root)
        self.stages = stages_by_node(root, staged)
        self.plan = plan
        self.stored = stored
        self.read = read
        self.notes: list[NodeNote] = []
        self.sizes: Memo[Node, Size] = Memo()

    def visit(self, node: Node) -> int:
        children = tuple(self.visit(part) for part in node.inputs)
        law, stage, said = law_of(node), self.stages.get(node), head(self.writer, node)
        rows, exact = self.sizes[node] = self._size(node, stage)
        table = node.table if isinstance(node, Scan) and node.table in self.stored else ""
        note = NodeNote(
            id=len(self.notes),
            operator=type(node).__name__,
            label=str(said),
            rule=law.name if law else "",
            law=stage.how.law if stage else law.law if law else "",
            source=stage.how.source if stage else law.source if law else "",
            stage=stage_name(stage.table) if stage else "",
            children=children,
            role=self._role(node, stage),
            rows=rows,
            exact=exact,
            table=table,
            kind=node.kind if isinstance(node, Join) else "",
            detail=said.detail,
            columns=said.columns,
        )
        self.notes.append(note)
        return note.id

    def _role(self, node: Node, stage: Stage | None) -> Role:
        if self.plan.mode == "full":
            return "recompute"
        tables = {scan.table for scan in node.scans}
        if self.plan.mode == "skip":
            return "rest"
        if not tables & self.plan.changed:
            return "lookup" if tables & self.read else "rest"
        return "recompute" if stage is not None and stage.how != CHANGE_TABLE else "change"

    def _size(self, node: Node, stage: Stage | None) -> Size:
        if stage is not None and stage.state_table in self.stored:
            return self.stored[stage.state_table].rows, False  # not exact: the log of a state may hold a group twice
        if isinstance(node, Scan):
            known = self.stored.get(node.table)
            return (known.rows, True) if known else (None, False)
        return _guess(node, [self.sizes[part] for part in node.inputs])


def _guess(node: Node, inputs: list[Size]) -> Size:
    """A guess of the rows of an operator from those of its inputs, by the usual rules of thumb."""
    if isinstance(node, Constant):
        return len(node.rows), True
    counts = [rows for rows, _ in inputs if rows is not None]
    if len(counts) < len(inputs) or isinstance(node, Opaque):
        return None, False
    match node:
        case Filter():
            return counts[0] // 3, False
        case Join(kind="semi" | "anti"):
            return counts[0] // 2, False
        case Join():
            return max(counts) if has_equality(node) else counts[0] * counts[1], False
        case UnionAll():
            return sum(counts), all(exact for _, exact in inputs)
        case Aggregate(keys=()):
            return 1, True
        case TopK(limit=int(limit)):
            return min(counts[0], limit), False
        case ExceptAll() | IntersectAll():
            return counts[0] // 2, False
    return inputs[0]


def node_notes(
    root: Node, staged: Staged, plan: Plan, stored: Mapping[str, Stored], read: set[str], rows: int
) -> tuple[NodeNote, ...]:
    """The notes of all operators, children before their parents. The last one is the view, whose number of rows is known."""
    noter = _Noter(root, staged, plan, stored, read)
    noter.visit(root)
    *inner, last = noter.notes
    return (*inner, NodeNote(**{**vars(last), "rows": rows, "exact": True}))
