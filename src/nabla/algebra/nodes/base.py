"""The base of all nodes of the algebra: columns, inputs, and checks at construction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from nabla._cached import cached_property
from nabla.algebra.expressions import Column, Expr

if TYPE_CHECKING:
    from nabla.algebra.nodes.operators import Scan


class At(Enum):
    """The state of a table that a scan reads: before the change, after it, or the change itself."""

    OLD = "old"
    NEW = "new"
    DELTA = "delta"


class MalformedPlan(Exception):
    """Code built a node that makes no sense. This is a bug of that code, never of a user's query."""


@dataclass(frozen=True)
class Node:
    """An operator of the algebra with the operators below it."""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        raise MalformedPlan(f"{type(self).__name__} does not say what its columns are")

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        return tuple([value for name in self.__dataclass_fields__ if isinstance(value := getattr(self, name), Node)])

    def with_inputs(self, *inputs: Node) -> Node:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        names = [name for name, value in values.items() if isinstance(value, Node)]
        return type(self)(**values | dict(zip(names, inputs, strict=True)))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(c.name for c in self.columns)

    def column(self, name: str) -> Column:
        for c in self.columns:
            if c.name == name:
                return c
        raise MalformedPlan(f"{type(self).__name__} has no column {name}, only {sorted(self.names)}")

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, top down; a node that is used twice comes once."""
        seen: set[int] = set()
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                waiting += reversed(node.inputs)

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        """The scans in it, from left to right, each once."""
        leaves = (node for node in self.walk() if not node.inputs and node is not self)
        return tuple(scan for leaf in leaves for scan in leaf.scans)

    @cached_property
    def signed(self) -> bool:
        """Whether rows can have weights other than one."""
        return any(node.signed for node in self.inputs)

    def _check(self, what: str, *expressions: Expr, within: frozenset[str] | None = None) -> None:
        within = within if within is not None else self.inputs[0].names
        for expression in expressions:
            if missing := expression.columns - within:
                raise MalformedPlan(
                    f"{what} {expression.sql} reads {sorted(missing)}, which its input lacks: {sorted(within)}"
                )

    def _check_distinct_names(self) -> None:
        names = [c.name for c in self.columns]
        if len(set(names)) != len(names):
            raise MalformedPlan(f"{type(self).__name__} would have two columns of one name: {sorted(names)}")
