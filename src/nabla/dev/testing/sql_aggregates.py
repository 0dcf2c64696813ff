"""Random aggregate functions as SQL text, over all the functions of the scope whose result is a function of the bag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from nabla.dev.testing.random_groups import RESULTS, summable
from nabla.dev.testing.random_terms import NUMBERS, Sample
from nabla.dev.testing.sql_scope import ARRAY, ROUGH, any_term, expressions, sample

Make = Callable[[Random, Sequence[Sample]], Sample]
_ORDER_STATISTICS = (
    "percentile({x}, 0.5)",
    "median({x})",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY {x})",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY {x})",
    "approx_percentile({x}, 0.5)",
)
_TEXTS = (
    "array_join(sort_array(collect_list(CAST({x} AS STRING))), ',')",
    "listagg(CAST({x} AS STRING), ',') WITHIN GROUP (ORDER BY CAST({x} AS STRING))",
)
_WRAPPED = ("sort_array(", "array_join(", "size(")  # an aggregate inside of a function: no place for a FILTER


def aggregate_call(rng: Random, columns: Sequence[Sample], filters: bool = True) -> Sample:
    """One aggregate, sometimes over a part of the rows."""
    made = rng.choice(_MAKES)(rng, columns)
    if filters and rng.random() < 0.2 and not made.sql.startswith(_WRAPPED):
        condition = expressions(rng, columns).condition(1).sql
        return sample(f"{made.sql} FILTER (WHERE {condition})", made.expr.type, made.bound, made.exact)
    return made


def simple_call(rng: Random, columns: Sequence[Sample]) -> Sample:
    """One that a subquery compares with: a single number, text or date."""
    return rng.choice((_count, _common, _common))(rng, columns)


def _count(rng: Random, columns: Sequence[Sample]) -> Sample:
    x, y = (expressions(rng, columns).any(0).sql for _ in range(2))
    form = rng.choice(("count(*)", "count({x})", "count(DISTINCT {x})", "count(DISTINCT {x}, {y})", "count(1)"))
    return sample(form.format(x=x, y=y), "bigint", 1.0e5)


def _common(rng: Random, columns: Sequence[Sample]) -> Sample:
    terms = expressions(rng, columns)
    function = rng.choice(("sum", "sum", "avg", "min", "max"))
    x = terms.any(1) if function in ("min", "max") else _number(rng, columns)
    result = RESULTS[function](x)
    distinct = "DISTINCT " if function in ("sum", "avg") and rng.random() < 0.2 else ""
    return sample(f"{function}({distinct}{x.sql})", result.type, result.bound, result.exact)


def _number(rng: Random, columns: Sequence[Sample]) -> Sample:
    terms = expressions(rng, columns)
    kinds = [kind for kind in terms.kinds() if kind in NUMBERS] or ["int"]
    for _ in range(4):
        x = terms.of(rng.choice(kinds), rng.choice((0, 0, 1)))
        if summable(x):
            return x
    return terms.literal("int")


def _truth(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = expressions(rng, columns).of("boolean", 1)
    function = rng.choice(("bool_and", "bool_or", "every", "some"))
    return sample(f"{function}({x.sql})", "boolean")


def _counted_truth(rng: Random, columns: Sequence[Sample]) -> Sample:
    return sample(f"count_if({expressions(rng, columns).of('boolean', 1).sql})", "bigint", 1.0e5)


def _bits(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = expressions(rng, columns).of("int", 0)
    return sample(f"{rng.choice(('bit_and', 'bit_or', 'bit_xor'))}({x.sql})", x.expr.type, 2 * x.bound + 1)


def _by(rng: Random, columns: Sequence[Sample]) -> Sample:
    """Ties are broken by the value itself."""
    terms = expressions(rng, columns)
    x, y = terms.any(0), terms.any(0)
    function = rng.choice(("min_by", "max_by"))
    return sample(f"{function}({x.sql}, struct({y.sql}, {x.sql}))", x.expr.type, x.bound, x.exact)


def _statistic(rng: Random, columns: Sequence[Sample]) -> Sample:
    x, y = (f"CAST({_number(rng, columns).sql} AS DOUBLE)" for _ in range(2))
    of_one = ("stddev", "stddev_pop", "variance", "var_pop", "var_samp", "skewness", "kurtosis")
    of_two = ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_count")
    text = f"{rng.choice(of_one)}({x})" if rng.random() < 0.6 else f"{rng.choice(of_two)}({y}, {x})"
    return sample(text, "double", ROUGH, False)


def _order_statistic(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = _number(rng, columns).sql
    form = rng.choice(
        (
            "percentile({x}, 0.5)",
            "median({x})",
            "percentile_cont(0.25) WITHIN GROUP (ORDER BY {x})",
            "percentile_disc(0.5) WITHIN GROUP (ORDER BY {x})",
            "approx_percentile({x}, 0.5)",
        )
    )
    return sample(form.format(x=x), "double", ROUGH, False)


def _mode(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = expressions(rng, columns).any(0)
    return sample(f"mode() WITHIN GROUP (ORDER BY {x.sql})", x.expr.type, x.bound, x.exact)


def _collected(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = expressions(rng, columns).of_type("int", 0)
    function = rng.choice(("collect_list", "collect_set", "array_agg"))
    return sample(f"sort_array({function}({x.sql}))", ARRAY)


def _joined_text(rng: Random, columns: Sequence[Sample]) -> Sample:
    x = expressions(rng, columns).any(0).sql
    form = rng.choice(
        (
            "array_join(sort_array(collect_list(CAST({x} AS STRING))), ',')",
            "listagg(CAST({x} AS STRING), ',') WITHIN GROUP (ORDER BY CAST({x} AS STRING))",
        )
    )
    return sample(form.format(x=x), "string", 60)


def _greatest_struct(rng: Random, columns: Sequence[Sample]) -> Sample:
    terms = expressions(rng, columns)
    x, y = terms.of_type("int", 0).sql, terms.of_type("string", 0).sql
    return sample(f"{rng.choice(('max', 'min'))}(named_struct('x', {x}, 'y', {y}))", "struct<x:int,y:string>")


def _set_of_terms(rng: Random, columns: Sequence[Sample]) -> Sample:
    return sample(f"size(collect_set({any_term(rng, columns, 0).sql}))", "int", 1.0e5)


_MAKES: tuple[Make, ...] = (
    *(_count, _count, _common, _common, _common, _common),
    *(_truth, _counted_truth, _bits, _by, _statistic, _order_statistic, _mode),
    *(_collected, _joined_text, _greatest_struct, _set_of_terms),
)
