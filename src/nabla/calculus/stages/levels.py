"""A recursion (WITH RECURSIVE), whose state is kept level by level."""

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

    def built(self, at: At = At.NEW) -> Node:
        """A level has each row once, with its number of copies."""
        return super().built(at) if at is At.DELTA else self.finish(self.rows(at))

    def step_moves(self, moved: frozenset[str]) -> bool:
        """Whether the step itself changes, and not only what it starts from."""
        return not moved.isdisjoint(relations(self.recursion.step))
