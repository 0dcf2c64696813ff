"""Expressions as operators use them: columns that they define, orders, and calls of aggregate and window functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from nabla.algebra.expressions import Column, Expr, Names, quote
from nabla.algebra.names import label_of


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
    """An item of ORDER BY."""

    expr: Expr
    ascending: bool = True
    nulls_first: bool = True

    @property
    def direction(self) -> str:
        return f"{'ASC' if self.ascending else 'DESC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"

    def spell(self, names: Names) -> str:
        return f"{self.expr.spell(names)} {self.direction}"

    @property
    def sql(self) -> str:
        return self.spell(quote)

    def __str__(self) -> str:
        return self.spell(label_of)


@dataclass(frozen=True)
class Call:
    """An aggregate or window function, and the column that it defines.

    `template` is set where plain call syntax would not print it (`percentile_cont({1}) WITHIN GROUP (ORDER BY {0})`); it
    refers to the arguments by position. `cast` says that the result is cast to the column's type.
    """

    column: Column
    function: str
    arguments: tuple[Expr, ...] = ()
    distinct: bool = False
    filter: Expr | None = None
    template: str = ""
    ignore_nulls: bool = False
    cast: bool = False

    def spell(self, names: Names) -> str:
        arguments = [a.spell(names) for a in self.arguments]
        if self.template:
            text = self.template.format(*arguments)
        else:
            listed = ", ".join(arguments) or ("*" if self.function == "count" else "")
            text = f"{self.function}({'DISTINCT ' if self.distinct else ''}{listed})"
        text += " IGNORE NULLS" if self.ignore_nulls else ""
        text += f" FILTER (WHERE {self.filter.spell(names)})" if self.filter else ""
        return f"CAST({text} AS {self.column.type})" if self.cast else text

    @property
    def sql(self) -> str:
        return self.spell(quote)

    @property
    def inputs(self) -> tuple[Expr, ...]:
        return self.arguments + ((self.filter,) if self.filter else ())

    @property
    def deterministic(self) -> bool:
        return all(e.deterministic for e in self.inputs)

    def substitute(self, definitions: Mapping[str, Expr]) -> Call:
        return replace(
            self,
            arguments=tuple(a.substitute(definitions) for a in self.arguments),
            filter=self.filter.substitute(definitions) if self.filter else None,
        )

    def __str__(self) -> str:
        return self.spell(label_of)


@dataclass(frozen=True)
class Bound:
    """The start or end of a frame: the current row, a distance from it, or without a distance the end of the partition."""

    side: Literal["preceding", "current", "following"]
    distance: Expr | None = None

    def __str__(self) -> str:
        if self == CURRENT_ROW:
            return "CURRENT ROW"
        return f"{self.distance.sql if self.distance else 'UNBOUNDED'} {self.side.upper()}"


UNBOUNDED_PRECEDING, CURRENT_ROW, UNBOUNDED_FOLLOWING = Bound("preceding"), Bound("current"), Bound("following")


@dataclass(frozen=True)
class Frame:
    """The rows around a row that a window function sees: a number of rows, or a range of values of the order."""

    unit: Literal["rows", "range"]
    lower: Bound
    upper: Bound

    def __str__(self) -> str:
        return f"{self.unit.upper()} BETWEEN {self.lower} AND {self.upper}"


@dataclass(frozen=True)
class WindowCall:
    """A function over a window. The operator has the partition; the call has its order and its frame."""

    call: Call
    order: tuple[Order, ...] = ()
    frame: Frame | None = None

    @property
    def column(self) -> Column:
        return self.call.column

    @property
    def inputs(self) -> tuple[Expr, ...]:
        """The expressions that the call evaluates for a row."""
        return (*self.call.inputs, *(o.expr for o in self.order))

    def over(self, partition: Iterable[str], names: Names = quote) -> str:
        parts = []
        if listed := ", ".join(names(p) for p in partition):
            parts.append(f"PARTITION BY {listed}")
        if self.order:
            parts.append("ORDER BY " + ", ".join(o.spell(names) for o in self.order))
        if self.frame:
            parts.append(str(self.frame))
        return f"{self.call.spell(names)} OVER ({' '.join(parts)})"
