"""Cutting a view into stages.

An aggregate or distinct anywhere in a view becomes a stage of its own: an inner relation with stored state, maintained
from the change of what is below it. What is above sees it as one more table that changed. State is needed for two
reasons. It makes the step cheap (a change table needs only the old partial results of the touched groups), and it makes
it exact: a floating point sum recomputed from the old rows need not be bit for bit the one that was stored before.

A stage is maintained by two queries. The first reads the change and finds the touched groups (for a change table, with
the change of their partial results); often it finds none, and that was all. The second reads the stored state of just
these groups, and their rows where the function needs them, and gives the signed change of the state.

State is stored as a log of signed rows: a refresh appends the change of the state, a read sums equal rows.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from nabla.algebra.clock import reads_clock
from nabla.algebra.expressions import Call, Column, Expr, Named, Order, WindowCall, equal, quote
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Distinct,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.shape import shape
from nabla.algebra.traverse import relations
from nabla.calculus.delta import Derivation, add, keys_of, negative, primed
from nabla.calculus.methods import (
    AFFECTED_GROUPS,
    AFFECTED_PARTITIONS,
    CHANGE_TABLE,
    FIRST_ROWS,
    LEVELS,
    ONE_PARTITION,
    Method,
)
from nabla.calculus.partials import Maintained, Partial, count_rows, maintained
from nabla.rewrite.restrict import on_columns, restrict

WEIGHT = Column("weight#", "bigint", False)
COPIES = Column("copies#", "bigint", False)
PLACE = Column("place#", "int", False)
NEW = Column("new#", "int", False)
LEVEL = Column("level#", "int", False)
COPY = Column("copy#", "bigint", False)


def stored_fields(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Hidden relations store their columns by position: their names are made up anyway."""
    return tuple(f"c{i}" for i in range(len(columns)))


@dataclass(frozen=True)
class Stage:
    """An operator with stored state. `table` is the name under which what is above reads its rows."""

    table: str
    node: Node
    keys: tuple[str, ...]
    how: Method
    state: tuple[Column, ...] = field(default=())

    @property
    def method(self) -> str:
        return self.how.name

    @property
    def state_table(self) -> str:
        return self.table + ".state"

    @property
    def touched_table(self) -> str:
        return self.table + ".touched"

    @property
    def source(self) -> Node:
        return self.node.inputs[0]

    @property
    def reads(self) -> frozenset[str]:
        """The names of what it is computed from."""
        return frozenset(relations(self.source))

    def initial(self, c: Derivation) -> Node:
        """The whole state, from the new state of what is below."""
        return self.node.with_inputs(c.new(self.source))

    def touched(self, c: Derivation) -> Node | None:
        """First query: the groups that the change touches. None where there is but one group, the whole."""
        below = c.d(self.source)
        if below is None or not self.keys:
            return None
        return keys_of(below, self.keys, "")

    def touched_groups(self, mark: str) -> Node:
        """The groups that the first query found, read back under names of their own."""
        keys = tuple(self.node.column(k) for k in self.keys)
        return Scan(self.touched_table, At.NEW, tuple(k.renamed(k.name + mark) for k in keys), stored_fields(keys))

    def settled(self, c: Derivation, deleted_extremes: bool = True) -> Node:
        """Second query, the signed change of the state: what the touched groups are now, less what is stored for them."""
        now = self._of_touched(c.new(self.source))
        after, before = self.node.with_inputs(now), self._of_touched(self.rows(At.OLD))
        change = add(after, negative(before))
        assert change is not None
        return change

    def _of_touched(self, state: Node) -> Node:
        groups = self.touched_groups("?")
        return restrict(state, groups, on_columns(state, self.keys, groups)) if self.keys else state

    def deletions(self) -> tuple[str, ...]:
        return ()

    def rows(self, at: At) -> Node:
        """The stored state, each row as often as it counts."""
        summed = self._summed(at)
        if self.how in (AFFECTED_PARTITIONS, ONE_PARTITION, FIRST_ROWS, LEVELS):  # rows of groups are all different
            repeated = Generate(summed, Expr(f"explode(sequence(1L, {COPIES.ref.sql}))", "bigint"), (COPY,))
            return Project(repeated, tuple(Named(c, c.ref) for c in self.state))
        return Project(summed, tuple(Named(c, c.ref) for c in self.state))

    def _summed(self, at: At) -> Node:
        log = Scan(self.state_table, at, (*self.state, WEIGHT), (*stored_fields(self.state), "_n"))
        copies = Call(COPIES, "sum", (WEIGHT.ref,))
        by_row = Aggregate(log, tuple(c.name for c in self.state), (copies,))
        return Filter(by_row, (Expr(f"({COPIES.ref.sql} <> 0)", "boolean", False),))

    def present(self) -> Expr | None:
        """Which rows of the state are rows of the stage; None if all are."""
        return None

    def outputs(self) -> tuple[Named, ...]:
        """The stage's own columns as expressions over its state."""
        return tuple(Named(c, c.ref) for c in self.node.columns)

    def finish(self, state: Node) -> Node:
        """The stage's rows, from rows of its state."""
        test = self.present()
        return Project(Filter(state, (test,)) if test else state, self.outputs())

    def contents(self, at: At) -> Node:
        return self.built(at) if at is At.DELTA else self.finish(self.rows(at))

    def built(self, at: At = At.NEW) -> Node:
        """The stage's rows from a state that has just been built, or from a change of it: there is nothing to add up."""
        return self.finish(Scan(self.state_table, at, self.state, stored_fields(self.state)))


