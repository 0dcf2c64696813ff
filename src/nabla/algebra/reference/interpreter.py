"""The meaning of the algebra: every node evaluated on small data, in plain Python.

This is the specification that the delta rules, the SQL printer and the engine are tested against. It is naive on
purpose: a join is two loops, an aggregate sees all rows of its group, and nothing is kept between two evaluations. A
bag maps each row, a tuple in the order of node.columns, to its number of copies: never zero, negative in a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from nabla.algebra.clock import EPOCH, Moments
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.memo import Memo
from nabla.algebra.nodes import (
    Aggregate,
    At,
    Consolidate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Negate,
    Node,
    Opaque,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Unweigh,
    Weigh,
    Window,
)
from nabla.algebra.reference.evaluator import (
    CannotEvaluate,
    Row,
    Slot,
    SparkWouldFail,
    compile_aggregate,
    compile_expression,
    compile_generator,
    compile_window,
    parse_type,
    sorted_places,
)

Bag: TypeAlias = Counter[Row]
Copies: TypeAlias = Iterable[tuple[Row, int]]


class NegativeWeight(Exception):
    """An operator that is defined for bags met a row with a negative number of copies: the bug of a rule."""


def bag_of(copies: Copies) -> Bag:
    """Equal rows summed, zeros dropped."""
    total: Bag = Counter()
    known = total.get  # total[row] would ask a method in Python for each new row
    for row, n in copies:
        total[row] = known(row, 0) + n
    if 0 in total.values():
        for row in [row for row, n in total.items() if not n]:
            del total[row]
    return total


def added(left: Bag, right: Bag) -> Bag:
    return bag_of(chain(left.items(), right.items()))


def negated(bag: Bag) -> Bag:
    return Counter({row: -n for row, n in bag.items()})


@dataclass(frozen=True)
class Database:
    """Tables and the clock before and after a change. `fields` names each table's columns in the order of its rows."""

    fields: Mapping[str, tuple[str, ...]]
    before: Mapping[str, Bag] = field(default_factory=dict)
    after: Mapping[str, Bag] = field(default_factory=dict)
    moments: Moments = EPOCH

    @classmethod
    def changed(
        cls, fields: Mapping[str, tuple[str, ...]], before: Mapping[str, Bag], change: Mapping[str, Bag]
    ) -> Database:
        """The database that a change of some tables makes."""
        after = {table: added(bag, change.get(table, Counter())) for table, bag in before.items()}
        return cls(fields, before, after)

    def old(self, table: str) -> Bag:
        return self.before[table]

    def new(self, table: str) -> Bag:
        return self.after[table]

    def delta(self, table: str) -> Bag:
        return added(self.after[table], negated(self.before[table]))

    def read(self, table: str, at: At) -> Bag:
        return _STATES[at](self, table)


_STATES: Mapping[At, Callable[[Database, str], Bag]] = {
    At.OLD: Database.old,
    At.NEW: Database.new,
    At.DELTA: Database.delta,
}


def evaluate(node: Node, database: Database) -> Bag:
    """The bag that a node denotes in a database."""
    return Run(database)(node)


class Run:
    """One evaluation. A subtree that occurs twice (rules share S₁ between their terms) is evaluated once."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._results: Memo[Node, Bag] = Memo()

    def __call__(self, node: Node) -> Bag:
        return self._results.once(node, self._evaluate)

    def _evaluate(self, node: Node) -> Bag:
        evaluation = EVALUATIONS.get(type(node))
        if evaluation is None:
            raise CannotEvaluate(f"{type(node).__name__} has no evaluation")
        return evaluation(node, self)

    def pairs(self, node: Join, left: Bag, right: Bag) -> Iterator[tuple[Row, Row]]:
        """The rows of both sides that a join's condition pairs."""
        matches = all_true(node.on, node.left.columns + node.right.columns)
        return ((s, t) for s in left for t in right if matches(s + t))


Evaluation: TypeAlias = Callable[[Any, Run], Bag]
_AnyEvaluation = TypeVar("_AnyEvaluation", bound=Evaluation)
EVALUATIONS: dict[type[Node], Evaluation] = {}


def evaluates(kind: type[Node]) -> Callable[[_AnyEvaluation], _AnyEvaluation]:
    def register(evaluation: _AnyEvaluation) -> _AnyEvaluation:
        EVALUATIONS[kind] = evaluation
        return evaluation

    return register


@lru_cache(maxsize=1 << 12)
def _layout(columns: tuple[Column, ...]) -> dict[str, Slot]:
    return {column.name: Slot(i, parse_type(column.type)) for i, column in enumerate(columns)}


