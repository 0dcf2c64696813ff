"""The set form of a view: the set of its rows, as an expression of set algebra.

Views are bags, the papers' relations are sets. For most operators the set of rows of a result follows from the sets of
rows of the operands. Then a view over tables without duplicates (tables with a key) can be read as set algebra, and the
theorems of the papers hold for the set of its rows. If duplicates decide the result (EXCEPT ALL, windows …), there is no
set form, and `set_form` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.memo import Memo
from nabla.algebra.names import part_name, unique_name
from nabla.algebra.nodes import (
    Aggregate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    IntersectAll,
    Join,
    Node,
    Project,
    Scan,
    UnionAll,
)
from nabla.algebra.traverse import parts
from nabla.calculus.obstacles import obstacles
from nabla.calculus.rules import outer_parts
from nabla.papers.sets import keeps_every_column, project, projection, under, union

Tables = Mapping[str, tuple[Column, ...]]
MOST_CARRIED = 1000
"""A join of a relation with itself carries its columns twice over, and a deep one as often as the relation occurs."""


class NotSetAlgebra(LookupError):
    """A view cannot be read as set algebra; the message names the operator that prevents it."""


def set_form(view: Node, tables: Tables | None = None) -> Node:
    """The set of the view's rows. `tables` has all columns of tables, because a scan that leaves some out is a projection. A
    table that is missing there is assumed to be scanned whole."""
    if found := obstacles(view):
        raise NotSetAlgebra(str(found[0]))
    return _SetReader(tables or {}).read_deep(view)


def duplicate_free(view: Node, tables: Tables | None = None) -> bool:
    """Whether a view over tables without duplicates has none itself."""
    reader = _SetReader(tables or {})
    return [reader.duplicate_free(part) for part in parts(view)][-1]


class _SetReader:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        # A node may be read more than once: in a plan that shares it, and where an outer join is written as a union.
        self.results: Memo[Node, Node] = Memo()
        self.copies: Memo[Node, Node] = Memo()
        self.known_sets: Memo[Node, bool] = Memo()
        self.carried = 0  # a number for carried columns, which must differ if a relation is joined with itself
        self.readings: dict[type[Node], Callable[..., Node]] = {
            Scan: lambda q: project(self.whole(q), tuple(c.name for c in q.output)),
            Constant: Distinct,
            Filter: self.same,
            Project: lambda q: projection(Project(self.read(q.input), q.outputs)),
            Join: self.join,
            UnionAll: self.union,
            Distinct: lambda q: self.read(q.input),
            Aggregate: self.aggregate,
            IntersectAll: self.same,
            ExceptAll: self.difference,
        }

    def read(self, q: Node) -> Node:
        if type(q) not in self.readings:
            raise NotSetAlgebra(f"{type(q).__name__} is not an operator of the papers' set algebra")
        return self.results.once(q, self.readings[type(q)])

    def read_deep(self, view: Node) -> Node:
        """Reads operands first, so that a deep view needs no deep stack. An operand that is no set may be none that is read."""
        for part in parts(view):
            with suppress(NotSetAlgebra):
                self.read(part)
        return self.read(view)

    def same(self, q: Node) -> Node:
        return q.with_inputs(*(self.read(part) for part in q.inputs))

    def omitted_columns(self, scan: Scan) -> tuple[Column, ...]:
        return tuple(c for c in self.tables.get(scan.table, ()) if c.name not in scan.fields)

    def whole(self, scan: Scan) -> Scan:
        """The scan with the columns that it leaves out."""
        others = self.omitted_columns(scan)
        mark = scan.output[0].name if scan.output else scan.table
        columns = tuple(c.rename(unique_name(c.name, mark)) for c in others)
        return Scan(scan.table, scan.at, scan.output + columns, scan.fields + tuple(c.name for c in others))

    def join(self, q: Join) -> Node:
        if q.kind in ("left", "right", "full") and not tells_padding(q):
            return self.read(outer_parts(q))
        return self.same(q)

    def union(self, q: UnionAll) -> Node:
        """The union of two operands after the other, under the columns of the union."""
        members = [self.read(member) for member in q.members]
        return reduce(union, members[1:], under(members[0], q.output))

    def aggregate(self, q: Aggregate) -> Node:
        """An aggregate of sets. Functions that count duplicates get a set with a row for every copy of a row of the bag."""
        if not q.calls:
            return project(self.read(q.input), q.keys)
        blind = all(call.distinct or call.function in ("min", "max") for call in q.calls)
        return q.with_inputs(self.read(q.input) if blind else self.tell_apart(q.input))

    def difference(self, q: ExceptAll) -> Node:
        if not self.duplicate_free(q.left):
            raise NotSetAlgebra("EXCEPT ALL counts duplicates, and its first operand may have some")
        return self.same(q)

    def tell_apart(self, q: Node) -> Node:
        """A set with a row for every copy of a row of q. It has the columns of q, and also those that a scan or a projection
        leaves out, which tell the copies apart."""
        return self.copies.once(q, self._tell_apart)

    def _tell_apart(self, q: Node) -> Node:
        match q:
            case Scan():
                return self.whole(q)
            case Filter():
                return q.with_inputs(self.tell_apart(q.input))
            case Project():
                below = self.tell_apart(q.input)
                if len(below.columns) > MOST_CARRIED:
                    raise NotSetAlgebra(f"more than {MOST_CARRIED:,} columns tell the copies of rows apart")
                self.carried += 1
                shown = {o.expr.column for o in q.outputs}
                others = [c for c in below.columns if c.name not in shown]
                carried = (Named(self.fresh(c, i), c.ref) for i, c in enumerate(others))
                return Project(below, (*q.outputs, *carried))
            case Join(kind="semi" | "anti"):
                return q.with_inputs(self.tell_apart(q.left), self.read(q.right))
            case Join():
                joined = Join(self.tell_apart(q.left), self.tell_apart(q.right), q.on, q.kind)
                if q.kind == "inner" or tells_padding(joined):
                    return joined
        if not self.duplicate_free(q):
            raise NotSetAlgebra(f"an aggregate counts duplicates, and {type(q).__name__} below it may make some")
        return self.read(q)

    def fresh(self, column: Column, place: int) -> Column:
        return column.rename(part_name(unique_name(column.label, f"carried{self.carried}"), str(place)))

    def duplicate_free(self, q: Node) -> bool:
        return self.known_sets.once(q, self._duplicate_free)

    def _duplicate_free(self, q: Node) -> bool:
        match q:
            case Distinct() | Aggregate():
                return True
            case Scan():
                return not self.omitted_columns(q)
            case Constant():
                return len(q.rows) < 2
            case Filter():
                return self.duplicate_free(q.input)
            case Project():
                return keeps_every_column(q) and self.duplicate_free(q.input)
            case Join(kind="semi" | "anti") | ExceptAll():
                return self.duplicate_free(q.left)
            case Join():
                apart = q.kind == "inner" or tells_padding(q)
                return apart and self.duplicate_free(q.left) and self.duplicate_free(q.right)
            case IntersectAll():
                return self.duplicate_free(q.left) or self.duplicate_free(q.right)
        return False


def tells_padding(q: Join) -> bool:
    """Whether a row that an outer join pads with NULLs can be neither a joined row nor, in a full outer join, a row padded on
    the other side. The papers assume this, but a row of only NULLs violates it. Then the join has to be written as the
    union that defines it (GK98 D3 to D5)."""
    padded = {"left": (q.right,), "right": (q.left,), "full": (q.left, q.right)}[q.kind]
    never_all_null = [any(not c.nullable for c in side.columns) for side in padded]
    apart = [sure or _rejects_nulls(q, side) for sure, side in zip(never_all_null, padded, strict=True)]
    return all(apart) and (q.kind != "full" or any(never_all_null))


def _rejects_nulls(q: Join, side: Node) -> bool:
    """Whether a row of NULLs on this side never joins, because a conjunct equates one of its columns with `=`."""
    equated = (expr.column for c in q.on if c.sides and not c.null_safe for expr in c.sides)
    return any(name in side.names for name in equated if name)
