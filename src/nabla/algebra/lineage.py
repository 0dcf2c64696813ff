"""Column lineage: which columns of which relations a query's columns are computed from, and which ones only decide.

A column is computed *directly* from the columns whose values it shows, transforms or aggregates. It depends on others by a
*condition*: they decide which rows there are (filter, join, group, compare, explode), or which value is taken (sort, window,
conditional). The conditions of the rows count for every column.

Whatever a query's text leaves open is not part of it: which of several rows that tie comes first in ORDER BY … LIMIT may
depend on any column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from nabla.algebra.calls import WindowCall
from nabla.algebra.expressions import Apply, Expr
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import (
    Aggregate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    MalformedPlan,
    Node,
    Opaque,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Window,
)

Direct = Literal["identity", "transformation", "aggregation"]
Condition = Literal["filter", "join", "group", "compare", "explode", "sort", "window", "conditional", "unknown"]
How: TypeAlias = Direct | Condition
DIRECT: tuple[How, ...] = get_args(Direct)
"""The ways in which a value goes into a column, each of which hides those before it."""
CONDITIONS: tuple[How, ...] = get_args(Condition)


@dataclass(frozen=True, order=True)
class Origin:
    """A column of a table or view."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


Ways: TypeAlias = Mapping[Origin, frozenset[How]]
"""How columns of relations take part, by column."""

_NONE: Ways = {}


@dataclass(frozen=True)
class Traced:
    """A relation with the origins of its columns, in order and by name, and those that decide which rows it has."""

    columns: Mapping[str, Ways]
    rows: Ways = field(default_factory=dict)

    def all(self, column: str) -> Ways:
        """All origins of a column, those that decide about rows included."""
        return merge(self.columns[column], self.rows)


Relation: TypeAlias = Callable[[str], Traced | None]
"""The lineage of a relation that a query reads, by its fields; None for one whose columns are the origins."""


def merge(*all_ways: Ways) -> Ways:
    """All ways of several mappings together."""
    filled = [ways for ways in all_ways if ways]
    if len(filled) < 2:
        return filled[0] if filled else _NONE
    found: dict[Origin, frozenset[How]] = {}
    for ways in filled:
        for origin, how in ways.items():
            found[origin] = found[origin] | how if origin in found else how
    return found


def decide(how: Condition, *all_ways: Ways) -> Ways:
    """The same origins, as a condition."""
    only: frozenset[How] = frozenset((how,))
    return {origin: only for ways in all_ways for origin in ways}


def _through(how: Direct, ways: Ways) -> Ways:
    """The origins of a value after it went through one more operation; conditions stay what they are."""
    return {
        origin: frozenset(_later(one, how) if one in DIRECT else one for one in all_) for origin, all_ in ways.items()
    }


def _later(one: How, other: How) -> How:
    return DIRECT[max(DIRECT.index(one), DIRECT.index(other))]


def trace(root: Node, relation: Relation, fields_of: Callable[[str], Iterable[str]]) -> Traced:
    """The lineage of a query, its columns by the names that they have in it. `fields_of` names the columns of tables, which
    a query without algebra may all read."""
    return _Tracing(relation, fields_of).trace(root)