def all_true(conjuncts: tuple[Expr, ...], columns: tuple[Column, ...]) -> Callable[[Row], bool]:
    layout = _layout(columns)
    tests = [compile_expression(conjunct, layout).get for conjunct in conjuncts]
    if len(tests) == 1:
        (test,) = tests
        return lambda row: test(row) is True
    return lambda row: all(test(row) is True for test in tests)


def _ordinary(bag: Bag, node: Node) -> Bag:
    for row, n in bag.items():
        if n < 0:
            raise NegativeWeight(f"{type(node).__name__} reads {n} copies of {row}")
    return bag


def _grouped(bag: Bag, names: tuple[str, ...], columns: tuple[Column, ...]) -> dict[Row, list[tuple[Row, int]]]:
    layout = _layout(columns)
    places = [int(layout[name].key) for name in names]
    groups: dict[Row, list[tuple[Row, int]]] = {}
    for row, n in bag.items():
        groups.setdefault(tuple([row[place] for place in places]), []).append((row, n))
    return groups


def _copies(bag: Copies) -> list[Row]:
    return [row for row, n in bag for _ in range(n)]


# Leaves


@evaluates(Scan)
def _scan(node: Scan, run: Run) -> Bag:
    own = run.database.fields[node.table]
    places = [own.index(name) for name in node.fields]
    bag = run.database.read(node.table, node.at)
    return bag_of((tuple([row[place] for place in places]), n) for row, n in bag.items())


@evaluates(Constant)
def _constant(node: Constant, run: Run) -> Bag:
    return bag_of((tuple([compile_expression(v, {}).get(()) for v in row]), 1) for row in node.rows)


@evaluates(Opaque)
def _opaque(node: Opaque, run: Run) -> Bag:
    raise CannotEvaluate(f"a query that is not algebra ({node.why}): {node.sql}")


# Linear operators: each row by itself, weights pass


@evaluates(Filter)
def _filter(node: Filter, run: Run) -> Bag:
    conjuncts = tuple(map(run.database.moments.bind, node.conjuncts))
    passes = all_true(conjuncts, node.input.columns)
    return Counter({row: n for row, n in run(node.input).items() if passes(row)})


@evaluates(Project)
def _project(node: Project, run: Run) -> Bag:
    layout = _layout(node.input.columns)
    gets = [compile_expression(output.expr, layout).get for output in node.outputs]
    return bag_of((tuple([get(row) for get in gets]), n) for row, n in run(node.input).items())


@evaluates(Generate)
def _generate(node: Generate, run: Run) -> Bag:
    generated = compile_generator(node.generator, _layout(node.input.columns))
    nothing: list[Row] = [(None,) * len(node.output)] if node.outer else []
    return bag_of((row + extra, n) for row, n in run(node.input).items() for extra in generated(row) or nothing)


@evaluates(UnionAll)
def _union_all(node: UnionAll, run: Run) -> Bag:
    return bag_of(chain.from_iterable(run(member).items() for member in node.members))


@evaluates(Negate)
def _negate(node: Negate, run: Run) -> Bag:
    return negated(run(node.input))


@evaluates(Consolidate)
def _consolidate(node: Consolidate, run: Run) -> Bag:
    return run(node.input)


@evaluates(Weigh)
def _weigh(node: Weigh, run: Run) -> Bag:
    return Counter({(*row, n): 1 for row, n in run(node.input).items()})


@evaluates(Unweigh)
def _unweigh(node: Unweigh, run: Run) -> Bag:
    place = [column.name for column in node.input.columns].index(node.weight)
    return bag_of((row[:place] + row[place + 1 :], n * row[place]) for row, n in run(node.input).items())


# Joins


Pairs: TypeAlias = list[tuple[Row, Row]]


@evaluates(Join)
def _join(node: Join, run: Run) -> Bag:
    left, right = run(node.left), run(node.right)
    return _JOINS[node.kind](node, left, right, list(run.pairs(node, left, right)))


def _inner(node: Join, left: Bag, right: Bag, pairs: Pairs) -> Bag:
    return bag_of((s + t, left[s] * right[t]) for s, t in pairs)


def _semi(node: Join, left: Bag, right: Bag, pairs: Pairs) -> Bag:
    """A match is a row of the right side with any weight but zero, which is what a restriction to a change needs."""
    matched = {s for s, _ in pairs}
    return Counter({s: n for s, n in left.items() if s in matched})


def _anti(node: Join, left: Bag, right: Bag, pairs: Pairs) -> Bag:
    matched = {s for s, _ in pairs}
    return Counter({s: n for s, n in left.items() if s not in matched})


