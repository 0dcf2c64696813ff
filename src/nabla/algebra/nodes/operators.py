"""The operators of SQL, on bags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from nabla._cached import cached_property
from nabla.algebra.calls import Call, Named, Order, WindowCall
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.nodes.base import At, MalformedPlan, Node

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Scan(Node):
    """A table, a view or a hidden state table; `fields` are the table's own names of the columns."""

    table: str
    at: At
    output: tuple[Column, ...]
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.output) != len(self.fields):
            raise MalformedPlan(f"Scan of {self.table} has {len(self.output)} columns and {len(self.fields)} fields")
        self._check_distinct_names()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.output

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        return (self,)

    @cached_property
    def signed(self) -> bool:
        return self.at is At.DELTA


@dataclass(frozen=True)
class Constant(Node):
    """A few rows written in the query (VALUES); each value is an expression without columns."""

    output: tuple[Column, ...]
    rows: tuple[tuple[Expr, ...], ...]

    def __post_init__(self) -> None:
        self._check_distinct_names()
        for row in self.rows:
            if len(row) != len(self.output):
                raise MalformedPlan(f"Constant of {len(self.output)} columns has a row of {len(row)} values")
            self._check("Value", *row, within=frozenset())

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.output


@dataclass(frozen=True)
class Filter(Node):
    """The rows for which every conjunct is true."""

    input: Node
    conjuncts: tuple[Expr, ...]

    def __post_init__(self) -> None:
        self._check("Filter", *self.conjuncts)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Project(Node):
    """A row of computed values for each row."""

    input: Node
    outputs: tuple[Named, ...]

    def __post_init__(self) -> None:
        self._check("Project", *(o.expr for o in self.outputs))
        self._check_distinct_names()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(o.column for o in self.outputs)

    @cached_property
    def definitions(self) -> dict[str, Expr]:
        return {o.column.name: o.expr for o in self.outputs}


@dataclass(frozen=True)
class Join(Node):
    """A join of rows for which all conjuncts of `on` are true; without conjuncts it is the product."""

    left: Node
    right: Node
    on: tuple[Expr, ...] = ()
    kind: JoinKind = "inner"

    def __post_init__(self) -> None:
        if common := self.left.names & self.right.names:
            raise MalformedPlan(f"Both sides of a join have columns {sorted(common)}")
        self._check("Join condition", *self.on, within=self.left.names | self.right.names)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        left, right = self.left.columns, self.right.columns
        if self.kind in ("semi", "anti"):
            return left
        if self.kind in ("right", "full"):
            left = tuple(replace(c, nullable=True) for c in left)
        if self.kind in ("left", "full"):
            right = tuple(replace(c, nullable=True) for c in right)
        return left + right

    @cached_property
    def signed(self) -> bool:
        return self.left.signed or (self.right.signed and self.kind not in ("semi", "anti"))


@dataclass(frozen=True)
class UnionAll(Node):
    """Bag union by position, under columns of its own."""

    members: tuple[Node, ...]
    output: tuple[Column, ...]

    def __post_init__(self) -> None:
        for member in self.members:
            if len(member.columns) != len(self.output):
                raise MalformedPlan(f"Union of {len(self.output)} columns has a member of {len(member.columns)}")
        self._check_distinct_names()

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        return self.members

    def with_inputs(self, *inputs: Node) -> Node:
        return replace(self, members=inputs)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.output


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once."""

    input: Node

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Aggregate(Node):
    """One row a group, NULLs being equal; without keys one row, always. Keys are columns of the input and keep their names."""

    input: Node
    keys: tuple[str, ...]
    calls: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        for key in self.keys:
            self.input.column(key)
        for call in self.calls:
            self._check("Aggregate", *call.inputs)
        self._check_distinct_names()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.input.column(k) for k in self.keys) + tuple(c.column for c in self.calls)


@dataclass(frozen=True)
class Window(Node):
    """Adds a column for each window function; all of them share the partition, whose columns are the input's."""

    input: Node
    partition: tuple[str, ...]
    calls: tuple[WindowCall, ...]

    def __post_init__(self) -> None:
        for key in self.partition:
            self.input.column(key)
        for call in self.calls:
            self._check("Window", *call.inputs)
        self._check_distinct_names()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(c.column for c in self.calls)


@dataclass(frozen=True)
class TopK(Node):
    """ORDER BY … LIMIT … OFFSET …. Without an order the result may be any rows, so it cannot be maintained."""

    input: Node
    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0

    def __post_init__(self) -> None:
        self._check("Order", *(o.expr for o in self.order))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns


@dataclass(frozen=True)
class _BagOperator(Node):
    """An operator on two bags. Columns correspond by position, and the result has those of the left side."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        if len(self.left.columns) != len(self.right.columns):
            raise MalformedPlan(
                f"{type(self).__name__} of {len(self.left.columns)} and {len(self.right.columns)} columns"
            )

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns


@dataclass(frozen=True)
class ExceptAll(_BagOperator):
    """The bag difference: a row has as many copies as the left side has more than the right side."""


@dataclass(frozen=True)
class IntersectAll(_BagOperator):
    pass


@dataclass(frozen=True)
class Generate(Node):
    """LATERAL VIEW: each row with the rows that a generator (explode, inline …) makes of it, under the columns `output`."""

    input: Node
    generator: Expr
    output: tuple[Column, ...]
    outer: bool = False

    def __post_init__(self) -> None:
        self._check("Generator", self.generator)
        self._check_distinct_names()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + self.output


@dataclass(frozen=True)
class Recursion(Node):
    """WITH RECURSIVE … UNION ALL, level by level: the first level is `start`, the next is `step` over the level before, until
    a level is empty. `step` scans the level before as the table `table` with the fields c0, c1 …; columns correspond by
    position. Spark refuses more than `most_levels` levels and more than `most_rows` rows; -1 is no limit. With `once`, a level
    carries on only the rows that no earlier level has, each once: the same rows as a set, and an end on cyclic graphs."""

    start: Node
    step: Node
    table: str
    output: tuple[Column, ...]
    most_levels: int = -1
    most_rows: int = -1
    once: bool = False

    def __post_init__(self) -> None:
        for part in (self.start, self.step):
            if len(part.columns) != len(self.output):
                raise MalformedPlan(f"Recursion of {len(self.output)} columns has a part of {len(part.columns)}")
        for node in self.step.walk():
            if isinstance(node, Distinct | Aggregate | Window | TopK) and self.reads_itself(node):
                raise MalformedPlan(
                    f"{type(node).__name__} groups rows of its own recursion: state would have to be kept for every level"
                )
        self._check_distinct_names()

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.output

    def reads_itself(self, node: Node) -> bool:
        """Whether a part of the step depends on the level before."""
        return any(scan.table == self.table for scan in node.scans)


@dataclass(frozen=True)
class Opaque(Node):
    """A query that is kept as Spark SQL because Nabla has no algebra for it: Spark can run it, but no rule applies to it.
    `why` names the operator, `place` its line if that is known; `tables` are the names that the text reads."""

    sql: str
    tables: tuple[str, ...]
    output: tuple[Column, ...]
    code: str
    why: str
    place: str = ""

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.output
