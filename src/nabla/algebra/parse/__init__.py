"""Spark SQL text read as an expression tree.

Views come from Catalyst, which has resolved them; text is read where there is no Spark: definitions that version 0.1 stored
as text, conditions of nested relations, and tests. Types of inner expressions follow from those of the columns. A text that
holds anything unknown becomes one `Foreign` node over its columns, and so keeps its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from nabla.algebra.calls import Call
from nabla.algebra.expressions import Apply, Clock, Column, Expr, Foreign, Literal, Ref, hole
from nabla.algebra.normalize import make
from nabla.algebra.parse import functions as _functions  # noqa: F401  (registers its forms)
from nabla.algebra.parse import operators as _operators  # noqa: F401  (registers its forms)
from nabla.algebra.parse.reader import Reader, Unreadable, arguments_of

Types: TypeAlias = Mapping[str, tuple[str, bool]]
"""The type of each column, and whether it can be NULL."""

_SPARK = Dialect.get_or_raise("spark")
# A string literal, a quoted name or a reading of the clock; literals are matched so that nothing inside them is a name.
_TOKEN = re.compile(
    r"""(?P<text>r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*")|`(?P<name>(?:[^`]|``)+)`|«(?P<clock>\w+\(\))(?P<before> before)?»""",
    re.IGNORECASE,
)
# Spark prints BETWEEN as a function, which sqlglot does not know.
_BETWEEN = re.compile(r"""(r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*")|\bbetween\(""", re.IGNORECASE)
_CLOCK_TYPES = {"current_date()": "date", "current_timestamp()": "timestamp", "localtimestamp()": "timestamp_ntz"}


def read(text: str, columns: Types, type_: str = "", nullable: bool = True, deterministic: bool = True) -> Expr:
    """The expression of a text, in normal form. `type_` and `nullable` are those of the whole, if the caller knows them."""
    try:
        found = parse(text, columns)
    except Unreadable:
        return foreign(text, columns, type_, nullable, deterministic)
    if not deterministic:
        return foreign(text, columns, type_, nullable, deterministic)
    typed = _as_type(found, type_, nullable)
    return typed if typed is not None else foreign(text, columns, type_, nullable, deterministic)


def read_around(form: str, inputs: Sequence[Expr], type_: str, nullable: bool = True) -> Expr:
    """The expression that a text such as `({} + {})` makes of expressions in its holes, in normal form. Only the form is
    parsed, and each form once, so that large expressions can be built step by step."""
    if not any(isinstance(part, Foreign) for part in inputs):
        try:
            found = Reader(tuple(inputs)).read(_parse_shape(form.format(*(f"`{n}`" for n in range(len(inputs))))))
            if (typed := _as_type(found, type_, nullable)) is not None:
                return typed
        except Unreadable:
            pass
    refs = (part for whole in inputs for part in whole.walk() if isinstance(part, Ref))
    columns = {ref.name: (ref.type, ref.nullable) for ref in refs}
    return foreign(form.format(*(part.sql for part in inputs)), columns, type_, nullable)


def _as_type(found: Expr, type_: str, nullable: bool) -> Expr | None:
    """The expression with the type that the caller knows, if it knows one. None if it was read as another type."""
    if not type_:
        return found
    if isinstance(found, Literal):
        typed = make("Cast", (found,), type_)  # it stays a constant if its value is the same in that type
        found = typed if isinstance(typed, Literal) else found
    if found.type and _plain_type(found.type) != _plain_type(type_):
        return None
    return replace(found, type=type_, nullable=nullable) if isinstance(found, Apply | Ref) else found


# Aggregate functions that sqlglot has under another name than Spark.
_SPARK_NAMES: dict[type[exp.Expr], str] = {
    exp.ArrayUniqueAgg: "collect_set",
    exp.ArrayAgg: "collect_list",
    exp.Quantile: "percentile",
    exp.FirstValue: "first",
    exp.LastValue: "last",
}


def read_call(text: str, column: Column, columns: Types) -> Call:
    """The call of an aggregate or window function of a text, which ends before OVER."""
    shape, leaves = _shape(text, columns)
    reader = Reader(leaves)
    try:
        node, condition, ignore_nulls = _parse_shape(shape), None, False
        if isinstance(node, exp.Filter):
            condition, node = reader.read(node.expression.this), node.this
        if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
            ignore_nulls, node = isinstance(node, exp.IgnoreNulls), node.this
        arguments = [a for a in arguments_of(node) if not isinstance(a, exp.Star)]
        distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
        read = reader.all(arguments[0].expressions if distinct else arguments)
        return Call(column, _function_name(node), tuple(read), distinct, condition, "", ignore_nulls)
    except Unreadable:
        whole = foreign(text, columns, column.type)
        template = whole.template.replace("{", "{{").replace("}", "}}")
        template = re.sub(r"`\{(\{\d+\})\}`", r"\1", template)
        return Call(column, text.partition("(")[0].lower(), whole.inputs, template=template)


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return str(node.this).lower()
    if not isinstance(node, exp.Func):
        raise Unreadable(f"{node.sql('spark')} is no call")
    return _SPARK_NAMES.get(type(node)) or str(node.sql_names()[0]).lower()


def _plain_type(type_: str) -> str:
    return type_.replace(" ", "").lower()


def parse(text: str, columns: Types) -> Expr:
    """The expression of a text. Raises Unreadable if the tree does not know a part of it."""
    shape, leaves = _shape(text, columns)
    return Reader(leaves).read(_parse_shape(shape))


def foreign(text: str, columns: Types, type_: str, nullable: bool = True, deterministic: bool = True) -> Foreign:
    """The text as a `Foreign` expression over its columns."""
    inputs: dict[Expr, int] = {}

    def put(match: re.Match[str]) -> str:
        if match["text"]:
            return match[0]
        return hole(inputs.setdefault(_leaf(match, columns), len(inputs)))

    template = _TOKEN.sub(put, text)
    return Foreign(template, tuple(inputs), type_, nullable, deterministic)


def _leaf(match: re.Match[str], columns: Types) -> Expr:
    if match["clock"]:
        return Clock(match["clock"], _CLOCK_TYPES[match["clock"]], bool(match["before"]))
    name = match["name"].replace("``", "`")
    return Ref(name, *columns.get(name, ("", True)))


def _shape(text: str, columns: Types) -> tuple[str, tuple[Expr, ...]]:
    """The text with its columns numbered, so that texts which differ only in names are parsed once."""
    leaves: dict[Expr, int] = {}

    def number(match: re.Match[str]) -> str:
        after_dot = match.start() > 0 and match.string[match.start() - 1] == "."
        if match["text"] or after_dot:  # a name after a dot is a field of a struct
            return match[0]
        return f"`{leaves.setdefault(_leaf(match, columns), len(leaves))}`"

    return _TOKEN.sub(number, text), tuple(leaves)


@lru_cache(maxsize=1 << 14)
def _parse_shape(shape: str) -> exp.Expr:
    try:
        trees = _SPARK.parse(_BETWEEN.sub(lambda m: m[1] or "is_between(", shape))
    except (SqlglotError, TypeError, ValueError) as error:
        raise Unreadable(f"{shape} cannot be parsed: {error}") from error
    if len(trees) != 1 or trees[0] is None:
        raise Unreadable(f"{shape} is not one expression")
    return trees[0]
