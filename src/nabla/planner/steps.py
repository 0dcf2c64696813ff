"""A refresh as data: small immutable steps that `explain` prints and the engine executes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Node
from nabla.algebra.traverse import relations
from nabla.calculus.stages import Levels, Stage

Mode = Literal["auto", "incremental", "strict", "full"]
Outcome = Literal["skip", "incremental", "full"]
Size = Literal["tiny", "small", "large"]
"""How Spark is set up: tiny tables and changes, a small change in larger tables, a large change."""


@dataclass(frozen=True)
class Touch:
    """Find the groups of a stage that the change touches."""

    stage: Stage
    query: Node


@dataclass(frozen=True)
class Settle:
    """Compute the signed change of a stage's state. `query` also recomputes groups that lost their min or max;
    `query_if_none_lost` serves where the touched groups show that none can have."""

    stage: Stage
    query: Node
    query_if_none_lost: Node


@dataclass(frozen=True)
class Produce:
    """Compute the signed change of the view by a query of its own."""

    query: Node


@dataclass(frozen=True)
class Replace:
    """Replace the rows of the view whose keys a change touches by what the query gives for these keys. `key` are the
    places of the key among the view's columns."""

    key: tuple[int, ...]
    touched: Node
    query: Node


@dataclass(frozen=True)
class Finish:
    """The change of the view, row by row from the change of its last stage's state: values, and which rows are kept."""

    stage: Stage
    values: tuple[Expr, ...]
    keep: Expr | None


@dataclass(frozen=True)
class Build:
    """Compute the state of a stage whole."""

    stage: Stage
    query: Node


@dataclass(frozen=True)
class Iterate:
    """Compute the change of a recursion's levels, or (`anew`) all of them, each from the one before: `start` is of the
    first level. What follows from a level that changed is `from_level`; `from_both` where the tables of the step
    changed, too, and `from_tables` where only they did. Queries that nothing can come from are None."""

    stage: Levels
    start: Node | None
    from_level: Node
    from_both: Node | None = None
    from_tables: Node | None = None
    anew: bool = False

    @property
    def query(self) -> Node:
        """The one that tells most."""
        return self.from_both or self.from_level

    @property
    def queries(self) -> tuple[Node, ...]:
        return tuple(q for q in (self.start, self.from_level, self.from_both, self.from_tables) if q is not None)


@dataclass(frozen=True)
class Recompute:
    """Compute the view whole; what was there before is compared with it."""

    query: Node


Step = Touch | Settle | Produce | Replace | Finish | Build | Iterate | Recompute


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
