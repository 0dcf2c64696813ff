"""Scalar expressions: a typed tree, frozen and checked at birth.

An expression reads the columns of a row and gives a value of a Spark type. Its nodes are columns (`Ref`), constants
(`Literal`), functions that the tree knows (`Apply`, by their class in Catalyst), lambdas with their variables, readings of
the clock, and everything else (`Foreign`), which carries Spark's own text and its inputs. Two spellings of one
expression are one tree: front ends build expressions through `normalize`. A tree prints text (`sql`); no code reads it back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from nabla._cached import cached_property
from nabla.algebra.functions import FUNCTIONS, NEGATED, Function
from nabla.algebra.names import label_of

Names = Callable[[str], str]
"""Writes the name of a column: quoted for Spark, plain for people."""

# A text literal is matched so that a hole inside it is not taken for one.
_HOLE = re.compile(r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`\{(?P<number>\d+)\}`""")


class MalformedExpression(Exception):
    """Code built an expression that makes no sense. This is a bug of that code, never of a user's query."""


def quote(name: str) -> str:
    """A name as Spark SQL writes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Column:
    """A column of a relation: a name that is unique in the whole query, a Spark type in DDL, and whether it can be NULL."""

    name: str
    type: str
    nullable: bool = True

    @property
    def label(self) -> str:
        """The name without the number that makes it unique."""
        return label_of(self.name)

    @property
    def ref(self) -> Expr:
        return Ref(self.name, self.type, self.nullable)

    def rename(self, name: str) -> Column:
        """The same column under another name."""
        return Column(name, self.type, self.nullable)


class Expr:
    """A scalar expression. `type` is a Spark type in DDL, `parts` are the expressions that it is made of."""

    type: str
    nullable: bool

    @property
    def parts(self) -> tuple[Expr, ...]:
        return ()

    def with_parts(self, *parts: Expr) -> Expr:
        """The same node over other parts."""
        return self

    def spell(self, names: Names) -> str:
        """The expression as Spark SQL, its columns written as `names` has them."""
        raise MalformedExpression(f"{type(self).__name__} does not say how it is written")

    @cached_property
    def sql(self) -> str:
        return self.spell(quote)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of the columns that the expression reads."""
        return frozenset().union(*(part.columns for part in self.parts))

    @property
    def column(self) -> str | None:
        """The name of the column, if the expression is just a column."""
        return None

    @cached_property
    def deterministic(self) -> bool:
        return all(part.deterministic for part in self.parts)

    @property
    def sides(self) -> tuple[Expr, Expr] | None:
        """The two expressions that an equality equates."""
        return None

    @property
    def null_safe(self) -> bool:
        """Whether an equality takes two NULLs as equal."""
        return False

    def walk(self) -> Iterator[Expr]:
        """This expression and everything below it, top down."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def rewrite(self, change: Callable[[Expr], Expr]) -> Expr:
        """The expression with every node rewritten, bottom up."""
        parts = [part.rewrite(change) for part in self.parts]
        same = all(a is b for a, b in zip(parts, self.parts, strict=True))
        return change(self if same else self.with_parts(*parts))

    def substitute(self, definitions: Mapping[str, Expr]) -> Expr:
        """The expression with columns replaced by the expressions that define them."""
        if self.columns.isdisjoint(definitions):
            return self
        return self.with_parts(*(part.substitute(definitions) for part in self.parts))

    def __str__(self) -> str:
        return self.spell(label_of)


@dataclass(frozen=True)
class Ref(Expr):
    """The value of a column."""

    name: str
    type: str
    nullable: bool = True

    def spell(self, names: Names) -> str:
        return names(self.name)

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset((self.name,))

    @property
    def column(self) -> str:
        return self.name

    def substitute(self, definitions: Mapping[str, Expr]) -> Expr:
        return definitions.get(self.name, self)


@dataclass(frozen=True)
class Literal(Expr):
    """A constant. `value` is the text of its value, which is read by its type, or None for NULL."""

    value: str | None
    type: str

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.value is None

    def spell(self, names: Names) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        if self.value is None:
            return "NULL" if self.type in ("void", "") else f"CAST(NULL AS {self.type})"
        return _WRITTEN.get(self.type.partition("(")[0], _interval)(self.value, self.type)


def string_literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _decimal(value: str, type_: str) -> str:
    """A decimal as Spark SQL. Spark reads `2.50BD` as decimal(3,2), so another type needs a cast."""
    digits = value.lstrip("-").replace(".", "").lstrip("0")
    scale = len(value.partition(".")[2])
    if "E" in value.upper() or type_ != f"decimal({max(len(digits), scale)},{scale})":
        return f"CAST('{value}' AS {type_})"
    return f"{value}BD"


def _double(value: str, type_: str) -> str:
    return f"CAST('{value}' AS DOUBLE)" if value.lstrip("-")[:1].isalpha() else f"{value}D"


def _interval(value: str, type_: str) -> str:
    """An interval as Spark SQL: its value is the text that Spark wrote."""
    return value


_WRITTEN: dict[str, Callable[[str, str], str]] = {
    "boolean": lambda value, _: value,
    "tinyint": lambda value, _: f"{value}Y",
    "smallint": lambda value, _: f"{value}S",
    "int": lambda value, _: value,
    "bigint": lambda value, _: f"{value}L",
    "decimal": _decimal,
    "float": lambda value, _: f"CAST('{value}' AS FLOAT)",
    "double": _double,
    "string": lambda value, _: string_literal(value),
    "date": lambda value, _: f"DATE '{value}'",
    "timestamp": lambda value, _: f"TIMESTAMP '{value}'",
    "timestamp_ntz": lambda value, _: f"TIMESTAMP_NTZ '{value}'",
    "binary": lambda value, _: f"X'{value}'",
}


def is_literal_type(type_: str) -> bool:
    """Whether a constant of the type can be a `Literal`; constants of other types are `Foreign`."""
    return (type_.partition("(")[0] in _WRITTEN and " " not in type_) or type_.startswith("interval ")


@dataclass(frozen=True)
class Apply(Expr):
    """A function that the tree knows, by its class in Catalyst, applied to its arguments."""

    function: str
    arguments: tuple[Expr, ...]
    type: str
    nullable: bool = True

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise MalformedExpression(f"{self.function} is no function that the tree knows: it has to be Foreign")
        if not FUNCTIONS[self.function].takes(len(self.arguments)):
            raise MalformedExpression(f"{self.function} does not take {len(self.arguments)} arguments")

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.arguments

    def with_parts(self, *parts: Expr) -> Expr:
        nullable = self.nullable or any(
            new.nullable and not old.nullable for new, old in zip(parts, self.arguments, strict=True)
        )
        return replace(self, arguments=parts, nullable=nullable and self.function not in _NEVER_NULL)

    def spell(self, names: Names) -> str:
        function, arguments = FUNCTIONS[self.function], self.arguments
        inner = arguments[0] if arguments and self.function == "Not" else None
        if isinstance(inner, Apply) and inner.is_truth_test:
            function, arguments = Function("IS NOT TRUE", "postfix"), inner.arguments[:1]
        elif isinstance(inner, Apply) and inner.function in NEGATED:
            function, arguments = NEGATED[inner.function], inner.arguments
        elif self.is_truth_test:
            function, arguments = Function("IS TRUE", "postfix"), arguments[:1]
        return function.write([a.spell(names) for a in arguments], self.type)

    @property
    def is_truth_test(self) -> bool:
        """Whether it is `x <=> true`, which people write as `x IS TRUE`."""
        return self.null_safe and self.arguments[1] == Literal("true", "boolean")

    @property
    def sides(self) -> tuple[Expr, Expr] | None:
        if self.function not in ("EqualTo", "EqualNullSafe"):
            return None
        left, right = self.arguments
        return left, right

    @property
    def null_safe(self) -> bool:
        return self.function == "EqualNullSafe"


_NEVER_NULL = frozenset(("EqualNullSafe", "IsNull", "IsNotNull", "CreateNamedStruct", "CreateArray", "CreateMap"))


@dataclass(frozen=True)
class Variable(Expr):
    """A variable of a lambda; its name is unique among the lambdas of an expression."""

    name: str
    type: str
    nullable: bool = True

    def spell(self, names: Names) -> str:
        return self.name


@dataclass(frozen=True)
class Lambda(Expr):
    """A lambda: an argument of higher-order functions such as `transform`."""

    variables: tuple[Variable, ...]
    body: Expr

    @property
    def type(self) -> str:  # type: ignore[override]
        return self.body.type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        return self.body.nullable

    @property
    def parts(self) -> tuple[Expr, ...]:
        return (self.body,)

    def with_parts(self, *parts: Expr) -> Expr:
        return replace(self, body=parts[0])

    def spell(self, names: Names) -> str:
        # Spark's parser takes parentheses around two variables and refuses them around one.
        variables = ", ".join(v.name for v in self.variables)
        return f"{variables if len(self.variables) == 1 else f'({variables})'} -> {self.body.spell(names)}"


@dataclass(frozen=True)
class Clock(Expr):
    """A function of the clock, `current_date()`: at the moment of the refresh, or `before` it, which the view reflects.

    It prints as a token that is not SQL, «current_date()». `Moments.bound` puts the value in its place before Spark runs it.
    """

    function: str
    type: str
    before: bool = False

    nullable = False

    def spell(self, names: Names) -> str:
        return f"«{self.function}{' before' if self.before else ''}»"


@dataclass(frozen=True)
class Foreign(Expr):
    """An expression that the tree does not know: Spark's text of it, with a hole `{0}` in backticks for each input."""

    template: str
    inputs: tuple[Expr, ...]
    type: str
    nullable: bool = True
    stable: bool = True
    """Whether it gives the same value for the same inputs each time."""

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.inputs

    def with_parts(self, *parts: Expr) -> Expr:
        more = any(new.nullable and not old.nullable for new, old in zip(parts, self.inputs, strict=True))
        return replace(self, inputs=parts, nullable=self.nullable or more)

    @cached_property
    def deterministic(self) -> bool:
        return self.stable and all(part.deterministic for part in self.inputs)

    def spell(self, names: Names) -> str:
        texts = [part.spell(names) for part in self.inputs]
        return _HOLE.sub(lambda hole: texts[int(hole["number"])] if hole["number"] else hole[0], self.template)


def hole(number: int) -> str:
    """The place of an input in the template of a `Foreign`."""
    return f"`{{{number}}}`"


def _remember_hash(kind: type[Expr]) -> None:
    """Compute the hash of a node once: caches look up the same expressions again and again."""
    compute = kind.__hash__

    def remembered(self: Expr) -> int:
        if "_hash" not in self.__dict__:
            self.__dict__["_hash"] = compute(self)
        return int(self.__dict__["_hash"])

    def state(self: Expr) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}  # differs between processes

    kind.__hash__ = remembered  # type: ignore[assignment]
    kind.__getstate__ = state  # type: ignore[assignment]


for _kind in (Ref, Literal, Apply, Variable, Lambda, Clock, Foreign):
    _remember_hash(_kind)
