"""Cutting the plan of a view into stages."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from nabla._cached import cached_property
from nabla.algebra.clock import reads_clock
from nabla.algebra.names import stage_table
from nabla.algebra.nodes import WEIGHT, Aggregate, At, Distinct, Filter, Node, Project, Recursion, Scan, TopK, Window
from nabla.algebra.shape import shape
from nabla.algebra.traverse import map_nodes
from nabla.calculus.delta import Derivation
from nabla.calculus.methods import AFFECTED_GROUPS, AFFECTED_PARTITIONS, CHANGE_TABLE, FIRST_ROWS, LEVELS, ONE_PARTITION
from nabla.calculus.partials import FORM, maintain
from nabla.calculus.stages.change_table import ChangeTable
from nabla.calculus.stages.levels import LEVEL, Levels
from nabla.calculus.stages.stage import Stage
from nabla.calculus.stages.top_rows import TopRows, without_ties


@dataclass(frozen=True)
class Staged:
    """A view as stages, each of which reads tables and earlier stages, and `root`, the plan above them. `key` names the key
    of a view that is computed key by key. `operators` has the stage of each grouping operator, from the innermost outwards;
    equal operators share a stage."""

    stages: tuple[Stage, ...]
    root: Node
    key: tuple[str, ...] = ()
    operators: tuple[Stage, ...] = ()

    @cached_property
    def keyed(self) -> bool:
        """Whether rows of the view can be replaced by key."""
        return bool(self.key) and not self.stages

    @cached_property
    def key_places(self) -> tuple[int, ...]:
        labels = [c.label for c in self.root.columns]
        return tuple(labels.index(name) for name in self.key)

    def stage(self, table: str) -> Stage:
        return next(s for s in self.stages if s.table == table)

    @cached_property
    def merged_stage(self) -> Stage | None:
        """The last stage, if the root only filters and projects its rows: then one query gives the changes of both."""
        node = self.root
        while isinstance(node, Filter | Project) and not reads_clock(node):
            node = node.input
        return (
            self.stages[-1] if self.stages and isinstance(node, Scan) and node.table == self.stages[-1].table else None
        )

    def derivation(self, changed: frozenset[str]) -> Derivation:
        return Derivation(changed, {s.table: s.contents for s in self.stages})

    def derivation_of_build(self) -> Derivation:
        """A derivation that reads every stage from a state that has just been built."""
        return Derivation(frozenset(), {s.table: s.contents_of_built for s in self.stages})


def cut(plan: Node, key: tuple[str, ...] = (), form: int = FORM, ansi: bool = True) -> Staged:
    """Make every grouping operator a stage, innermost first; an operator that equals an earlier one reads its stage. `form` is
    that of the stored states, and `ansi` whether overflows are errors in the sessions that evaluate them. A view that is
    computed key by key has no stages: its rows are made anew from the tables."""
    if key:
        return Staged((), plan, key)
    stages: dict[Hashable, Stage] = {}
    operators: list[Stage] = []

    def visit(node: Node) -> Node:
        stage = _stage(node, stage_table(len(stages)), form, ansi)
        if stage is None:
            return node
        stage = stages.setdefault(shape(node), stage)
        operators.append(stage)
        return Scan(stage.table, At.NEW, node.columns, tuple(c.name for c in stage.node.columns))

    root = map_nodes(plan, visit)
    return Staged(tuple(stages.values()), root, key, tuple(operators))


def _stage(node: Node, table: str, form: int, ansi: bool) -> Stage | None:
    if isinstance(node, Recursion):
        return Levels(table, node, (), LEVELS, (LEVEL, *node.columns))
    if isinstance(node, Distinct):
        return _stage(Aggregate(node.input, tuple(c.name for c in node.columns)), table, form, ansi)
    if isinstance(node, Aggregate):
        functions = [maintain(call, WEIGHT, form, ansi) for call in node.calls]
        kept = tuple(f for f in functions if f is not None)
        if len(kept) == len(functions):
            stage = ChangeTable(table, node, node.keys, CHANGE_TABLE, (), kept)
            keys = tuple(node.column(k) for k in node.keys)
            return replace(stage, state=keys + tuple(p.column for p in stage.partials))
        return Stage(table, node, node.keys, AFFECTED_GROUPS, node.columns)
    if isinstance(node, Window):
        return Stage(table, node, node.partition, AFFECTED_PARTITIONS, node.columns)
    if isinstance(node, TopK):
        node = without_ties(node)
        if node.limit is not None and node.offset == 0:
            return TopRows(table, node, (), FIRST_ROWS, node.columns)
        return Stage(table, node, (), ONE_PARTITION, node.columns)
    return None
