"""Scalar expressions: Spark SQL text over uniquely named columns.

Expressions are Spark's, so Nabla does not model them: it needs to know which columns a text reads, what type it has,
whether it is deterministic, and, for a conjunct of a join, whether it equates something of one side with something of
the other. (Plain ones are evaluated in Python too, by the specification: see `evaluator`.) Columns are written in
backticks and every column of a query has a name of its own (`amount#12`), so that substitution is replacement of tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from nabla._cached import cached_property
from nabla.algebra.names import label_of

# A string literal, or a quoted name: literals are matched so that a backtick inside them is not taken for a column.
_TOKEN = re.compile(r"""(?P<text>r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*")|`(?P<name>(?:[^`]|``)+)`""", re.IGNORECASE)


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
        return Expr(quote(self.name), self.type, self.nullable)

    def renamed(self, name: str) -> Column:
        return Column(name, self.type, self.nullable)


@dataclass(frozen=True)
class Expr:
    """Spark SQL text. `sides` is set on an equality: the two expressions it equates."""

    sql: str
    type: str
    nullable: bool = True
    deterministic: bool = True
    sides: tuple[Expr, Expr] | None = None
    null_safe: bool = False

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset(match["name"].replace("``", "`") for match in _TOKEN.finditer(self.sql) if match["name"])

    @cached_property
    def column(self) -> str | None:
        """The name of the column, where the expression is nothing but one."""
        match = _TOKEN.fullmatch(self.sql)
        return match["name"].replace("``", "`") if match and match["name"] else None

    def substitute(self, definitions: Mapping[str, Expr]) -> Expr:
        """The expression with columns replaced by what defines them."""
        if not self.columns & definitions.keys():
            return self
        if self.column is not None:
            return definitions[self.column]

        def replace(match: re.Match[str]) -> str:
            name = (match["name"] or "").replace("``", "`")
            if name not in definitions:
                return match[0]
            definition = definitions[name]
            return definition.sql if definition.column else f"({definition.sql})"

        used = [definitions[name] for name in self.columns if name in definitions]
        return Expr(
            _TOKEN.sub(replace, self.sql),
            self.type,
            self.nullable or any(e.nullable for e in used),
            self.deterministic and all(e.deterministic for e in used),
            (self.sides[0].substitute(definitions), self.sides[1].substitute(definitions)) if self.sides else None,
            self.null_safe,
        )

    def __str__(self) -> str:
        return readable(self.sql)


@dataclass(frozen=True)
class Named:
    """An expression and the column it defines."""

    column: Column
    expr: Expr

    @property
    def is_rename(self) -> bool:
        return self.expr.column is not None


@dataclass(frozen=True)
class Order:
    expr: Expr
    ascending: bool = True
    nulls_first: bool = True

    @property
    def direction(self) -> str:
        return f"{'ASC' if self.ascending else 'DESC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"

    @property
    def sql(self) -> str:
        return f"{self.expr.sql} {self.direction}"

    def __str__(self) -> str:
        return readable(self.sql)


@dataclass(frozen=True)
class Call:
    """An aggregate function applied to a group. `template` is set where plain call syntax would not print it
    (`percentile_cont(0.5) WITHIN GROUP (ORDER BY {0})`); it refers to the arguments by position."""

    column: Column
    function: str
    arguments: tuple[Expr, ...] = ()
    distinct: bool = False
    filter: Expr | None = None
    template: str = ""

    @property
    def sql(self) -> str:
        arguments = [a.sql for a in self.arguments]
        if self.template:
            text = self.template.format(*arguments)
        else:
            text = f"{self.function}({'DISTINCT ' if self.distinct else ''}{', '.join(arguments) or '*'})"
        return text + (f" FILTER (WHERE {self.filter.sql})" if self.filter else "")

    @property
    def inputs(self) -> tuple[Expr, ...]:
        return self.arguments + ((self.filter,) if self.filter else ())

    def substitute(self, definitions: Mapping[str, Expr]) -> Call:
        return Call(
            self.column,
            self.function,
            tuple(a.substitute(definitions) for a in self.arguments),
            self.distinct,
            self.filter.substitute(definitions) if self.filter else None,
            self.template,
        )

    def __str__(self) -> str:
        return readable(self.sql)


@dataclass(frozen=True)
class WindowCall:
    """A window function: its text up to OVER, and its frame (`ROWS BETWEEN …`) if it has one."""

    column: Column
    call: Expr
    order: tuple[Order, ...] = ()
    frame: str = ""
    ordered_inputs: tuple[Expr, ...] = field(default=())

    def over(self, partition: Iterable[str]) -> str:
        parts = []
        if names := ", ".join(quote(p) for p in partition):
            parts.append(f"PARTITION BY {names}")
        if self.order:
            parts.append("ORDER BY " + ", ".join(o.sql for o in self.order))
        if self.frame:
            parts.append(self.frame)
        return f"{self.call.sql} OVER ({' '.join(parts)})"


def equal(left: Expr, right: Expr, null_safe: bool = False) -> Expr:
    """`left = right`, or `left <=> right`, which takes two NULLs as equal."""
    sql = f"({left.sql} {'<=>' if null_safe else '='} {right.sql})"
    nullable = not null_safe and (left.nullable or right.nullable)
    return Expr(sql, "boolean", nullable, left.deterministic and right.deterministic, (left, right), null_safe)


def in_words(sql: str, name: Callable[[str], str]) -> str:
    """The text with its columns, backticks and all, replaced by what `name` calls them."""

    def plain(match: re.Match[str]) -> str:
        return match[0] if match["text"] else name(match["name"].replace("``", "`"))

    return _TOKEN.sub(plain, sql)


def quoted_names(sql: str) -> list[str]:
    """The names in backticks, each once, in the order of the text."""
    return list(dict.fromkeys(m["name"].replace("``", "`") for m in _TOKEN.finditer(sql) if m["name"]))


def readable(sql: str) -> str:
    """The text for people: `amount#12` without backticks and number."""
    return in_words(sql, label_of)
