"""A refresh as data: small immutable steps that `explain` prints and the engine executes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Node, Scan
from nabla.algebra.traverse import relations
from nabla.calculus.stages import Levels, Stage, Staged
from nabla.errors import NablaError
from nabla.rewrite.join_order import NOTHING_KNOWN, TableSizes

Mode = Literal["auto", "incremental", "strict", "full"]
MODES: tuple[Mode, ...] = get_args(Mode)
Outcome = Literal["skip", "incremental", "full"]
Size = Literal["tiny", "small", "large"]
"""The size for which Spark is configured: tiny tables and changes, a small change in larger tables, a large change."""
MOST_REMEMBERED = 64
"""Ways to maintain one view that are remembered."""


class _QueryStep:
    """A step of a refresh that runs queries. The relations that it reads are those that its queries scan."""

    @property
    def queries(self) -> tuple[Node, ...]:
        """The queries that the step runs in the usual case."""
        raise NotImplementedError

    @property
    def all_queries(self) -> tuple[Node, ...]:
        """All queries that the step may run."""
        return self.queries

    def scans(self, *, as_a_rule: bool = False) -> Iterator[Scan]:
        """The scans of all queries, or of those of the usual case."""
        queries = self.queries if as_a_rule else self.all_queries
        return (scan for query in queries for scan in query.scans)


def check_mode(mode: str) -> None:
    """Refuse a mode that there is not."""
    if mode not in MODES:
        raise NablaError(
            "NABLA_MODE", f"there is no mode {mode!r}", place="mode=", remedy=f"Use one of {', '.join(MODES)}."
        )


@dataclass(frozen=True)
class Touch(_QueryStep):
    """Find the groups of a stage that the change touches."""

    stage: Stage
    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


@dataclass(frozen=True)
class Finish:
    """The projection and filter that make the change of a view from the change of its last stage's state, row by row. Rows
    for which `keep` is not true are dropped."""

    stage: Stage
    values: tuple[Expr, ...]
    keep: Expr | None


@dataclass(frozen=True)
class Settle(_QueryStep):
    """Compute the signed change of a stage's state, and with `finish` also the change of the view.

    `query_if_lost` recomputes groups that lost their min or max, too; it is None if the stage has neither function."""

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
class Produce(_QueryStep):
    """Compute the signed change of the view by a query of its own."""

    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


@dataclass(frozen=True)
class Replace(_QueryStep):
    """Replace the rows of the view with touched keys by the result of the query for these keys. `key` has the places of the
    key among the view's columns. The touched keys are those in the changes of `tables`, and those that the query `met` finds.
    With `only_new` the view has none of them yet, and there is nothing to replace: Liu and Vincent's limited standard form."""

    key: tuple[int, ...]
    touched: Node
    query: Node
    tables: tuple[str, ...] = ()
    met: Node | None = None
    only_new: bool = False

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.touched, self.query)


@dataclass(frozen=True)
class Build(_QueryStep):
    """Compute the state of a stage whole."""

    stage: Stage
    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


@dataclass(frozen=True)
class Iterate(_QueryStep):
    """Compute the change of a recursion's levels, or with `anew` the levels themselves, each from the level before; with
    `finish` also the change of the view.

    `start` computes the first level. `from_level` computes the change of a level from the change of the level before;
    `from_both` is for a change of the level before and of the step's tables, `from_tables` for a change of only these. A
    query that cannot give rows is None."""

    stage: Levels
    start: Node | None
    from_level: Node
    from_both: Node | None = None
    from_tables: Node | None = None
    anew: bool = False
    finish: Finish | None = None

    @property
    def query(self) -> Node:
        """The query that `explain` shows: the one for the most general case."""
        return self.from_both or self.from_level

    @property
    def queries(self) -> tuple[Node, ...]:
        return tuple(q for q in (self.start, self.from_level, self.from_both, self.from_tables) if q is not None)


@dataclass(frozen=True)
class Recompute(_QueryStep):
    """Compute the view whole; its old rows are then compared with the new ones."""

    query: Node

    @property
    def queries(self) -> tuple[Node, ...]:
        return (self.query,)


Step = Touch | Settle | Produce | Replace | Build | Iterate | Recompute


def doing(step: Step) -> str:
    """What a step does, in a few words for somebody who watches it run."""
    match step:
        case Touch():
            return "find the touched groups"
        case Settle():
            return "renew the state of touched groups"
        case Produce():
            return "compute the change"
        case Replace():
            return "replace rows by key"
        case Build():
            return "build a state"
        case Iterate():
            return "the levels of a recursion"
        case Recompute():
            return "recompute"


def side_by_side(steps: Sequence[Step]) -> list[tuple[Step, ...]]:
    """The steps in groups that can run together: consecutive states that do not read each other are built together."""
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
    """An estimate in seconds, and the reason for it."""

    seconds: float
    because: str
    measured: bool = False
    """Whether a refresh like the next one was measured."""
    untried: bool = False
    """Whether maintaining the view was not measured after a change like this one."""
    doubtful: bool = False
    """Whether there is a single measurement, and it is old."""

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.because})"


@dataclass(frozen=True)
class Plan:
    """The plan of a refresh: what the planner chose, why, and the steps. `changed` names the sources that changed."""

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


class StepMemory:
    """Remembers the maintenance steps of one view for each set of changed tables, so that refreshes run the same queries
    again as long as the sizes of the tables keep their order of magnitude."""

    def __init__(self, derive: Callable[[Staged, frozenset[str], TableSizes], tuple[Step, ...]]) -> None:
        self._derive = derive
        self._steps: dict[tuple[object, ...], tuple[Step, ...]] = {}

    def __call__(self, staged: Staged, changed: frozenset[str], rows: TableSizes = NOTHING_KNOWN) -> tuple[Step, ...]:
        sizes = {table: 1 << count.bit_length() for table, count in rows.items()}
        key = (staged.key, changed, *sorted(sizes.items()))
        if key not in self._steps:
            if len(self._steps) >= MOST_REMEMBERED:
                self._steps.clear()
            self._steps[key] = self._derive(staged, changed, sizes)
        return self._steps[key]
