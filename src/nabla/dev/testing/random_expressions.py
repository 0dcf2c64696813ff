"""Random expressions that are legal and mean the same in the evaluator and in Spark (ANSI mode).

No overflow, no division by zero, no cast that can fail, and no floating point sum that depends on the order of its
terms: every term knows a bound of its absolute value and whether, if a double, it is a multiple of a small power of
two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from nabla.algebra.build import null
from nabla.algebra.expressions import Expr, Ref
from nabla.algebra.normalize import cast
from nabla.algebra.parse import read_around
from nabla.algebra.reference.evaluator import SqlType, parse_type
from nabla.algebra.reference.evaluator.arithmetic import operation
from nabla.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, decimal, wider
from nabla.dev.testing.random_terms import (
    CONSTANTS,
    INTEGERS,
    NUMBERS,
    Sample,
    capacity,
    kind_of,
    literal,
    literal_type,
)

_EXACT_BOUND = 2.0**40
_MOST_DIGITS = 24  # so that sums and averages of a decimal, too, stay below Spark's limit of 38


class Expressions:
    """Makes expressions over some columns."""

    def __init__(self, rng: Random, columns: Sequence[Sample]) -> None:
        self.rng = rng
        self.columns = list(columns)
        refs = (column.expr for column in columns)
        self.types = {ref.name: (ref.type, ref.nullable) for ref in refs if isinstance(ref, Ref)}

    def kinds(self) -> list[str]:
        return sorted({column.kind for column in self.columns})

    def any(self, depth: int = 2) -> Sample:
        """Over a kind that the columns have: others would be constants mostly."""
        return self.of(self.rng.choice(self.kinds()), depth) if self.columns else self.of("int", 0)

    def of(self, kind: str, depth: int) -> Sample:
        if depth <= 0 or self.rng.random() < 0.2:
            return self.leaf(kind)
        made = self.rng.choice(_FORMS[kind])(self, depth - 1)
        return made if made is not None and self._fits(made) else self.leaf(kind)

    def of_type(self, type_: str, depth: int = 1) -> Sample:
        """Exactly of a type, with a cast where needed."""
        kind = kind_of(type_)
        for sample in (self.of(kind, depth), self.leaf(kind)):
            if sample.expr.type == type_:
                return sample
            if sample.bound < capacity(type_) and kind == sample.kind:
                return Sample(cast(sample.expr, type_), sample.bound, sample.exact)
        return Sample(null(type_))

    def condition(self, depth: int = 2) -> Expr:
        """Mostly something that reads a column, and often a form that lets rows pass, since NULLs make much unknown."""
        made = self._reading_a_column(depth)
        form = self.rng.random()
        if form < 0.35:
            return self.made("COALESCE({}, true)", (made,), BOOLEAN, nullable=False).expr
        if form < 0.7:
            other = self._reading_a_column(depth)
            return self.made("({} OR {})", (made, other), BOOLEAN).expr
        return made.expr

    def _reading_a_column(self, depth: int) -> Sample:
        made = self.of("boolean", depth)
        for _ in range(3):
            if made.expr.columns:
                break
            made = self.of("boolean", depth)
        return made

    def leaf(self, kind: str) -> Sample:
        columns = [column for column in self.columns if column.kind == kind]
        return self.rng.choice(columns) if columns and self.rng.random() < 0.85 else self.literal(kind)

    def literal(self, kind: str) -> Sample:
        return self.rng.choice(_LITERALS[kind])

    def made(
        self,
        form: str,
        parts: Sequence[Sample],
        type_: SqlType,
        bound: float = 1.0,
        nullable: bool | None = None,
        exact: bool | None = None,
    ) -> Sample:
        """Parts in the holes of a form; unless said otherwise NULL and inexact where one of them is."""
        nullable_ = any(p.nullable for p in parts) if nullable is None else nullable
        sure = all(p.exact for p in parts) if exact is None else exact
        return Sample(read_around(form, [p.expr for p in parts], str(type_), nullable_), bound, sure)

    def _fits(self, sample: Sample) -> bool:
        kind = parse_type(sample.expr.type)
        if kind.kind == "decimal":
            return kind.precision <= _MOST_DIGITS
        if kind.kind == "double":
            return not sample.exact or sample.bound < _EXACT_BOUND
        return sample.bound < INTEGERS.get(kind.kind, 64.0)

    # Forms that every kind has

    def coalesce(self, kind: str, depth: int) -> Sample:
        x, y = self.of(kind, depth), self.of(kind, depth)
        null = x.nullable and y.nullable
        return self.made("COALESCE({}, {})", (x, y), wider(x.type, y.type), max(x.bound, y.bound), null)

    def choice(self, kind: str, depth: int) -> Sample:
        x, y, condition = self.of(kind, depth), self.of(kind, depth), Sample(self.condition(depth))
        form = self.rng.choice(("CASE WHEN {} THEN {} ELSE {} END", "IF({}, {}, {})"))
        null, bound = x.nullable or y.nullable, max(x.bound, y.bound)
        return self.made(form, (condition, x, y), wider(x.type, y.type), bound, null)

    def one_armed(self, kind: str, depth: int) -> Sample:
        x, condition = self.of(kind, depth), Sample(self.condition(depth))
        return self.made("CASE WHEN {} THEN {} END", (condition, x), x.type, x.bound, nullable=True)

    def null_if(self, kind: str, depth: int) -> Sample:
        x, y = self.of(kind, depth), self.leaf(kind)
        return self.made("NULLIF({}, {})", (x, y), x.type, x.bound, nullable=True, exact=x.exact)

    def extreme(self, kind: str, depth: int) -> Sample:
        x, y, function = self.of(kind, depth), self.of(kind, depth), self.rng.choice(("GREATEST", "LEAST"))
        null = x.nullable and y.nullable
        return self.made(f"{function}({{}}, {{}})", (x, y), wider(x.type, y.type), max(x.bound, y.bound), null)

    # Numbers

    def total(self, kind: str, depth: int) -> Sample:
        x, y, sign = self.of(kind, depth), self.of(kind, depth), self.rng.choice("+-")
        return self.made(f"({{}} {sign} {{}})", (x, y), operation(sign, x.type, y.type).type, x.bound + y.bound)

    def product(self, kind: str, depth: int) -> Sample:
        x, y = self.of(kind, depth), self.leaf(kind)
        return self.made("({} * {})", (x, y), operation("*", x.type, y.type).type, x.bound * y.bound)

    def signed(self, kind: str, depth: int) -> Sample:
        x = self.of(kind, depth)
        return self.made(self.rng.choice(("(- {})", "ABS({})")), (x,), x.type, x.bound)

    def halved(self, kind: str, depth: int) -> Sample:
        """Divided by a power of two, which keeps a double exact."""
        x, divisor = self.of(kind, depth), self.rng.choice((2, 4))
        return self.made(f"({{}} / {divisor})", (x,), operation("/", x.type, INT, (0, 1)).type, x.bound)

    def whole_quotient(self, depth: int) -> Sample:
        x, symbol = self.of("int", depth), self.rng.choice(("div", "%"))
        divisor = self.rng.choice((2, 3))
        return self.made(f"({{}} {symbol.upper()} {divisor})", (x,), operation(symbol, x.type, INT).type, x.bound)


def _literal(value: Any, kind: str) -> Sample:
    bound = float(abs(value)) if kind in NUMBERS else float(len(str(value)))
    return Sample(read_around(literal(value, ""), (), str(literal_type(value)), nullable=False), bound)


_LITERALS = {kind: [_literal(value, kind) for value in values] for kind, values in CONSTANTS.items()}
Form = Callable[[Expressions, int], Sample | None]


def _common(kind: str) -> tuple[Form, ...]:
    return (
        lambda e, depth: e.coalesce(kind, depth),
        lambda e, depth: e.choice(kind, depth),
        lambda e, depth: e.one_armed(kind, depth),
        lambda e, depth: e.null_if(kind, depth),
        lambda e, depth: e.extreme(kind, depth),
    )


def _numeric(kind: str) -> tuple[Form, ...]:
    return (
        lambda e, depth: e.total(kind, depth),
        lambda e, depth: e.total(kind, depth),
        lambda e, depth: e.product(kind, depth),
        lambda e, depth: e.signed(kind, depth),
    )


def _of_one(kind: str, form: str, type_: SqlType | None, bound: Callable[[float], float]) -> Form:
    """A function of one argument; without a type, of the type of the argument."""

    def make(e: Expressions, depth: int) -> Sample:
        x = e.of(kind, depth)
        return e.made(form, (x,), type_ or x.type, bound(x.bound))

    return make


def _same(bound: float) -> float:
    return bound


def _as_text(kind: str, length: float) -> Form:
    return _of_one(kind, "CAST({} AS STRING)", STRING, lambda bound: length)


def _decimal_of_integer(e: Expressions, depth: int) -> Sample | None:
    x = e.of("int", depth)
    return e.made("CAST({} AS DECIMAL(12,2))", (x,), decimal(12, 2), x.bound) if x.bound < 1e9 else None


def _rounded(e: Expressions, depth: int) -> Sample:
    x = e.of("decimal", depth)
    scale = min(x.type.scale, 1)
    return e.made("ROUND({}, 1)", (x,), decimal(x.type.precision - x.type.scale + 1 + scale, scale), x.bound + 1)


def _third(e: Expressions, depth: int) -> Sample:
    """A double that is not exact: it may be compared and grouped by, never summed."""
    x = e.of("int", depth)
    return e.made("({} / 3)", (x,), DOUBLE, x.bound, exact=False)


def _double_of_integer(e: Expressions, depth: int) -> Sample | None:
    x = e.of("int", depth)
    return e.made("CAST({} AS DOUBLE)", (x,), DOUBLE, x.bound) if x.bound < _EXACT_BOUND else None


def _concat(e: Expressions, depth: int) -> Sample:
    x, y = e.of("string", depth), e.of("string", depth)
    return e.made("CONCAT({}, {})", (x, y), STRING, x.bound + y.bound)


# Conditions


def _pair(e: Expressions, depth: int) -> tuple[Sample, Sample]:
    """Two terms that can be compared; a decimal with a double would be compared as doubles, which are not exact."""
    kind = e.rng.choice([kind for kind in e.kinds() if kind in _COMPARABLE] or ["int"])
    return e.of(kind, depth), e.of(e.rng.choice(_COMPARABLE[kind]), depth)


_COMPARABLE: Mapping[str, tuple[str, ...]] = {
    "int": ("int", "int", "int", "decimal", "double"),
    "decimal": ("decimal", "int"),
    "double": ("double", "int"),
    "string": ("string",),
    "date": ("date",),
    "boolean": ("boolean",),
}


def _comparison(e: Expressions, depth: int) -> Sample:
    (x, y), operator = _pair(e, depth), e.rng.choice(("=", "<>", "<>", "<", "<=", "<=", ">", ">=", ">="))
    return e.made(f"({{}} {operator} {{}})", (x, y), BOOLEAN)


def _null_safe(e: Expressions, depth: int) -> Sample:
    x, y = _pair(e, depth)
    return e.made("({} <=> {})", (x, y), BOOLEAN, nullable=False)


def _null_test(e: Expressions, depth: int) -> Sample:
    x = e.any(depth)
    return e.made(f"({{}} IS {e.rng.choice(('', 'NOT ', 'NOT '))}NULL)", (x,), BOOLEAN, nullable=False)


def _membership(e: Expressions, depth: int) -> Sample:
    kind = e.rng.choice([kind for kind in e.kinds() if kind != "boolean"] or ["int"])
    x, members = e.of(kind, depth), [e.leaf(kind) for _ in range(e.rng.randint(1, 3))]
    holes = ["{}"] * len(members) + ["NULL"] * (e.rng.random() < 0.2)
    word = e.rng.choice(("IN", "NOT IN"))
    return e.made(f"({{}} {word} ({', '.join(holes)}))", (x, *members), BOOLEAN, nullable=True)


def _between(e: Expressions, depth: int) -> Sample:
    kind = e.rng.choice([kind for kind in e.kinds() if kind != "boolean"] or ["int"])
    x, low, high = e.of(kind, depth), e.leaf(kind), e.leaf(kind)
    return e.made("({} BETWEEN {} AND {})", (x, low, high), BOOLEAN)


def _like(e: Expressions, depth: int) -> Sample:
    x = e.of("string", depth)
    return e.made(f"({{}} LIKE '{e.rng.choice(('a%', '%b', '_', '%', 'a_', '%a%'))}')", (x,), BOOLEAN)


def _connective(e: Expressions, depth: int) -> Sample:
    x, y = e.of("boolean", depth), e.of("boolean", depth)
    return e.made(f"({{}} {e.rng.choice(('AND', 'OR', 'OR'))} {{}})", (x, y), BOOLEAN)


def _negation(e: Expressions, depth: int) -> Sample:
    x = e.of("boolean", depth)
    return e.made("(NOT {})", (x,), BOOLEAN)


_FORMS: Mapping[str, tuple[Form, ...]] = {
    "int": (
        *_common("int"),
        *_numeric("int"),
        lambda e, depth: e.whole_quotient(depth),
        _of_one("int", "CAST({} AS BIGINT)", BIGINT, _same),
        _of_one("boolean", "CAST({} AS INT)", INT, _same),
        _of_one("string", "LENGTH({})", INT, _same),
        _of_one("date", "DAY({})", INT, lambda bound: 31.0),
    ),
    "decimal": (
        *_common("decimal"),
        *_numeric("decimal"),
        lambda e, depth: e.halved("decimal", depth),
        _decimal_of_integer,
        _rounded,
    ),
    "double": (
        *_common("double"),
        *_numeric("double"),
        lambda e, depth: e.halved("double", depth),
        lambda e, depth: e.halved("int", depth),
        _double_of_integer,
        _third,
    ),
    "string": (
        *_common("string"),
        _concat,
        _of_one("string", "UPPER({})", STRING, _same),
        _of_one("string", "LOWER({})", STRING, _same),
        _of_one("string", "TRIM({})", STRING, _same),
        _of_one("string", "SUBSTRING({}, 1, 1)", STRING, lambda bound: 1.0),
        _of_one("string", "SUBSTRING({}, -2, 2)", STRING, lambda bound: 2.0),
        _as_text("int", 20.0),
        _as_text("decimal", 30.0),
        _as_text("boolean", 5.0),
        _as_text("date", 10.0),
    ),
    "date": (
        *_common("date"),
        _of_one("date", "DATE_ADD({}, 1)", DATE, _same),
        _of_one("date", "DATE_SUB({}, 30)", DATE, _same),
    ),
    "boolean": (
        *(_comparison, _comparison, _comparison, _comparison),
        *(_null_safe, _null_test, _membership, _between, _like),
        *(_connective, _connective, _negation),
        lambda e, depth: e.coalesce("boolean", depth),
    ),
}
