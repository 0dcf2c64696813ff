"""The stage of a recursion (WITH RECURSIVE), which stores the rows of each level."""

from __future__ import annotations

from dataclasses import dataclass

from nabla.algebra.expressions import Column
from nabla.algebra.names import own_name
from nabla.algebra.nodes import At, Node, Recursion
from nabla.algebra.traverse import relations
from nabla.calculus.stages.stage import Stage

LEVEL = Column(own_name("level"), "int", False)


@dataclass(frozen=True)
class Levels(Stage):
    """A recursion, level by level. The state has every row with the number of its level."""

    @property
    def recursion(self) -> Recursion:
        assert isinstance(self.node, Recursion)
        return self.node

    @property
    def reads(self) -> frozenset[str]:
        of_step = frozenset(relations(self.recursion.step)) - {self.recursion.table}
        return frozenset(relations(self.recursion.start)) | of_step

    def contents_of_built(self, at: At = At.NEW) -> Node:
        """The state of a recursion stores a row once, with its number of copies, so copies are made even of a new state."""
        return super().contents_of_built(at) if at is At.DELTA else self.finish(self.rows(at))

    def step_moves(self, moved: frozenset[str]) -> bool:
        """Whether the step reads a relation that moved, and not only the start."""
        return not moved.isdisjoint(relations(self.recursion.step))
