"""Aggregates maintained by a change table: stored partial results to which the change of the sources is added."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nabla._cached import cached_property
from nabla.algebra.build import any_of, call, coalesce, compare, is_not_null, number, when
from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import Mark, mark_name, own_name, stage_column, stored_fields
from nabla.algebra.nodes import WEIGHT, Aggregate, At, Filter, Generate, Join, Node, Project, Scan, Unweigh, Weigh
from nabla.algebra.normalize import cast
from nabla.calculus.delta import Derivation, mark_columns, same_keys
from nabla.calculus.partials import Maintained, Partial, count_rows
from nabla.calculus.stages.stage import Stage
from nabla.rewrite.restrict import on_columns, restrict


@dataclass(frozen=True)
class ChangeTable(Stage):
    """An aggregate whose functions all combine partial results. These are the state, so that the sources are not read."""

    functions: tuple[Maintained, ...] = ()

    @cached_property
    def count(self) -> Column:
        return Column(stage_column(self.table, "rows"), "bigint", False)

    @cached_property
    def partials(self) -> tuple[Partial, ...]:
        partials = [count_rows(self.count.name, WEIGHT)]
        for function in self.functions:
            partials += function.partials
        return tuple(partials)

    @cached_property
    def extremes(self) -> tuple[Partial, ...]:
        return tuple(p for p in self.partials if not p.cancels)

    def initial(self, c: Derivation) -> Node:
        calls = tuple(replace(p.whole, column=_change_column(p)) for p in self.partials)
        table = Aggregate(c.new(self.source), self.keys, calls)
        outputs = [Named(table.column(k), table.column(k).ref) for k in self.keys]
        outputs += [Named(p.column, coalesce(_change_column(p).ref, p.initial)) for p in self.partials]
        return Project(table, tuple(outputs))

    def find_touched(self, c: Derivation) -> Node | None:
        """The change table □V: for every touched group the change of its partial results."""
        below = c.d(self.source)
        return None if below is None else self._change_table(below)

    def settle(self, c: Derivation, deleted_extremes: bool = True) -> Node:
        """Join □V with the stored partial results of its groups: the old results are deleted, the merged ones inserted."""
        columns = self._change_table(self.source).columns
        table = Scan(self.touched_table, At.NEW, columns, stored_fields(columns))
        before = mark_columns(self._restrict_to_touched(self.rows(At.OLD)), Mark.OLD)
        merged: Node = Join(table, before, same_keys(table, before, self.keys), "left")
        fresh: dict[str, Expr] = {}
        if self.extremes and deleted_extremes:
            merged, fresh = self._join_recomputed(merged, c)
        return self._old_and_new(merged, fresh)

    def deletions(self) -> tuple[str, ...]:
        """The columns of □V that tell whether a value of a min or max was deleted."""
        return tuple(_deleted_column(p).name for p in self.extremes)

    def _change_table(self, rows: Node) -> Node:
        weighed = Weigh(rows)
        calls = [replace(p.change, column=_change_column(p)) for p in self.partials]
        calls += [replace(p.deleted, column=_deleted_column(p)) for p in self.partials if p.deleted]
        return Aggregate(weighed, self.keys, tuple(calls))

    def _join_recomputed(self, merged: Node, c: Derivation) -> tuple[Node, dict[str, Expr]]:
        """Compute min and max anew for groups whose extreme was deleted; if there are none, the source is not read."""
        broken = any_of(_is_broken(p) for p in self.extremes)
        lost = Filter(merged, (broken,))
        now = c.new(self.source)
        if self.keys:
            groups = Project(lost, tuple(Named(lost.column(k), lost.column(k).ref) for k in self.keys))
            wanted = mark_columns(groups, Mark.LOST)
            now = restrict(now, wanted, on_columns(now, self.keys, wanted))
        else:
            # One group: read the source only if its extreme was deleted.
            flag = Named(Column(own_name("lost"), "int", False), number(1, "int"))
            now = Project(Join(now, Project(lost, (flag,))), tuple(Named(col, col.ref) for col in now.columns))
        calls = tuple(f.call for f in self.functions if not f.partials[0].cancels)
        again = mark_columns(Aggregate(now, self.keys, calls), Mark.AGAIN)
        fresh = {
            f.partials[0].column.name: again.column(mark_name(f.call.column.name, Mark.AGAIN)).ref
            for f in self.functions
            if not f.partials[0].cancels
        }
        return Join(merged, again, same_keys(merged, again, self.keys, Mark.AGAIN), "left"), fresh

    def _merge(self, p: Partial, fresh: dict[str, Expr]) -> Expr:
        value = p.merge(_old_column(p).ref, _change_column(p).ref)
        return when(_is_broken(p), fresh[p.column.name], value) if p.column.name in fresh else value

    def _old_and_new(self, merged: Node, fresh: dict[str, Expr]) -> Node:
        """Two signed rows for each touched group, made in one pass."""
        sign = Column(own_name("sign"), "bigint", False)
        old = [_old_column(p).ref for p in self.partials]
        new = [cast(self._merge(p, fresh), p.column.type) for p in self.partials]
        pair = call("stack", number(2, "int"), number(-1), *old, number(1), *new, type="row")
        pairs = Generate(merged, pair, (sign, *(_new_column(p.column) for p in self.partials)))
        count = _new_column(self.count).ref
        rows = Filter(pairs, (compare(count, ">", number(0)) if self.keys else is_not_null(count),))
        outputs = [Named(rows.column(k), rows.column(k).ref) for k in self.keys]
        outputs += [Named(p.column, _new_column(p.column).ref) for p in self.partials]
        return Unweigh(Project(rows, (*outputs, Named(sign, sign.ref))), sign.name)

    def present(self) -> Expr | None:
        return compare(self.count.ref, ">", number(0)) if self.keys else None

    def outputs(self) -> tuple[Named, ...]:
        keys = [Named(self.node.column(k), self.node.column(k).ref) for k in self.keys]
        return (*keys, *(Named(f.call.column, f.value) for f in self.functions))


def _mark(column: Column, mark: Mark) -> Column:
    return column.rename(mark_name(column.name, mark))


def _old_column(p: Partial) -> Column:
    return Column(mark_name(p.column.name, Mark.OLD), p.column.type)


def _is_broken(p: Partial) -> Expr:
    return p.is_broken(_old_column(p).ref, _change_column(p).ref, _deleted_column(p).ref)


def _change_column(p: Partial) -> Column:
    return _mark(p.column, Mark.CHANGE)


def _deleted_column(p: Partial) -> Column:
    return _mark(p.column, Mark.DELETED)


def _new_column(column: Column) -> Column:
    return _mark(column, Mark.NOW)