@dataclass(frozen=True)
class ChangeTable(Stage):
    """An aggregate all of whose functions combine: the state is the partial results, the sources are not read."""

    functions: tuple[Maintained, ...] = ()

    @property
    def count(self) -> Column:
        return Column(f"{self.table}.rows", "bigint", False)

    @property
    def partials(self) -> tuple[Partial, ...]:
        partials = [count_rows(self.count.name, WEIGHT)]
        for function in self.functions:
            partials += function.partials
        return tuple(partials)

    @property
    def extremes(self) -> tuple[Partial, ...]:
        return tuple(p for p in self.partials if not p.cancels)

    def initial(self, c: Derivation) -> Node:
        calls = tuple(_aggregated(_changed(p), p.whole) for p in self.partials)
        table = Aggregate(c.new(self.source), self.keys, calls)
        outputs = [Named(table.column(k), table.column(k).ref) for k in self.keys]
        outputs += [Named(p.column, self._or_initial(p, _changed(p).ref)) for p in self.partials]
        return Project(table, tuple(outputs))

    def touched(self, c: Derivation) -> Node | None:
        """The change table □V: for every touched group the change of its partial results."""
        below = c.d(self.source)
        return None if below is None else self._change_table(below)

    def settled(self, c: Derivation, deleted_extremes: bool = True) -> Node:
        """□V with the stored partial results of its groups: the old ones go, the merged ones come."""
        columns = self._change_table(self.source).columns
        table = Scan(self.touched_table, At.NEW, columns, stored_fields(columns))
        before = primed(self._of_touched(self.rows(At.OLD)))
        same_group = tuple(equal(table.column(k).ref, before.column(k + "'").ref, null_safe=True) for k in self.keys)
        merged: Node = Join(table, before, same_group, "left")
        fresh: dict[str, Expr] = {}
        if self.extremes and deleted_extremes:
            merged, fresh = self._with_recomputed(merged, c)
        return self._old_and_new(merged, fresh)

    def deletions(self) -> tuple[str, ...]:
        """The columns of □V that tell whether a value of a min or max was deleted."""
        return tuple(_deleted(p).name for p in self.extremes)

    def _change_table(self, rows: Node) -> Node:
        weighed = Weigh(rows, WEIGHT)
        calls = [_aggregated(_changed(p), p.change) for p in self.partials]
        calls += [_aggregated(_deleted(p), p.deleted) for p in self.partials if p.deleted]
        return Aggregate(weighed, self.keys, tuple(calls))

    def _with_recomputed(self, merged: Node, c: Derivation) -> tuple[Node, dict[str, Expr]]:
        """Groups whose extreme was deleted get it from the rows that are left; if there are none, nothing is read."""
        broken = Expr(" OR ".join(self._broken(p) for p in self.extremes), "boolean", False)
        lost = Filter(merged, (broken,))
        now = c.new(self.source)
        if self.keys:
            wanted = primed(Project(lost, tuple(Named(lost.column(k), lost.column(k).ref) for k in self.keys)), "!")
            now = restrict(now, wanted, on_columns(now, self.keys, wanted))
        else:
            # One group: read the source only if its extreme was deleted.
            flag = Named(Column("lost#", "int", False), Expr("1", "int", False))
            now = Project(Join(now, Project(lost, (flag,))), tuple(Named(col, col.ref) for col in now.columns))
        calls = tuple(f.call for f in self.functions if not f.partials[0].cancels)
        again = primed(Aggregate(now, self.keys, calls), "+")
        same_group = tuple(equal(merged.column(k).ref, again.column(k + "+").ref, null_safe=True) for k in self.keys)
        fresh = {
            f.partials[0].column.name: again.column(f.call.column.name + "+").ref
            for f in self.functions
            if not f.partials[0].cancels
        }
        return Join(merged, again, same_group, "left"), fresh

    def _broken(self, p: Partial) -> str:
        assert p.deleted is not None
        return p.broken.format(old=quote(p.column.name + "'"), change=_changed(p).ref.sql, deleted=_deleted(p).ref.sql)

    def _or_initial(self, p: Partial, value: Expr) -> Expr:
        return Expr(f"COALESCE({value.sql}, {p.initial})", p.column.type, p.column.nullable)

    def _merged(self, p: Partial, fresh: dict[str, Expr]) -> str:
        old, change = quote(p.column.name + "'"), _changed(p).ref.sql
        if p.cancels:
            old, change = f"COALESCE({old}, {p.initial})", f"COALESCE({change}, {p.initial})"
        value = p.merged.format(old=old, change=change)
        if p.column.name in fresh:
            value = f"CASE WHEN {self._broken(p)} THEN {fresh[p.column.name].sql} ELSE {value} END"
        return f"CAST({value} AS {p.column.type})"

    def _old_and_new(self, merged: Node, fresh: dict[str, Expr]) -> Node:
        """Two signed rows for each touched group, made in one pass."""
        sign = Column("sign#", "bigint", False)
        old = ", ".join(quote(p.column.name + "'") for p in self.partials)
        new = ", ".join(self._merged(p, fresh) for p in self.partials)
        pair = Expr(f"stack(2, -1L, {old}, 1L, {new})", "row")
        partials = tuple(p.column for p in self.partials)
        pairs = Generate(merged, pair, (sign, *(c.renamed(c.name + "=") for c in partials)))
        count = quote(self.count.name + "=")
        there = f"{count} > 0" if self.keys else f"{count} IS NOT NULL"
        rows = Filter(pairs, (Expr(f"({there})", "boolean"),))
        outputs = [Named(rows.column(k), rows.column(k).ref) for k in self.keys]
        outputs += [Named(c, rows.column(c.name + "=").ref) for c in partials]
        return Unweigh(Project(rows, (*outputs, Named(sign, sign.ref))), sign.name)

    def present(self) -> Expr | None:
        return Expr(f"({self.count.ref.sql} > 0)", "boolean", False) if self.keys else None

    def outputs(self) -> tuple[Named, ...]:
        keys = [Named(self.node.column(k), self.node.column(k).ref) for k in self.keys]
        return (*keys, *(Named(f.call.column, f.value) for f in self.functions))