def _unmatched_right(right: Bag, pairs: Pairs) -> Bag:
    matched = {t for _, t in pairs}
    return Counter({t: n for t, n in right.items() if t not in matched})


def _left_outer(node: Join, left: Bag, right: Bag, pairs: Pairs) -> Bag:
    """S ⟕ T = (S ⋈ T) + (S ▷ T) × null, linear in S; T must be a bag, since matching is not linear."""
    padding = (None,) * len(node.right.columns)
    unmatched = _anti(node, left, _ordinary(right, node), pairs)
    return added(_inner(node, left, right, pairs), Counter({s + padding: n for s, n in unmatched.items()}))


def _right_outer(node: Join, left: Bag, right: Bag, pairs: Pairs) -> Bag:
    padding = (None,) * len(node.left.columns)
    _ordinary(left, node)
    unmatched = _unmatched_right(right, pairs)
    return added(_inner(node, left, right, pairs), Counter({padding + t: n for t, n in unmatched.items()}))


def _full_outer(node: Join, left: Bag, right: Bag, pairs: Pairs) -> Bag:
    padding = (None,) * len(node.left.columns)
    _ordinary(left, node)
    unmatched = _unmatched_right(right, pairs)
    return added(_left_outer(node, left, right, pairs), Counter({padding + t: n for t, n in unmatched.items()}))


_JOINS: Mapping[str, Callable[[Join, Bag, Bag, Pairs], Bag]] = {
    "inner": _inner,
    "left": _left_outer,
    "right": _right_outer,
    "full": _full_outer,
    "semi": _semi,
    "anti": _anti,
}


# Recursion


@evaluates(Recursion)
def _recursion(node: Recursion, run: Run) -> Bag:
    level, result = _ordinary(run(node.start), node), Counter[Row]()
    number, seen = 0, set[Row]()
    while level:
        result = added(result, level)
        if 0 <= node.most_levels <= number or 0 <= node.most_rows <= result.total():
            raise SparkWouldFail(f"more than {node.most_levels} levels or {node.most_rows} rows")
        number += 1
        carried = Counter(dict.fromkeys(level.keys() - seen, 1)) if node.once else level
        seen |= level.keys()
        level = evaluate(node.step, _at_level(run.database, node, carried))
    return result


def _at_level(database: Database, node: Recursion, level: Bag) -> Database:
    fields = {**database.fields, node.table: tuple(f"c{i}" for i in range(len(node.output)))}
    before, after = ({**tables, node.table: level} for tables in (database.before, database.after))
    return replace(database, fields=fields, before=before, after=after)


# Operators of bags: a negative weight has no meaning here


@evaluates(Distinct)
def _distinct(node: Distinct, run: Run) -> Bag:
    return Counter(dict.fromkeys(_ordinary(run(node.input), node), 1))


@evaluates(Aggregate)
def _aggregate(node: Aggregate, run: Run) -> Bag:
    groups = _grouped(_ordinary(run(node.input), node), node.keys, node.input.columns)
    if not node.keys and node.calls:
        groups.setdefault((), [])
    layout = _layout(node.input.columns)
    functions = [compile_aggregate(call, layout) for call in node.calls]
    return bag_of((key + tuple([function(rows) for function in functions]), 1) for key, rows in groups.items())


@evaluates(Window)
def _window(node: Window, run: Run) -> Bag:
    layout = _layout(node.input.columns)
    functions = [compile_window(call, layout) for call in node.calls]
    result: list[tuple[Row, int]] = []
    for group in _grouped(_ordinary(run(node.input), node), node.partition, node.input.columns).values():
        rows = _copies(group)
        values = zip(*(function(rows) for function in functions), strict=True) if functions else ((),) * len(rows)
        result.extend((row + tuple(extra), 1) for row, extra in zip(rows, values, strict=True))
    return bag_of(result)


@evaluates(TopK)
def _top_k(node: TopK, run: Run) -> Bag:
    rows = _copies(_ordinary(run(node.input), node).items())
    places, _ = sorted_places(rows, node.order, _layout(node.input.columns))
    end = None if node.limit is None else node.offset + node.limit
    return Counter([rows[place] for place in places[node.offset : end]])


@evaluates(ExceptAll)
def _except_all(node: ExceptAll, run: Run) -> Bag:
    left, right = _ordinary(run(node.left), node), _ordinary(run(node.right), node)
    return Counter({row: n - right[row] for row, n in left.items() if n > right[row]})


@evaluates(IntersectAll)
def _intersect_all(node: IntersectAll, run: Run) -> Bag:
    left, right = _ordinary(run(node.left), node), _ordinary(run(node.right), node)
    return Counter({row: min(n, right[row]) for row, n in left.items() if row in right})
