"""A Catalyst plan as plain Python data, as `CatalystReader.java` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Expression:
    """A Catalyst expression. `sql` is its text with a hole `{0}` for each child; None if Catalyst has no text for it."""

    kind: str
    type: str
    nullable: bool
    deterministic: bool
    id: int | None
    name: str
    sql: str | None
    function: str
    children: tuple[Expression, ...]
    fields: dict[str, Any]
    extra: dict[str, Any] = field(repr=False)

    def walk(self) -> Iterator[Expression]:
        """This expression and the expressions below it, top down, without the plans of subqueries."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, eq=False)
class Operator:
    """A node of a logical plan. `fields` are the parameters of its constructor other than the children."""

    kind: str
    place: str
    output: tuple[Expression, ...]
    children: tuple[Operator, ...]
    fields: dict[str, Any]
    max_rows: int | None

    @property
    def child(self) -> Operator:
        (child,) = self.children
        return child

    def walk(self) -> Iterator[Operator]:
        yield self
        for child in self.children:
            yield from child.walk()


def read(text: str) -> Operator:
    plan = json.loads(text, object_hook=_decode)
    assert isinstance(plan, Operator)
    return plan


def read_expressions(text: str) -> list[Expression]:
    expressions: list[Expression] = json.loads(text, object_hook=_decode)
    return expressions


def _decode(data: dict[str, Any]) -> Any:
    if "operator" in data:
        return Operator(
            kind=data["operator"],
            place=_place(data),
            output=tuple(data["output"]),
            children=tuple(data["children"]),
            fields=data["fields"],
            max_rows=data.get("max_rows"),
        )
    if "expression" in data:
        return Expression(
            kind=data["expression"],
            type=data.get("type", "void"),
            nullable=data.get("nullable", True),
            deterministic=data.get("deterministic", True),
            id=data.get("id"),
            name=data.get("name", ""),
            sql=data.get("sql"),
            function=data.get("function", ""),
            children=tuple(data.get("children", ())),
            fields=data.get("fields", {}),
            extra=data,
        )
    return data


def _place(data: dict[str, Any]) -> str:
    if data.get("line") is None:
        return ""
    position = data.get("position")
    return f"line {data['line']}" + (f", column {position + 1}" if position is not None else "")
