"""The language of nested views: `nabla.nested("stud").select(…).join("teach").project(…)`.

An expression is immutable and knows names only; it is checked against the tables' schemas when it becomes a plan.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

from nabla.errors import NablaError, wrong_argument
from nabla.frontends.nested.conditions import Selection
from nabla.frontends.nested.levels import Level, Path, read_path

Shape: TypeAlias = "Sequence[str | Mapping[str, Shape]]"
"""Attributes by name, and structured ones by name and what is inside of them: ["Year", {"Marks": ["testName"]}]."""


@dataclass(frozen=True, eq=False)
class Nested(ABC):
    """An expression that defines a nested view. Every method gives a new expression.

    With `at` an operator works at a level below the top, which is named by its path: "Subjs", or "Subjs.Marks". It is applied
    to that subrelation of every tuple; all else stays. The other operand is then a relation like the subrelation.
    """

    def select(self, where: str | None = None, at: Level = None, **parts: Selection) -> Select:
        """σ̂: the tuples whose atomic attributes satisfy `where`, with their subrelations selected.

        A subrelation has a condition of its own: {"where": "Mark >= 90"} on its atomic attributes, further subrelations
        by name, and "is": "nonempty" or "empty" if only tuples are kept whose selected subrelation is so.

            nabla.nested("stud").select("Name <> 'Jack'", Subjs={"where": "Year = 1998", "is": "nonempty"})
            nabla.nested("stud").select("Mark >= 90", at="Subjs.Marks")
        """
        selection: Selection = {**({"where": where} if where is not None else {}), **parts}
        for name in reversed(read_path(at)):
            selection = {name: selection}
        return Select(self, selection)

    def project(self, *attributes: str | Mapping[str, Shape], at: Level = None, **parts: Shape) -> Project:
        """π̂: only the named structured attributes. Keys always stay, so atomic attributes need not be named.

        nabla.nested("stud").project("Tels", Subjs=["Marks"])
        nabla.nested("stud").project("Marks", at="Subjs")
        """
        return Project(self, _checked_shape((*attributes, *([parts] if parts else []))), read_path(at))

    def expand(self, schema: str, at: Level = None) -> Expand:
        """η: more structured attributes, all empty. `schema` is that of the result, or of its level `at`, in Spark's DDL."""
        if not isinstance(schema, str):
            raise wrong_argument("schema", schema, "the schema of the result, as text")
        return Expand(self, schema, read_path(at))

    def union(self, other: str | Nested, at: Level = None) -> Union:
        """⊕: the tuples of both; tuples with the same key are one tuple, with the unions of their subrelations."""
        return Union(self, nested(other), read_path(at))

    def difference(self, other: str | Nested, at: Level = None) -> Difference:
        """⊖: the tuples without what the other relation has of them; a tuple of which nothing is left is dropped."""
        return Difference(self, nested(other), read_path(at))

    def intersect(self, other: str | Nested, at: Level = None) -> Intersect:
        """⊙: the keys that both have, with the intersections of their subrelations."""
        return Intersect(self, nested(other), read_path(at))

    def join(self, other: str | Nested, at: Level = None, on: Mapping[str, str] | None = None) -> Join:
        """⋈: the keys that both have; common subrelations are joined in turn, the others carried over.

        `on` names subrelations of this operand and of the other one that must meet, too: have tuples that are equal in the
        atomic attributes that both have.

            nabla.nested("stud").join("test", at="Subjs")
            nabla.nested("stud").join("test", at="Subjs", on={"Marks": "TestNames"})
        """
        pairs = dict(on) if isinstance(on, Mapping) else {} if on is None else {None: None}
        if not all(isinstance(name, str) for pair in pairs.items() for name in pair):
            raise wrong_argument("on", on, 'names of subrelations, such as {"Marks": "TestNames"}')
        return Join(self, nested(other), read_path(at), tuple((str(p), str(q)) for p, q in pairs.items()))

    @property
    def inputs(self) -> tuple[Nested, ...]:
        return tuple(value for f in fields(self) if isinstance(value := getattr(self, f.name), Nested))

    def walk(self) -> Iterator[Nested]:
        """The parts of this expression and the expression itself, inside out."""
        for part in self.inputs:
            yield from part.walk()
        yield self

    @abstractmethod
    def __str__(self) -> str:
        """The Python text that makes the expression."""

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
    """A flat table as a nested relation: the union of its rows, each read as a tuple with one tuple in every subrelation."""

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
    at: Path = ()

    def __str__(self) -> str:
        return f"{self.input}.project({', '.join([*_arguments(self.shape), *_place(self.at)])})"


@dataclass(frozen=True, eq=False, repr=False)
class Expand(Nested):
    input: Nested
    target: str
    at: Path = ()

    def __str__(self) -> str:
        return f"{self.input}.expand({', '.join([repr(self.target), *_place(self.at)])})"


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Nested):
    """An operator on two relations. Below the top level the right one is a relation for all subrelations `at` the path."""

    left: Nested
    right: Nested
    at: Path = ()

    def __str__(self) -> str:
        other = repr(self.right.name) if isinstance(self.right, Table) else str(self.right)
        return f"{self.left}.{type(self).__name__.lower()}({', '.join([other, *_place(self.at)])})"


class Union(Binary):
    pass


class Difference(Binary):
    pass


class Intersect(Binary):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class Join(Binary):
    on: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        plain = super().__str__()
        return f"{plain[:-1]}, on={dict(self.on)!r})" if self.on else plain


def nested(table: str | Nested) -> Nested:
    """A nested table or view of the lake, as the start of an expression."""
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
    if not isinstance(table, str):
        raise wrong_argument("table", table, "the name of a table or view")
    return Nest(table, _checked_shape((*columns, *([parts] if parts else []))))


def _checked_shape(shape: Shape) -> Shape:
    """The shape itself, if it is made of names and dicts of names all the way down."""
    for item in [shape] if isinstance(shape, str | Mapping) else shape if isinstance(shape, list | tuple) else [None]:
        if isinstance(item, Mapping):
            for name, inner in item.items():
                _checked_shape([name])
                _checked_shape(inner)
        elif not isinstance(item, str):
            raise wrong_argument("an attribute", shape if item is None else item, 'a name, or {"name": [names inside]}')
    return shape


def entries(shape: Shape) -> Iterator[tuple[str, Shape | None]]:
    """The attributes that a shape names, each with the shape inside of it, if there is one."""
    for item in [shape] if isinstance(shape, str | Mapping) else shape:
        if isinstance(item, Mapping):
            yield from item.items()
        else:
            yield item, None


def _arguments(shape: Shape) -> list[str]:
    return [repr(name) if inner is None else f"{name}={inner!r}" for name, inner in entries(shape)]


def _place(at: Path) -> list[str]:
    """The argument that names a level, if it is not the top."""
    if not at:
        return []
    return [f"at={at!r}" if any("." in name for name in at) else f"at={'.'.join(at)!r}"]
