"""Aggregates maintained by a change table: stored partial results to which the change of the sources is added."""

from __future__ import annotations

from dataclasses import dataclass

from nabla.algebra.expressions import Call, Column, Expr, Named
from nabla.algebra.names import Mark, mark_name, own_name, stage_column, stored_fields
from nabla.algebra.nodes import WEIGHT, Aggregate, At, Filter, Generate, Join, Node, Project, Scan, Unweigh, Weigh
from nabla.calculus.delta import Derivation, mark_columns, same_keys
from nabla.calculus.partials import Maintained, Partial, count_rows
from nabla.calculus.stages.stage import Stage
from nabla.rewrite.restrict import on_columns, restrict


@dataclass(frozen=True)
class ChangeTable(Stage):
    """An aggregate all of whose functions combine: the state is the partial results, the sources are not read."""

    functions: tuple[Maintained, ...] = ()

    @property
    def count(self) -> Column:
        return Column(stage_column(self.table, "rows"), "bigint", False)

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
        before = mark_columns(self._of_touched(self.rows(At.OLD)), Mark.OLD)
        merged: Node = Join(table, before, same_keys(table, before, self.keys), "left")
        fresh: dict[str, Expr] = {}
        if self.extremes and deleted_extremes:
            merged, fresh = self._with_recomputed(merged, c)
        return self._old_and_new(merged, fresh)

    def deletions(self) -> tuple[str, ...]:
        """The columns of □V that tell whether a value of a min or max was deleted."""
        return tuple(_deleted(p).name for p in self.extremes)

    def _change_table(self, rows: Node) -> Node:
        weighed = Weigh(rows)
        calls = [_aggregated(_changed(p), p.change) for p in self.partials]
        calls += [_aggregated(_deleted(p), p.deleted) for p in self.partials if p.deleted]
        return Aggregate(weighed, self.keys, tuple(calls))

    def _with_recomputed(self, merged: Node, c: Derivation) -> tuple[Node, dict[str, Expr]]:
        """Groups whose extreme was deleted get it from the rows that are left; if there are none, nothing is read."""
        broken = Expr(" OR ".join(self._broken(p) for p in self.extremes), "boolean", False)
        lost = Filter(merged, (broken,))
        now = c.new(self.source)
        if self.keys:
            groups = Project(lost, tuple(Named(lost.column(k), lost.column(k).ref) for k in self.keys))
            wanted = mark_columns(groups, Mark.LOST)
            now = restrict(now, wanted, on_columns(now, self.keys, wanted))
        else:
            # One group: read the source only if its extreme was deleted.
            flag = Named(Column(own_name("lost"), "int", False), Expr("1", "int", False))
            now = Project(Join(now, Project(lost, (flag,))), tuple(Named(col, col.ref) for col in now.columns))
        calls = tuple(f.call for f in self.functions if not f.partials[0].cancels)
        again = mark_columns(Aggregate(now, self.keys, calls), Mark.AGAIN)
        fresh = {
            f.partials[0].column.name: again.column(mark_name(f.call.column.name, Mark.AGAIN)).ref
            for f in self.functions
            if not f.partials[0].cancels
        }
        return Join(merged, again, same_keys(merged, again, self.keys, Mark.AGAIN), "left"), fresh

    def _broken(self, p: Partial) -> str:
        assert p.deleted is not None
        return p.broken.format(old=_old(p).ref.sql, change=_changed(p).ref.sql, deleted=_deleted(p).ref.sql)

    def _or_initial(self, p: Partial, value: Expr) -> Expr:
        return Expr(f"COALESCE({value.sql}, {p.initial})", p.column.type, p.column.nullable)

    def _merged(self, p: Partial, fresh: dict[str, Expr]) -> str:
        old, change = _old(p).ref.sql, _changed(p).ref.sql
        if p.cancels:
            old, change = f"COALESCE({old}, {p.initial})", f"COALESCE({change}, {p.initial})"
        value = p.merged.format(old=old, change=change)
        if p.column.name in fresh:
            value = f"CASE WHEN {self._broken(p)} THEN {fresh[p.column.name].sql} ELSE {value} END"
        return f"CAST({value} AS {p.column.type})"

    def _old_and_new(self, merged: Node, fresh: dict[str, Expr]) -> Node:
        """Two signed rows for each touched group, made in one pass."""
        sign = Column(own_name("sign"), "bigint", False)
        old = ", ".join(_old(p).ref.sql for p in self.partials)
        new = ", ".join(self._merged(p, fresh) for p in self.partials)
        pair = Expr(f"stack(2, -1L, {old}, 1L, {new})", "row")
        pairs = Generate(merged, pair, (sign, *(_now(p.column) for p in self.partials)))
        count = _now(self.count).ref.sql
        there = f"{count} > 0" if self.keys else f"{count} IS NOT NULL"
        rows = Filter(pairs, (Expr(f"({there})", "boolean"),))
        outputs = [Named(rows.column(k), rows.column(k).ref) for k in self.keys]
        outputs += [Named(p.column, _now(p.column).ref) for p in self.partials]
        return Unweigh(Project(rows, (*outputs, Named(sign, sign.ref))), sign.name)

    def present(self) -> Expr | None:
        return Expr(f"({self.count.ref.sql} > 0)", "boolean", False) if self.keys else None

    def outputs(self) -> tuple[Named, ...]:
        keys = [Named(self.node.column(k), self.node.column(k).ref) for k in self.keys]
        return (*keys, *(Named(f.call.column, f.value) for f in self.functions))


def _marked(column: Column, mark: Mark) -> Column:
    return column.renamed(mark_name(column.name, mark))


def _old(p: Partial) -> Column:
    return _marked(p.column, Mark.OLD)


def _changed(p: Partial) -> Column:
    return _marked(p.column, Mark.CHANGE)


def _deleted(p: Partial) -> Column:
    return _marked(p.column, Mark.DELETED)


def _now(column: Column) -> Column:
    return _marked(column, Mark.NOW)


def _aggregated(column: Column, expression: Expr | None) -> Call:
    assert expression is not None
    return Call(column, "partial", (expression,), template="{0}")
