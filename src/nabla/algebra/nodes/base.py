"""The base of all nodes of the algebra: columns, inputs, and checks at construction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum

from nabla._cached import cached_property
from nabla.algebra.expressions import Column, Expr


class At(Enum):
    """Which state of a table a scan reads. Inside a delta this is always said."""

    OLD = "old"
    NEW = "new"
    DELTA = "delta"


class MalformedPlan(Exception):
    """A node was built that makes no sense: always a bug of the code that built it, never of a user's query."""


@dataclass(frozen=True)
class Node:
    @cached_property
    def columns(self) -> tuple[Column, ...]:
        raise MalformedPlan(f"{type(self).__name__} does not say what its columns are")

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(value for f in fields(self) if isinstance(value := getattr(self, f.name), Node))

    def with_inputs(self, *inputs: Node) -> Node:
        names = [f.name for f in fields(self) if isinstance(getattr(self, f.name), Node)]
        return replace(self, **dict(zip(names, inputs, strict=True)))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(c.name for c in self.columns)

    def column(self, name: str) -> Column:
        for c in self.columns:
            if c.name == name:
                return c
        raise MalformedPlan(f"{type(self).__name__} has no column {name}, only {sorted(self.names)}")

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, top down."""
        yield self
        for node in self.inputs:
            yield from node.walk()

    @cached_property
    def signed(self) -> bool:
        """Whether weights other than one can occur."""
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
