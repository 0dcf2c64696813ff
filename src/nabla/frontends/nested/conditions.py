"""Selection conditions. Each level has a condition on its atoms and a condition for each subrelation, whose selection may have
to be empty or non-empty (definitions 2.4 to 2.6).

A condition on atoms is Spark SQL. It is parsed to find and check the attributes that it reads, and kept as an expression
over them, and as text for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from nabla._cached import cached_property
from nabla.algebra.expressions import Expr, quote
from nabla.algebra.parse import read
from nabla.errors import NablaError
from nabla.frontends.nested.schema import Schema, level, resolver

Test: TypeAlias = Literal["any", "empty", "nonempty"]
Selection: TypeAlias = "Mapping[str, str | Selection]"
"""As users write it: {"where": "Year = 1998", "Marks": {"where": "Mark >= 90", "is": "nonempty"}, "is": "nonempty"}."""

_REMEDY = "A condition compares atomic attributes of its own level with each other and with constants."
TESTS = ("any", "empty", "nonempty")
_SPARK = Dialect.get_or_raise("spark")
_CHANGEABLE = frozenset(
    (
        *("rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id"),
        *("now", "curdate", "current_date", "current_timestamp", "current_timezone", "localtimestamp"),
        *("input_file_name", "current_user", "user", "session_user"),
    )
)
_REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Query, "a subquery"),
    (exp.Window, "a window function"),
    (exp.AggFunc, "an aggregate function"),
)


@dataclass(frozen=True)
class Where:
    """A condition on the atoms of one level: its text, and its expression, whose columns are the attributes."""

    text: str
    expr: Expr

    def over(self, values: Mapping[str, Expr]) -> Expr:
        """The condition over the values of the attributes."""
        return self.expr.substitute(values)


@dataclass(frozen=True)
class Condition:
    """c = (c_b ∧ R₁*.c₁ θ r₁ ∧ … ∧ Rₙ*.cₙ θ rₙ); `test` is the test of existence for the selection."""

    where: Where | None = None
    parts: tuple[tuple[str, Condition], ...] = ()
    test: Test = "any"

    @cached_property
    def by_name(self) -> dict[str, Condition]:
        return dict(self.parts)

    @property
    def text(self) -> str:
        """The condition as the paper writes it: Year = 1998 ∧ Marks*: (Mark >= 90) ≠ ∅."""
        signs = {"any": "", "empty": " = ∅", "nonempty": " ≠ ∅"}
        parts = [f"{name}*: ({part.text}){signs[part.test]}" for name, part in self.parts]
        return " ∧ ".join([self.where.text, *parts] if self.where else parts) or "true"


def condition(selection: Selection, schema: Schema, path: tuple[str, ...] = ()) -> Condition:
    """A user's selection, checked against the schema."""
    find = resolver(schema, schema.structured, "structured attribute", path)
    where: Where | None = None
    parts: dict[str, Condition] = {}
    test: str = "any"
    for name, value in selection.items():
        if name == "where":
            where = _where(value, schema, path)
        elif name == "is":
            test = str(value)
        else:
            attribute = find(name)
            if not isinstance(value, Mapping):
                raise _refusal(f'the condition on "{name}" is {value!r}', path, f'Write {name}={{"where": "…"}}.')
            parts[attribute] = condition(value, schema[attribute], (*path, attribute))
    if test not in TESTS or (test != "any" and not path):
        raise _refusal(f'"is" is {test!r}', path, 'A subrelation "is" "empty", "nonempty" or "any".')
    return Condition(where, tuple((n, parts[n]) for n in schema.structured if n in parts), cast(Test, test))


def _where(text: Any, schema: Schema, path: tuple[str, ...]) -> Where:
    if not isinstance(text, str):
        raise _refusal(f"{text!r} is not a condition in Spark SQL", path, _REMEDY)
    try:
        text = text.strip().removesuffix(";")
        trees = _SPARK.parse(text)
    except SqlglotError as error:
        raise _refusal(f"{text!r} is not a condition in Spark SQL", path, _REMEDY) from error
    if len(trees) != 1 or trees[0] is None or any(node.comments for node in trees[0].walk()):
        raise _refusal(f"{text!r} is not one condition in Spark SQL", path, _REMEDY)
    tree = trees[0]
    for kind, what in _REFUSED:
        if tree.find(kind):
            raise _refusal(f"{text!r} has {what}", path, _REMEDY)
    for call in tree.find_all(exp.Func):
        names = {name.lower() for name in call.sql_names()} | {call.name.lower()}
        if names & _CHANGEABLE:
            raise _refusal(f"{text!r} gives another value each time", path, _REMEDY)
    columns = {name: (kind, True) for name, kind in schema.atoms}
    return Where(text, read(f"({_quote_attributes(text, tree, schema, path)})", columns, "boolean"))


def _quote_attributes(text: str, tree: exp.Expr, schema: Schema, path: tuple[str, ...]) -> str:
    """The text with the attributes that it reads in backticks, as the schema spells them."""
    find = resolver(schema, schema.key, "atomic attribute", path)
    heads = (column.parts[0] for column in tree.find_all(exp.Column))
    for head in sorted(heads, key=lambda head: -head.meta["start"]):
        text = f"{text[: head.meta['start']]}{quote(find(head.name))}{text[head.meta['end'] + 1 :]}"
    return text


def _refusal(what: str, path: tuple[str, ...], remedy: str) -> NablaError:
    return NablaError("NABLA_NESTED_CONDITION", what, place=level(path), remedy=remedy)