class _Tracing:
    def __init__(self, relation: Relation, fields_of: Callable[[str], Iterable[str]]) -> None:
        self._relation = relation
        self._fields_of = fields_of
        self._done: Memo[Node, Traced] = Memo()

    def trace(self, node: Node) -> Traced:
        if node not in self._done:
            made = self._make(node)
            if made.columns.keys() != node.names:
                raise MalformedPlan(f"the lineage of {type(node).__name__} is not about its columns")
            self._done[node] = made
        return self._done[node]

    def _make(self, node: Node) -> Traced:
        match node:
            case Scan():
                return self._scan(node)
            case Constant():
                return Traced({c.name: _NONE for c in node.columns})
            case Filter():
                below = self.trace(node.input)
                return Traced(below.columns, merge(below.rows, _read(node.conjuncts, below, "filter")))
            case Project():
                below = self.trace(node.input)
                return Traced({o.column.name: _value(o.expr, below) for o in node.outputs}, below.rows)
            case Join():
                return self._join(node)
            case UnionAll():
                return _by_position(node, [self.trace(member) for member in node.members])
            case Distinct():
                below = self.trace(node.input)
                return Traced(below.columns, merge(below.rows, decide("group", *below.columns.values())))
            case Aggregate():
                return self._aggregate(node)
            case Window():
                return self._window(node)
            case TopK():
                below = self.trace(node.input)
                return Traced(below.columns, merge(below.rows, _read((o.expr for o in node.order), below, "sort")))
            case ExceptAll() | IntersectAll():
                return self._compare(node)
            case Generate():
                return self._generate(node)
            case Recursion():
                return self._recursion(node)
            case Opaque():
                return self._opaque(node)
        raise MalformedPlan(f"{type(node).__name__} has no lineage")

    def _scan(self, node: Scan) -> Traced:
        known = self._relation(node.table)
        if known is None:
            return Traced({c.name: _own(node.table, field) for c, field in zip(node.output, node.fields, strict=True)})
        return Traced({c.name: known.columns[f] for c, f in zip(node.output, node.fields, strict=True)}, known.rows)

    def _join(self, node: Join) -> Traced:
        left, right = self.trace(node.left), self.trace(node.right)
        both = Traced({**left.columns, **right.columns})
        rows = merge(left.rows, right.rows, _read(node.on, both, "join"))
        return Traced({c.name: both.columns[c.name] for c in node.columns}, rows)

    def _aggregate(self, node: Aggregate) -> Traced:
        below = self.trace(node.input)
        groups = decide("group", *(below.columns[key] for key in node.keys))
        rows = merge(below.rows, groups)
        columns = {key: below.columns[key] for key in node.keys}
        for call in node.calls:
            values = merge(*(_through("aggregation", _value(a, below)) for a in call.arguments))
            chosen = _read((call.filter,), below, "filter") if call.filter else _NONE
            columns[call.column.name] = merge(values, chosen, rows if not node.keys else _NONE)
        return Traced(columns, rows if node.keys else _NONE)  # without keys there is one row, whatever the input has

    def _window(self, node: Window) -> Traced:
        below = self.trace(node.input)
        partition = decide("window", *(below.columns[key] for key in node.partition))
        columns = dict(below.columns)
        for call in node.calls:
            columns[call.column.name] = merge(_over(call, below), partition)
        return Traced(columns, below.rows)

    def _compare(self, node: ExceptAll | IntersectAll) -> Traced:
        left, right = self.trace(node.left), self.trace(node.right)
        compared = decide("compare", *left.columns.values(), *right.columns.values())
        return Traced(left.columns, merge(left.rows, right.rows, compared))

    def _generate(self, node: Generate) -> Traced:
        below = self.trace(node.input)
        made = _through("transformation", _value(node.generator, below))
        columns = {**below.columns, **{c.name: made for c in node.output}}
        return Traced(columns, merge(below.rows, decide("explode", made)))

    def _recursion(self, node: Recursion) -> Traced:
        start = self.trace(node.start)
        fields = [f"c{i}" for i in range(len(node.output))]
        level = Traced(dict(zip(fields, _in_order(node.start, start), strict=True)), start.rows)

        def grow(known: Mapping[str, Traced]) -> dict[str, Traced]:
            table = known[node.table]
            inner = _Tracing(lambda name: table if name == node.table else self._relation(name), self._fields_of)
            step = inner.trace(node.step)
            joined = (merge(a, b) for a, b in zip(table.columns.values(), _in_order(node.step, step), strict=True))
            columns = dict(zip(fields, joined, strict=True))
            every = decide("group", *columns.values()) if node.once else _NONE
            return {node.table: Traced(columns, merge(table.rows, step.rows, every))}

        found = fixpoint({node.table: level}, grow)[node.table]
        return Traced(dict(zip((c.name for c in node.output), found.columns.values(), strict=True)), found.rows)

    def _opaque(self, node: Opaque) -> Traced:
        """Nobody knows what the text does with what it reads."""
        every: list[Ways] = []
        for table in node.tables:
            known = self._relation(table)
            every += [_own(table, f) for f in self._fields_of(table)] if known is None else known.columns.values()
            every += [known.rows] if known is not None else []
        rows = decide("unknown", *every)
        return Traced({c.name: _NONE for c in node.columns}, rows)


def fixpoint(
    known: Mapping[str, Traced], grow: Callable[[Mapping[str, Traced]], dict[str, Traced]]
) -> dict[str, Traced]:
    """The lineage of relations that read each other: `grow` gives it from what is known so far, until nothing is new."""
    before = dict(known)
    while (after := grow(before)) != before:
        before = after
    return before


def _own(table: str, field: str) -> Ways:
    return {Origin(table, field): frozenset(("identity",))}


def _in_order(node: Node, traced: Traced) -> list[Ways]:
    return [traced.columns[c.name] for c in node.columns]


def _by_position(node: UnionAll, members: list[Traced]) -> Traced:
    places = [_in_order(member, traced) for member, traced in zip(node.members, members, strict=True)]
    columns = {c.name: merge(*(own[place] for own in places)) for place, c in enumerate(node.output)}
    return Traced(columns, merge(*(traced.rows for traced in members)))


def _read(expressions: Iterable[Expr], below: Traced, how: Condition) -> Ways:
    """The origins of all columns that expressions read, as conditions."""
    return decide(how, *(below.columns[name] for expression in expressions for name in expression.columns))


def _value(expression: Expr, below: Traced) -> Ways:
    """The origins of a value. The tests of CASE and IF decide; what they choose from goes in."""
    if expression.column is not None:
        return below.columns[expression.column]
    if not expression.columns:
        return _NONE
    tests = _tests(expression)
    values = [part for place, part in enumerate(expression.parts) if place not in tests]
    decisive = [part for place, part in enumerate(expression.parts) if place in tests]
    direct = merge(*(_through("transformation", _value(part, below)) for part in values))
    return merge(direct, _read(decisive, below, "conditional"))


def _tests(expression: Expr) -> frozenset[int]:
    """The places of the arguments that are only tested."""
    if not isinstance(expression, Apply):
        return frozenset()
    if expression.function == "CaseWhen":  # test, value, test, value, …, and perhaps another value
        return frozenset(range(0, len(expression.parts) - 1, 2))
    return frozenset((0,)) if expression.function == "If" else frozenset()


def _over(call: WindowCall, below: Traced) -> Ways:
    values = merge(*(_through("aggregation", _value(a, below)) for a in call.call.arguments))
    chosen = _read((call.call.filter,), below, "filter") if call.call.filter else _NONE
    return merge(values, chosen, _read((o.expr for o in call.order), below, "window"))
