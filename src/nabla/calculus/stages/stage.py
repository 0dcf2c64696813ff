"""An operator with stored state, and the queries that make, change and read that state."""

from __future__ import annotations

from dataclasses import dataclass, field

from nabla._cached import cached_property
from nabla.algebra.build import call, compare, number
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import WEIGHT_FIELD, Mark, mark_name, own_name, state_table, stored_fields, touched_table
from nabla.algebra.nodes import WEIGHT, Aggregate, At, Filter, Generate, Node, Project, Scan
from nabla.algebra.traverse import relations
from nabla.calculus.delta import Derivation, add, keys_of, negative
from nabla.calculus.methods import AFFECTED_PARTITIONS, FIRST_ROWS, LEVELS, ONE_PARTITION, Method
from nabla.rewrite.restrict import on_columns, restrict

COPIES = Column(own_name("copies"), "bigint", False)
COPY = Column(own_name("copy"), "bigint", False)
_EACH_COPY = call("explode", call("sequence", number(1), COPIES.ref, type="array<bigint>"), type="bigint")


@dataclass(frozen=True)
class Stage:
    """An operator with stored state. `table` is the name under which the plan above it scans its rows."""

    table: str
    node: Node
    keys: tuple[str, ...]
    how: Method
    state: tuple[Column, ...] = field(default=())

    @property
    def method(self) -> str:
        return self.how.name

    @cached_property
    def state_table(self) -> str:
        return state_table(self.table)

    @cached_property
    def state_fields(self) -> tuple[str, ...]:
        """The names under which the columns of the state are stored."""
        return stored_fields(self.state)

    @cached_property
    def touched_table(self) -> str:
        return touched_table(self.table)

    @property
    def source(self) -> Node:
        return self.node.inputs[0]

    @property
    def reads(self) -> frozenset[str]:
        """The names of the relations that it is computed from."""
        return frozenset(relations(self.source))

    def initial(self, c: Derivation) -> Node:
        """The query for the whole state, over the new state of the plan below."""
        return self.node.with_inputs(c.new(self.source))

    def find_touched(self, c: Derivation) -> Node | None:
        """The first query: the groups that the change touches. None if all rows are one group, for that is touched."""
        below = c.d(self.source)
        if below is None or not self.keys:
            return None
        return keys_of(below, self.keys)

    def touched_groups(self) -> Node:
        """The groups that the first query found, read back under names of their own."""
        keys = tuple(self.node.column(k) for k in self.keys)
        marked = tuple(k.rename(mark_name(k.name, Mark.KEY)) for k in keys)
        return Scan(self.touched_table, At.NEW, marked, stored_fields(keys))

    def settle(self, c: Derivation, deleted_extremes: bool = True) -> Node:
        """The second query, the signed change of the state: the new rows of the touched groups minus their stored rows."""
        now = self._restrict_to_touched(c.new(self.source))
        after, before = self.node.with_inputs(now), self._restrict_to_touched(self.rows(At.OLD))
        change = add(after, negative(before))
        assert change is not None
        return change

    def _restrict_to_touched(self, state: Node) -> Node:
        groups = self.touched_groups()
        return restrict(state, groups, on_columns(state, self.keys, groups)) if self.keys else state

    def deletions(self) -> tuple[str, ...]:
        return ()

    def rows(self, at: At) -> Node:
        """The stored state, with as many copies of each row as its weights add up to."""
        summed = self._sum_log(at)
        if self.how in (AFFECTED_PARTITIONS, ONE_PARTITION, FIRST_ROWS, LEVELS):  # rows of groups are all different
            repeated = Generate(summed, _EACH_COPY, (COPY,))
            return Project(repeated, tuple(Named(c, c.ref) for c in self.state))
        return Project(summed, tuple(Named(c, c.ref) for c in self.state))

    def _sum_log(self, at: At) -> Node:
        log = Scan(self.state_table, at, (*self.state, WEIGHT), (*stored_fields(self.state), WEIGHT_FIELD))
        copies = Call(COPIES, "sum", (WEIGHT.ref,))
        by_row = Aggregate(log, tuple(c.name for c in self.state), (copies,))
        return Filter(by_row, (compare(COPIES.ref, "<>", number(0)),))

    def present(self) -> Expr | None:
        """The condition for a row of the state to give a row of the stage; None if every row does."""
        return None

    def outputs(self) -> tuple[Named, ...]:
        """The stage's own columns as expressions over its state."""
        return tuple(Named(c, c.ref) for c in self.node.columns)

    def finish(self, state: Node) -> Node:
        """The stage's rows, from rows of its state."""
        test = self.present()
        return Project(Filter(state, (test,)) if test else state, self.outputs())

    def contents(self, at: At) -> Node:
        """The stage's rows from its stored state, or their change."""
        return self.contents_of_built(at) if at is At.DELTA else self.finish(self.rows(at))

    def contents_of_built(self, at: At = At.NEW) -> Node:
        """The stage's rows from a state that has just been built, or from a change of it. Neither is a log, so there are no
        weights to add up."""
        return self.finish(Scan(self.state_table, at, self.state, stored_fields(self.state)))
