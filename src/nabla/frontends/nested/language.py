"""The language of nested views: `nabla.nested("stud").select(…).join("teach").project(…)`.

An expression is immutable and knows names only; it is checked against the tables' schemas when it becomes a plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

from nabla.errors import NablaError
from nabla.frontends.nested.conditions import Selection

Shape: TypeAlias = "Sequence[str | Mapping[str, Shape]]"
"""Attributes by name, and structured ones by name and what is inside of them: ["Year", {"Marks": ["testName"]}]."""


@dataclass(frozen=True, eq=False)
class Nested(ABC):
    """A nested view in the making. Every method gives another one."""

    def select(self, where: str | None = None, **parts: Selection) -> Select:
        """σ̂: the tuples whose atomic attributes satisfy `where`, with their subrelations selected.

        A subrelation has a condition of its own: {"where": "Mark >= 90"} on its atomic attributes, further subrelations
        by name, and "is": "nonempty" or "empty" for what must be true of the selected subrelation, or the tuple goes.

            nabla.nested("stud").select("Name <> 'Jack'", Subjs={"where": "Year = 1998", "is": "nonempty"})
        """
        return Select(self, {**({"where": where} if where is not None else {}), **parts})

    def project(self, *attributes: str | Mapping[str, Shape], **parts: Shape) -> Project:
        """π̂: only the named structured attributes. Keys always stay, so atomic attributes need not be named.

        nabla.nested("stud").project("Tels", Subjs=["Marks"])
        """
        return Project(self, (*attributes, *([parts] if parts else [])))

    def expand(self, schema: str) -> Expand:
        """η: more structured attributes, all empty. `schema` is that of the result, in Spark's DDL."""
        return Expand(self, schema)

    def union(self, other: str | Nested) -> Union:
        """⊕: the tuples of both; where both have a key, their subrelations are united in turn."""
        return Union(self, nested(other))

    def difference(self, other: str | Nested) -> Difference:
        """⊖: less what the other has; a tuple goes when nothing of it is left."""
        return Difference(self, nested(other))

    def intersect(self, other: str | Nested) -> Intersect:
        """⊙: the keys that both have, with what both have in them."""
        return Intersect(self, nested(other))

    def join(self, other: str | Nested) -> Join:
        """⋈: the keys that both have; common subrelations are joined in turn, the others carried over."""
        return Join(self, nested(other))

    @property
    def inputs(self) -> tuple[Nested, ...]:
        return tuple(value for f in fields(self) if isinstance(value := getattr(self, f.name), Nested))

    def walk(self) -> Iterator[Nested]:
        """This expression and what it is made of, inside out."""
        for part in self.inputs:
            yield from part.walk()
        yield self

    @abstractmethod
    def __str__(self) -> str:
        """The text that makes it."""

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Table(Nested):
    """A nested table or view. Any other table is read as the union of its rows."""

    name: str

    def __str__(self) -> str:
        return f"nested({self.name!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Nest(Nested):
    """A flat table, nested: its rows united, each read as a tuple with one tuple in every subrelation."""

    name: str
    shape: Shape

    def __str__(self) -> str:
        return f"nest({', '.join([repr(self.name), *_arguments(self.shape)])})"


@dataclass(frozen=True, eq=False, repr=False)
class Select(Nested):
    input: Nested
    selection: Selection

    def __str__(self) -> str:
        return f"{self.input}.select({', '.join(f'{name}={value!r}' for name, value in self.selection.items())})"


@dataclass(frozen=True, eq=False, repr=False)
class Project(Nested):
    input: Nested
    shape: Shape

    def __str__(self) -> str:
        return f"{self.input}.project({', '.join(_arguments(self.shape))})"


@dataclass(frozen=True, eq=False, repr=False)
class Expand(Nested):
    input: Nested
    target: str

    def __str__(self) -> str:
        return f"{self.input}.expand({self.target!r})"


@dataclass(frozen=True, eq=False, repr=False)
class _Binary(Nested):
    left: Nested
    right: Nested

    def __str__(self) -> str:
        other = repr(self.right.name) if isinstance(self.right, Table) else str(self.right)
        return f"{self.left}.{type(self).__name__.lower()}({other})"


class Union(_Binary):
    pass


class Difference(_Binary):
    pass


class Intersect(_Binary):
    pass


class Join(_Binary):
    pass


def nested(table: str | Nested) -> Nested:
    """A nested table or view of the lake, to make a view from."""
    if isinstance(table, Nested):
        return table
    if not isinstance(table, str):
        raise NablaError(
            "NABLA_NOT_NESTED",
            f"cannot make a nested view from {table!r}",
            place="nabla.nested",
            remedy="Name a table of the lake, or use another nested expression.",
        )
    return Table(table)


def nest(table: str, *columns: str | Mapping[str, Shape], **parts: Shape) -> Nested:
    """A flat table or view as a nested relation: columns of the top level, and subrelations by name.

    nabla.nest("enrolments", "Name", Subjs=["sjName", "Year", {"Marks": ["testName", "Mark"]}])
    """
    return Nest(table, (*columns, *([parts] if parts else [])))


def entries(shape: Shape) -> Iterator[tuple[str, Shape | None]]:
    """The attributes that a shape names, with what is inside of those for which it says so."""
    for item in [shape] if isinstance(shape, str | Mapping) else shape:
        if isinstance(item, Mapping):
            yield from item.items()
        else:
            yield item, None


def _arguments(shape: Shape) -> list[str]:
    return [repr(name) if inner is None else f"{name}={inner!r}" for name, inner in entries(shape)]