@dataclass(frozen=True)
class TopRows(Stage):
    """The first rows of a relation. Where they stand in the order, beside the change, mostly tells what they are now."""

    @property
    def limit(self) -> int:
        assert isinstance(self.node, TopK)
        assert self.node.limit is not None
        return self.node.limit

    def touched(self, c: Derivation) -> Node | None:
        """The stored rows (new 0) and the changed ones (new 1) with their weights and their places in the order."""
        change = c.d(self.source)
        if change is None:
            return None
        assert isinstance(self.node, TopK)
        log = Scan(self.state_table, At.OLD, (*self.state, WEIGHT), (*stored_fields(self.state), "_n"))
        members = tuple(_marked(rows, flag) for flag, rows in enumerate((log, Weigh(change, WEIGHT))))
        rows = UnionAll(members, (*self.state, WEIGHT, NEW))
        place = WindowCall(PLACE, Expr("dense_rank()", "int", False), self.node.order)
        return Window(rows, (), (place,))


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


def _marked(rows: Node, flag: int) -> Node:
    mark = Named(NEW, Expr(str(flag), "int", False))
    return Project(rows, (*(Named(c, c.ref) for c in rows.columns), mark))


def _changed(p: Partial) -> Column:
    return p.column.renamed(p.column.name + "~")


