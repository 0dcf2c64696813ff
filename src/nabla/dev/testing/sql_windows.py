"""Random window functions as SQL text. What counts single rows gets a total order, so that there is one right answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from nabla.dev.testing.random_groups import RESULTS, summable
from nabla.dev.testing.random_terms import NUMBERS, Sample, kind_of
from nabla.dev.testing.sql_scope import ARRAY, expressions, sample, scalars

_ROWS = (
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)


def window_call(rng: Random, columns: Sequence[Sample]) -> Sample:
    return rng.choice(_MAKES)(rng, columns)


def partition(rng: Random, columns: Sequence[Sample]) -> str:
    chosen = rng.sample(list(columns), min(len(columns), rng.choice((0, 1, 1, 1, 2))))
    return f"PARTITION BY {', '.join(c.sql for c in chosen)} " if chosen else ""


def total_order(rng: Random, columns: Sequence[Sample]) -> str:
    """All columns: what it does not tell apart is equal."""
    return order(rng, rng.sample(list(columns), len(columns)))


def order(rng: Random, columns: Sequence[Sample]) -> str:
    words = ("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST")
    return "ORDER BY " + ", ".join(column.sql + rng.choice(words) for column in columns)


def _over(rng: Random, columns: Sequence[Sample], ordering: str = "", frame: str = "") -> str:
    return f"OVER ({partition(rng, columns)}{ordering} {frame}".rstrip() + ")"


def _place(rng: Random, columns: Sequence[Sample]) -> Sample:
    call = rng.choice(("row_number()", "row_number()", "ntile(2)"))
    return sample(f"{call} {_over(rng, columns, total_order(rng, columns))}", "int", 1.0e5)


def _rank(rng: Random, columns: Sequence[Sample]) -> Sample:
    call, type_ = rng.choice(
        (("rank()", "int"), ("dense_rank()", "int"), ("percent_rank()", "double"), ("cume_dist()", "double"))
    )
    some = rng.sample(list(columns), rng.randint(1, len(columns)))
    return sample(f"{call} {_over(rng, columns, order(rng, some))}", type_, 1.0e5, type_ == "int")


def _neighbour(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = rng.choice(list(columns))
    forms = ("lag({x})", "lead({x})", "lag({x}, 2)", "lead({x}, 1) IGNORE NULLS")
    call = rng.choice(forms).format(x=x.sql)
    return sample(f"{call} {_over(rng, columns, total_order(rng, columns))}", x.expr.type, x.bound, x.exact)


def _edge(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = rng.choice(list(columns))
    forms = ("first_value({x})", "last_value({x})", "nth_value({x}, 2)", "last_value({x}) IGNORE NULLS")
    call = rng.choice(forms).format(x=x.sql)
    over = _over(rng, columns, total_order(rng, columns), rng.choice(("", *_ROWS)))
    return sample(f"{call} {over}", x.expr.type, x.bound, x.exact)


def _running(rng: Random, columns: Sequence[Sample]) -> Sample:
    terms = expressions(rng, columns)
    function = rng.choice(("sum", "count", "avg", "min", "max"))
    x = terms.any(1)
    if function in ("sum", "avg") and (kind_of(x.expr.type) not in NUMBERS or not summable(x)):
        function = "count"
    result = RESULTS[function](x)
    form = rng.random()
    if form < 0.3:
        over = _over(rng, columns)
    elif form < 0.6:
        over = _over(rng, columns, total_order(rng, columns), rng.choice(_ROWS))
    else:
        over = _over(rng, columns, *_ranged(rng, columns))
    return sample(f"{function}({x.sql}) {over}", result.type, result.bound, result.exact)


def _ranged(rng: Random, columns: Sequence[Sample]) -> tuple[str, str]:
    """Peers belong together here, so any order will do; with an offset it is one of a number or a date."""
    numbers = [c for c in columns if c.expr.type in ("int", "bigint")]
    dates = [c for c in columns if c.expr.type == "date"]
    if numbers and rng.random() < 0.5:
        return f"ORDER BY {rng.choice(numbers).sql}", "RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING"
    if dates and rng.random() < 0.7:
        return f"ORDER BY {rng.choice(dates).sql}", "RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW"
    some = rng.sample(list(columns), rng.randint(1, len(columns)))
    return order(rng, some), rng.choice(("", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"))


def _collected(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = expressions(rng, columns).of_type("int", 0)
    return sample(f"sort_array(collect_list({x.sql}) {_over(rng, columns)})", ARRAY)


def _share(rng: Random, columns: Sequence[Sample]) -> Sample:
    """A part of a whole, as reports have it."""
    x = next((c for c in scalars(columns) if c.expr.type in ("int", "bigint") and c.bound < 1e6), None)
    if x is None:
        return _rank(rng, columns)
    return sample(f"{x.sql} - max({x.sql}) {_over(rng, columns)}", x.expr.type, 2 * x.bound)


Make = Callable[[Random, Sequence[Sample]], Sample]
_MAKES: tuple[Make, ...] = (
    *(_place, _rank, _neighbour, _edge),
    *(_running, _running, _running),
    *(_collected, _share),
)
