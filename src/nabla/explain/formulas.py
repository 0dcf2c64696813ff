"""The view's maintenance expressions, as formulas over tables and stages.

Stages are called A, B, …: `A₀` are the stored rows of the first, `dA` their change, `□A` its change table, `groups(A)` the
groups that a change touches. Of a view that is computed key by key, `K` are the keys that the change touches.
"""

from __future__ import annotations

from dataclasses import replace

from nabla.algebra.names import is_deleted, is_inner, is_touched, stage_number, stage_of
from nabla.algebra.nodes import Aggregate, At, Filter, Generate, Join, Node, Project, Scan, Unweigh, Window
from nabla.algebra.notation.formula import MINUS, SUM, Formula, Writer, scan_text
from nabla.algebra.notation.lines import Page
from nabla.algebra.traverse import map_nodes
from nabla.calculus.by_key import TOUCHED
from nabla.calculus.partials import Partial
from nabla.calculus.stages import COPIES, COPY, PLACE, ChangeTable, Stage, Staged, TopRows
from nabla.planner.steps import Build, Iterate, Produce, Recompute, Replace, Settle, Step, Touch


def stage_name(table: str) -> str:
    """The letter of a stage: @0 is A."""
    number = stage_number(table)
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


class Formulas:
    """Writes the steps of one plan as formulas. A part that occurs in several steps has one name in all of them."""

    def __init__(self, view: str, staged: Staged, steps: tuple[Step, ...]) -> None:
        self.view = view
        self.staged = staged
        self.page = Page()
        self._root = _on_change(staged.root)
        queries = [query for step in steps for query in step.all_queries]
        self.writer = Writer(*queries, self._root, reading=self._reading)

    def lines(self, step: Step) -> list[str]:
        match step:
            case Touch():
                return self._lines(_touched_name(step.stage), step.query)
            case Settle():
                return self._lines(f"d{stage_name(step.stage.table)}", step.query)
            case Produce():
                return self._lines(f"d {self.view}", step.query)
            case Replace():
                return [*self._lines("K", step.touched), *self._lines(f"{self.view}, rows of K", step.query)]
            case Build():
                return self._lines(stage_name(step.stage.table), step.query)
            case Iterate():
                return self._level_lines(step)
            case Recompute():
                return self._lines(self.view, step.query)

    def _level_lines(self, step: Iterate) -> list[str]:
        """The lines of a recursion: its first level, and any other level from the level before."""
        name, d = stage_name(step.stage.table), "" if step.anew else "d"
        first = self._lines(f"{d}{name}⁰", step.start) if step.start is not None else []
        return first + self._lines(f"{d}{name}ⁱ⁺¹", step.query)

    def lines_if_lost(self, step: Settle) -> list[str]:
        """The lines of a step that also reads the groups whose min or max was deleted."""
        assert step.query_if_lost is not None
        return self._lines(f"d{stage_name(step.stage.table)}", step.query_if_lost)

    def finish_lines(self) -> list[str]:
        """The lines of the view's change, for a view that follows from the change of its last stage."""
        return self._lines(f"d {self.view}", self._root)

    def _lines(self, name: str, query: Node) -> list[str]:
        return self.page.lines(name, self.writer.write(query))

    def _reading(self, w: Writer, node: Node) -> Formula | None:
        """The formulas of nodes that read or merge the state of stages; None for other nodes, which are written as usual."""
        match node:
            case Scan(table=table) if table == TOUCHED:
                return w.make("K")
            case Scan() if is_inner(node.table):
                return self._stage_scan(w, node)
            case Filter(input=Aggregate(calls=(only,)) as log) if only.column == COPIES:
                return w.write(log.input)
            case Filter() if any(is_deleted(name) for c in node.conjuncts for name in c.columns):
                lost = sorted({w.name(n) for c in node.conjuncts for n in c.columns if is_deleted(n)})
                return w.make("σ", (" or ".join(f"{name} was the extreme" for name in lost),), w.write(node.input))
            case Generate() if node.output == (COPY,):
                return w.write(node.input)
            case Project():
                return self._stage_rows(w, node)
            case Unweigh():
                return self._settled_groups(w, node)
            case Window(calls=(only,)) if only.column == PLACE:
                stored, change = (w.write(member.inputs[0]) for member in node.input.inputs)
                return w.make("rank", tuple(w.words(o) for o in only.order), w.make(SUM, (), stored, change))
        return None

    def _stage_scan(self, w: Writer, scan: Scan) -> Formula:
        if is_touched(scan.table):
            return w.make(_touched_name(self._touched_stage(scan)))
        return w.make(scan_text(stage_name(scan.table), scan.at).replace(" ", ""))

    def _touched_stage(self, scan: Scan) -> Stage:
        return self.staged.stage(stage_of(scan.table))

    def _stage_rows(self, w: Writer, node: Project) -> Formula | None:
        """The formula below a projection that makes a stage's rows from its state, or its first state from its change table:
        such projections are not shown."""
        below = node.input
        for stage in self.staged.stages:
            if isinstance(stage, ChangeTable) and node.columns == stage.state and isinstance(below, Aggregate):
                return w.write(below)
            if node.outputs == stage.outputs():
                test = stage.present()
                present = isinstance(below, Filter) and test is not None and below.conjuncts == (test,)
                return w.write(below.inputs[0] if present else below)
        return None

    def _settled_groups(self, w: Writer, node: Unweigh) -> Formula:
        """The formula of the change of a state: the merged rows of touched groups minus their stored rows."""
        merged = next(n for n in node.walk() if isinstance(n, Generate)).input
        first = merged
        while isinstance(first, Join) and isinstance(first.left, Join):
            first = first.left
        assert isinstance(first, Join)
        assert isinstance(first.left, Scan)
        stage = self._touched_stage(first.left)
        assert isinstance(stage, ChangeTable)
        keys = tuple(stage.node.column(k).label for k in stage.keys)
        new = w.make("π", (*keys, *(_merge_text(w, p, merged is not first) for p in stage.partials)), w.write(merged))
        if stage.keys:
            new = w.make("σ", (f"{w.name(stage.count.name)} > 0",), new)
        return w.make(SUM, (), new, w.make(MINUS, (), w.write(first.right)))


def _merge_text(w: Writer, partial: Partial, read_again: bool) -> str:
    name = w.name(partial.column.name)
    if partial.extreme is None:
        return f"{name} + d {name}"
    better = f"{partial.extreme.lower()}({name}, d {name})"
    return f"{name.rpartition('.')[0]} where read again else {better}" if read_again else better


def _touched_name(stage: Stage) -> str:
    name = stage_name(stage.table)
    if isinstance(stage, TopRows):
        return f"places({name})"
    return f"□{name}" if isinstance(stage, ChangeTable) else f"groups({name})"


def _on_change(root: Node) -> Node:
    """The root, which reads one stage, applied to the change of that stage."""
    return map_nodes(root, lambda node: replace(node, at=At.DELTA) if isinstance(node, Scan) else node)