def _deleted(p: Partial) -> Column:
    return p.column.renamed(p.column.name + "~gone")


def _aggregated(column: Column, expression: Expr | None) -> Call:
    assert expression is not None
    return Call(column, "partial", (expression,), template="{0}")


@dataclass(frozen=True)
class Staged:
    """A view as stages, each reading tables and earlier stages, and what is left above them. `key` are the names of its
    key where it is computed key by key; `operators` the stages of its grouping operators, from the innermost outwards:
    equal ones share a stage."""

    stages: tuple[Stage, ...]
    root: Node
    key: tuple[str, ...] = ()
    operators: tuple[Stage, ...] = ()

    @property
    def keyed(self) -> bool:
        """Whether rows of the view can be replaced by key."""
        return bool(self.key) and not self.stages

    @property
    def key_places(self) -> tuple[int, ...]:
        labels = [c.label for c in self.root.columns]
        return tuple(labels.index(name) for name in self.key)

    def stage(self, table: str) -> Stage:
        return next(s for s in self.stages if s.table == table)

    @property
    def merged(self) -> Stage | None:
        """The last stage, if the root only filters and projects it: then one query gives the change of both."""
        node = self.root
        while isinstance(node, Filter | Project) and not reads_clock(node):
            node = node.input
        return (
            self.stages[-1] if self.stages and isinstance(node, Scan) and node.table == self.stages[-1].table else None
        )

    def derivation(self, changed: frozenset[str]) -> Derivation:
        return Derivation(changed, {s.table: s.contents for s in self.stages})

    def building(self) -> Derivation:
        """Where every stage has just been built when it is read."""
        return Derivation(frozenset(), {s.table: s.built for s in self.stages})


def cut(plan: Node, key: tuple[str, ...] = ()) -> Staged:
    """Every grouping operator becomes a stage, innermost first, or reads that of an equal one."""
    stages: dict[Hashable, Stage] = {}
    operators: list[Stage] = []

    def visit(node: Node) -> Node:
        node = node.with_inputs(*(visit(part) for part in node.inputs)) if node.inputs else node
        stage = _stage(node, f"@{len(stages)}")
        if stage is None:
            return node
        stage = stages.setdefault(shape(node), stage)
        operators.append(stage)
        return Scan(stage.table, At.NEW, node.columns, tuple(c.name for c in stage.node.columns))

    root = visit(plan)
    return Staged(tuple(stages.values()), root, key, tuple(operators))


def _sortable(column: Column) -> Expr:
    """A column to sort by; a map is not, but its text is."""
    if "map<" not in column.type:
        return column.ref
    return Expr(f"to_json(struct({column.ref.sql}))", "string")


def without_ties(node: TopK) -> TopK:
    """Ties are broken by the whole row: which of equal rows are the first k must not depend on who computes it."""
    return replace(node, order=node.order + tuple(Order(_sortable(c)) for c in node.columns))


def _stage(node: Node, table: str) -> Stage | None:
    if isinstance(node, Recursion):
        return Levels(table, node, (), LEVELS, (LEVEL, *node.columns))
    if isinstance(node, Distinct):
        return _stage(Aggregate(node.input, tuple(c.name for c in node.columns)), table)
    if isinstance(node, Aggregate):
        functions = [maintained(call, WEIGHT) for call in node.calls]
        kept = tuple(f for f in functions if f is not None)
        if len(kept) == len(functions):
            stage = ChangeTable(table, node, node.keys, CHANGE_TABLE, (), kept)
            keys = tuple(node.column(k) for k in node.keys)
            return replace(stage, state=keys + tuple(p.column for p in stage.partials))
        return Stage(table, node, node.keys, AFFECTED_GROUPS, node.columns)
    if isinstance(node, Window):
        return Stage(table, node, node.partition, AFFECTED_PARTITIONS, node.columns)
    if isinstance(node, TopK):
        node = without_ties(node)
        if node.limit is not None and node.offset == 0:
            return TopRows(table, node, (), FIRST_ROWS, node.columns)
        return Stage(table, node, (), ONE_PARTITION, node.columns)
    return None
