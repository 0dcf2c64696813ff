"""A refresh as data: small immutable steps that `explain` prints and the engine executes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Node, Scan
from nabla.algebra.traverse import relations
from nabla.calculus.stages import Levels, Stage

Mode = Literal["auto", "incremental", "strict", "full"]
Outcome = Literal["skip", "incremental", "full"]
Size = Literal["tiny", "small", "large"]
"""How Spark is set up: tiny tables and changes, a small change in larger tables, a large change."""


class _Computing:
    """A part of a refresh, which runs queries. The relations that it reads follow from them."""

    @property
    def queries(self) -> tuple[Node, ...]:
        """The queries that it runs as a rule."""
        raise NotImplementedError

    @property
    def all_queries(self) -> tuple[Node, ...]:
        """All queries that it may run."""
        return self.queries

    def scans(self, *, as_a_rule: bool = False) -> Iterator[Scan]:
        """The scans of all its queries, or of those that it runs as a rule."""
        queries = self.queries if as_a_rule else self.all_queries
        return (node for query in queries for node in query.walk() if isinstance(node, Scan))


@dataclass(frozen=True)
class Touch(_Computing):
    """Find the groups of a stage that the change touches."""

    stage: Stage
    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


@dataclass(frozen=True)
class Finish:
    """How the change of a view follows from the change of its last stage's state, row by row: the values, and which rows
    are kept."""

    stage: Stage
    values: tuple[Expr, ...]
    keep: Expr | None


@dataclass(frozen=True)
class Settle(_Computing):
    """Compute the signed change of a stage's state, and of the view where it follows row by row (`finish`).

    `query_if_lost` also recomputes groups that lost their min or max; it is None where the stage has neither."""

    stage: Stage
    query: Node
    query_if_lost: Node | None = None
    finish: Finish | None = None

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)

    @property
    def all_queries(self) -> tuple[Node, ...]:
        return self.queries if self.query_if_lost is None else (self.query, self.query_if_lost)


@dataclass(frozen=True)
class Produce(_Computing):
    """Compute the signed change of the view by a query of its own."""

    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


@dataclass(frozen=True)
class Replace(_Computing):
    """Replace the rows of the view whose keys a change touches by what the query gives for these keys. `key` are the
    places of the key among the view's columns."""

    key: tuple[int, ...]
    touched: Node
    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.touched, self.query)


@dataclass(frozen=True)
class Build(_Computing):
    """Compute the state of a stage whole."""

    stage: Stage
    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


@dataclass(frozen=True)
class Iterate(_Computing):
    """Compute the change of a recursion's levels, or (`anew`) all of them, each from the one before; and the change of the
    view where it follows row by row (`finish`).

    `start` computes the first level. `from_level` computes the change of a level from the change of the one before it;
    `from_both` does so if the tables of the step changed, too, and `from_tables` if only they did. A query that cannot give
    rows is None."""

    stage: Levels
    start: Node | None
    from_level: Node
    from_both: Node | None = None
    from_tables: Node | None = None
    anew: bool = False
    finish: Finish | None = None

    @property
    def query(self) -> Node:
        """The one that tells most."""
        return self.from_both or self.from_level

    @property
    def queries(self) -> tuple[Node, ...]:
        return tuple(q for q in (self.start, self.from_level, self.from_both, self.from_tables) if q is not None)


@dataclass(frozen=True)
class Recompute(_Computing):
    """Compute the view whole; its old rows are then compared with the new ones."""

    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


Step = Touch | Settle | Produce | Replace | Build | Iterate | Recompute


def side_by_side(steps: Sequence[Step]) -> list[tuple[Step, ...]]:
    """The steps in their order; states that follow each other and do not read each other are built together."""
    found: list[tuple[Step, ...]] = []
    for step in steps:
        before = [s for s in found[-1] if isinstance(s, Build)] if found else []
        if isinstance(step, Build) and before and relations(step.query).isdisjoint(s.stage.state_table for s in before):
            found[-1] = (*found[-1], step)
        else:
            found.append((step,))
    return found


@dataclass(frozen=True)
class Estimate:
    """Seconds, and what they are made of."""

    seconds: float
    because: str
    measured: bool = False
    """Whether a refresh like the one to come was measured."""
    untried: bool = False
    """Whether maintaining the view was not measured after a change like this one."""
    doubtful: bool = False
    """Whether it was measured but once, long ago."""

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.because})"


@dataclass(frozen=True)
class Plan:
    view: str
    mode: Outcome
    reason: str
    steps: tuple[Step, ...]
    changed: frozenset[str] = frozenset()
    incremental: Estimate | None = None
    full: Estimate | None = None
    size: Size = "tiny"

    @property
    def large(self) -> bool:
        """Whether results are too large for the driver and for broadcasting."""
        return self.size == "large"
