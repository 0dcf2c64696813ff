"""Random aggregates and windows over a relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from nabla.algebra.build import number
from nabla.algebra.calls import (
    CURRENT_ROW,
    UNBOUNDED_FOLLOWING,
    UNBOUNDED_PRECEDING,
    Bound,
    Call,
    Frame,
    Order,
    WindowCall,
)
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import Aggregate, Node, Window
from nabla.algebra.parse import read_call
from nabla.algebra.reference.evaluator import SqlType, parse_type
from nabla.dev.testing.random_expressions import Expressions
from nabla.dev.testing.random_terms import NUMBERS, Sample

Fresh = Callable[[str, str, bool], Column]
_MANY = 1.0e5  # more rows than a group of random data ever has


@dataclass(frozen=True)
class RandomRelation:
    """A node, its columns as terms of expressions, and about how many rows it has at most."""

    node: Node
    columns: tuple[Sample, ...]
    rows: int


@dataclass(frozen=True)
class Result:
    """The result of an aggregate function: its type, whether it can be NULL, and the facts that `Sample` needs."""

    type: str
    nullable: bool
    bound: float
    exact: bool


def _count(argument: Sample) -> Result:
    return Result("bigint", False, _MANY, True)


def _sum(argument: Sample) -> Result:
    return Result(_wider(argument, 10, 0, "bigint"), True, argument.bound * _MANY, argument.exact)


def _average(argument: Sample) -> Result:
    return Result(_wider(argument, 4, 4, "double"), True, argument.bound, False)


def _same(argument: Sample) -> Result:
    return Result(argument.expr.type, True, argument.bound, argument.exact)


def _bits(argument: Sample) -> Result:
    """All bits below the highest one of the bound may be set."""
    return Result(argument.expr.type, True, 2 * argument.bound + 1, True)


def _middle(argument: Sample) -> Result:
    return Result("double", True, argument.bound, False)


def _truth(argument: Sample) -> Result:
    return Result("boolean", True, 1.0, True)


def _wider(argument: Sample, precision: int, scale: int, of_integers: str) -> str:
    kind = parse_type(argument.expr.type)
    if kind.kind == "decimal":
        return str(SqlType("decimal", min(kind.precision + precision, 38), min(kind.scale + scale, 38)))
    return "double" if kind.kind == "double" else of_integers


RESULTS: Mapping[str, Callable[[Sample], Result]] = {
    "count": _count,
    "count_if": _count,
    "sum": _sum,
    "avg": _average,
    "min": _same,
    "max": _same,
    "bool_and": _truth,
    "bool_or": _truth,
    "bit_and": _bits,
    "bit_or": _bits,
    "bit_xor": _bits,
    "median": _middle,
}
_COMMON = ("count", "sum", "sum", "avg", "min", "max")
_MORE = (*("bool_and", "bool_or", "count_if") * 2, "bit_and", "bit_or", "bit_xor", "median")
_SUMMING = ("sum", "avg")


def aggregate(rng: Random, below: RandomRelation, fresh: Fresh, more: bool) -> RandomRelation:
    """Grouped or global; `more` adds DISTINCT and the aggregates of truth values."""
    columns = list(below.columns)
    keys = rng.sample(columns, rng.choice((0, 1, 1, 1, 2, 2))) if len(columns) > 1 else columns[: rng.choice((0, 1))]
    expressions = Expressions(rng, columns)
    drawn = [_call(rng, expressions, fresh, more) for _ in range(rng.randint(0 if keys else 1, 3))]
    names = tuple(key.expr.column or "" for key in keys)
    node = Aggregate(below.node, names, tuple(call for call, _ in drawn))
    results = [Sample(call.column.ref, result.bound, result.exact) for call, result in drawn]
    return RandomRelation(node, (*keys, *results), below.rows if keys else 1)


def _call(rng: Random, expressions: Expressions, fresh: Fresh, more: bool) -> tuple[Call, Result]:
    condition = expressions.condition(1) if rng.random() < 0.2 else None
    if rng.random() < 0.2:
        one = number(1, "int")
        result = _count(Sample(one))
        arguments = rng.choice(((), (one,)))
        return Call(fresh("n", "bigint", False), "count", arguments, filter=condition), result
    function = rng.choice(_COMMON * 2 + _MORE * more)
    argument = _argument(rng, expressions, function)
    result = RESULTS[function](argument)
    distinct = more and function in ("count", "sum", "avg") and rng.random() < 0.4
    column = fresh(function, result.type, result.nullable)
    return Call(column, function, (argument.expr,), distinct, condition), result


def _argument(rng: Random, expressions: Expressions, function: str) -> Sample:
    """A column mostly; what is summed must be exact and have digits to spare."""
    if function in ("bool_and", "bool_or", "count_if"):
        return expressions.of("boolean", 2)
    depth = rng.choice((0, 0, 1))
    if function.startswith("bit_"):
        return expressions.of("int", depth)
    if function == "median":
        return expressions.of(rng.choice(NUMBERS), depth)
    if function not in _SUMMING:
        return expressions.any(depth)
    kinds = [kind for kind in expressions.kinds() if kind in NUMBERS] or ["int"]
    for _ in range(4):
        drawn = expressions.of(rng.choice(kinds), depth)
        if summable(drawn):
            return drawn
    return expressions.literal("int")


def summable(sample: Sample) -> bool:
    kind = parse_type(sample.expr.type)
    if kind.kind == "decimal":
        return kind.precision <= 24
    return sample.exact and sample.bound * _MANY < (2.0**40 if kind.kind == "double" else 4.0e18)


# Windows

_RANKS: Mapping[str, tuple[str, str, float]] = {
    "rank()": ("rank", "int", _MANY),
    "dense_rank()": ("rank", "int", _MANY),
    "percent_rank()": ("share", "double", 1.0),
    "cume_dist()": ("share", "double", 1.0),
}
# These look at single rows: only a total order makes them deterministic.
_PLACES: Mapping[str, tuple[str, str, float]] = {
    "row_number()": ("number", "int", _MANY),
    "ntile(2)": ("tile", "int", 2.0),
}
_NEIGHBOURS = ("lag({x})", "lead({x})", "lag({x}, 2)", "first_value({x})", "last_value({x})")
_FRAMES = (
    None,
    None,
    Frame("rows", UNBOUNDED_PRECEDING, CURRENT_ROW),
    Frame("rows", UNBOUNDED_PRECEDING, UNBOUNDED_FOLLOWING),
    Frame("rows", Bound("preceding", number(1, "int")), Bound("following", number(1, "int"))),
    Frame("range", UNBOUNDED_PRECEDING, CURRENT_ROW),
    Frame("range", CURRENT_ROW, UNBOUNDED_FOLLOWING),
)


def window(rng: Random, below: RandomRelation, fresh: Fresh) -> RandomRelation:
    columns = list(below.columns)
    partition = rng.sample(columns, min(len(columns), rng.choice((0, 1, 1, 1, 2))))
    names = tuple(column.expr.column or "" for column in partition)
    drawn = [_window_call(rng, columns, fresh) for _ in range(rng.randint(1, 2))]
    node = Window(below.node, names, tuple(call for call, _ in drawn))
    return RandomRelation(node, (*columns, *(sample for _, sample in drawn)), below.rows)


def _window_call(rng: Random, columns: list[Sample], fresh: Fresh) -> tuple[WindowCall, Sample]:
    return rng.choice((_ranking, _placing, _neighbour, _running, _running))(rng, columns, fresh)


def _order(rng: Random, columns: list[Sample], total: bool) -> tuple[Order, ...]:
    chosen = rng.sample(columns, len(columns) if total else rng.randint(1, len(columns)))
    return tuple(Order(c.expr, rng.random() < 0.5, rng.random() < 0.5) for c in chosen)


def _ranking(rng: Random, columns: list[Sample], fresh: Fresh, total: bool = False) -> tuple[WindowCall, Sample]:
    functions = _PLACES if total else _RANKS
    text = rng.choice(list(functions))
    label, type_, bound = functions[text]
    column = fresh(label, type_, False)
    call = WindowCall(read_call(text, column, {}), _order(rng, columns, total))
    return call, Sample(column.ref, bound, type_ != "double")


def _placing(rng: Random, columns: list[Sample], fresh: Fresh) -> tuple[WindowCall, Sample]:
    return _ranking(rng, columns, fresh, total=True)


def _neighbour(rng: Random, columns: list[Sample], fresh: Fresh) -> tuple[WindowCall, Sample]:
    expressions = Expressions(rng, columns)
    x = expressions.any(0)
    column = fresh("near", x.expr.type, True)
    call = read_call(rng.choice(_NEIGHBOURS).format(x=x.sql), column, expressions.types)
    return WindowCall(call, _order(rng, columns, total=True)), Sample(column.ref, x.bound, x.exact)


def _running(rng: Random, columns: list[Sample], fresh: Fresh) -> tuple[WindowCall, Sample]:
    """An aggregate over a frame; rows are counted only in a total order, or where there is no order at all."""
    function = rng.choice(("sum", "count", "avg", "min", "max"))
    argument = _argument(rng, Expressions(rng, columns), function)
    result = RESULTS[function](argument)
    column = fresh(function, result.type, result.nullable)
    frame = rng.choice(_FRAMES)
    total = frame is not None and frame.unit == "rows"
    order = () if not frame and rng.random() < 0.5 else _order(rng, columns, total)
    call = WindowCall(Call(column, function, (argument.expr,)), order, frame)
    return call, Sample(column.ref, result.bound, result.exact)
