"""Operators on changes: they make, read and add up the weights of rows. Only derived changes have them, no user's query."""

from __future__ import annotations

from dataclasses import dataclass

from nabla._cached import cached_property
from nabla.algebra.expressions import Column
from nabla.algebra.names import own_name
from nabla.algebra.nodes.base import Node

WEIGHT = Column(own_name("weight"), "bigint", False)
"""The column under which a derivation makes the weights of a change visible."""


@dataclass(frozen=True)
class Negate(Node):
    """The same rows with the opposite sign."""

    input: Node

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @cached_property
    def signed(self) -> bool:
        return True


@dataclass(frozen=True)
class Weigh(Node):
    """Makes weights visible: each row once, with its weight as a further column."""

    input: Node
    weight: Column = WEIGHT

    def __post_init__(self) -> None:
        self._check_distinct_names()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return (*self.input.columns, self.weight)

    @cached_property
    def signed(self) -> bool:
        return False


@dataclass(frozen=True)
class Unweigh(Node):
    """The inverse of Weigh: the column `weight` becomes the number of copies and disappears."""

    input: Node
    weight: str

    def __post_init__(self) -> None:
        self.input.column(self.weight)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.input.columns if c.name != self.weight)

    @cached_property
    def signed(self) -> bool:
        return True


@dataclass(frozen=True)
class Consolidate(Node):
    """Adds up the weights of equal rows and drops zeros. The result is the same signed multiset in the fewest rows."""

    input: Node

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @cached_property
    def signed(self) -> bool:
        return True
